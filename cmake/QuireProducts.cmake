# What is delivered: the executable, the library libquire.a, and the CMake package that finds it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

find_package(Git QUIET)
set(QUIRE_GIT_COMMIT "unknown")
if(GIT_FOUND AND EXISTS ${CMAKE_SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${CMAKE_SOURCE_DIR} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE QUIRE_GIT_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.git/logs/HEAD)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/.git/logs/HEAD)
  endif()
endif()
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/engine/build_info.cc PROPERTIES
  COMPILE_DEFINITIONS "QUIRE_VERSION=\"${PROJECT_VERSION}\";QUIRE_GIT_COMMIT=\"${QUIRE_GIT_COMMIT}\"")

add_executable(quire src/cli/main.cc)
target_link_libraries(quire PRIVATE quire_cli)
if(NOT QUIRE_SANITIZE)
  # One file for machines that lack this one's C++ library.
  target_link_options(quire PRIVATE -static-libstdc++ -static-libgcc)
endif()

# libquire.a: everything that the C++ API needs, third-party archives included, in one archive.
set(library_layers base tensor contract quant comm kv io ops sched backends nn sample text models grammar hub lora exec engine api)
set(merge_script "CREATE ${CMAKE_BINARY_DIR}/libquire.a\n")
set(merge_inputs "")
foreach(layer IN LISTS library_layers)
  get_target_property(kind quire_${layer} TYPE)
  if(kind STREQUAL "STATIC_LIBRARY")
    string(APPEND merge_script "ADDLIB $<TARGET_FILE:quire_${layer}>\n")
    list(APPEND merge_inputs quire_${layer})
  endif()
endforeach()
string(APPEND merge_script "ADDLIB $<TARGET_FILE:quire_embedded>\n")
set(QUIRE_SHARED_DEPENDENCIES "")  # what there is no archive of: programs that use libquire.a link it
foreach(archive ${QUIRE_PCRE2_LIBRARY} ${QUIRE_UTF8PROC_LIBRARY} ${OPENSSL_SSL_LIBRARY} ${OPENSSL_CRYPTO_LIBRARY})
  if(archive MATCHES "\\.a$")
    string(APPEND merge_script "ADDLIB ${archive}\n")
  else()
    list(APPEND QUIRE_SHARED_DEPENDENCIES ${archive})
  endif()
endforeach()
string(APPEND merge_script "SAVE\nEND\n")
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/libquire.mri CONTENT "${merge_script}")
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/libquire.a
  COMMAND ${CMAKE_COMMAND} -E rm -f ${CMAKE_BINARY_DIR}/libquire.a
  COMMAND ${CMAKE_AR} -M < ${CMAKE_BINARY_DIR}/libquire.mri
  DEPENDS ${merge_inputs} quire_embedded ${CMAKE_BINARY_DIR}/libquire.mri
  COMMENT "Merging libquire.a")
add_custom_target(quire_library ALL DEPENDS ${CMAKE_BINARY_DIR}/libquire.a)

install(TARGETS quire RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/libquire.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(DIRECTORY include/quire DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
configure_package_config_file(cmake/quireConfig.cmake.in ${CMAKE_BINARY_DIR}/quireConfig.cmake
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quire)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/quireConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/quireConfig.cmake ${CMAKE_BINARY_DIR}/quireConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/quire COMPONENT library)
