# Packages: `cpack -G DEB` and `cpack -G RPM` in the build folder, after `tools/build.sh release quire quire_library`.
# The package quire has the program, its manual page, completion for three shells, and a systemd unit; libquire-dev
# (quire-devel) has the C++ library.

# Packing does not build everything else first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

# The program writes its manual page and completion scripts when it is installed, so that they describe the same flags.
set(QUIRE_GENERATED ${CMAKE_BINARY_DIR}/generated)
find_program(QUIRE_GZIP gzip)
install(CODE "
  file(MAKE_DIRECTORY ${QUIRE_GENERATED})
  foreach(item \"completion bash|quire\" \"completion zsh|_quire\" \"completion fish|quire.fish\" \"man|quire.1\")
    string(REGEX REPLACE \"[|].*\" \"\" words \"\${item}\")
    string(REGEX REPLACE \".*[|]\" \"\" name \"\${item}\")
    separate_arguments(words)
    execute_process(COMMAND ${CMAKE_BINARY_DIR}/quire \${words} OUTPUT_FILE ${QUIRE_GENERATED}/\${name} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  if(NOT \"${QUIRE_GZIP}\" MATCHES NOTFOUND)
    execute_process(COMMAND ${QUIRE_GZIP} -9nf ${QUIRE_GENERATED}/quire.1 COMMAND_ERROR_IS_FATAL ANY)
  endif()" COMPONENT program)
if(QUIRE_GZIP)
  install(FILES ${QUIRE_GENERATED}/quire.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
else()
  install(FILES ${QUIRE_GENERATED}/quire.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
endif()
install(FILES ${QUIRE_GENERATED}/quire DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
install(FILES ${QUIRE_GENERATED}/_quire DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT program)
install(FILES ${QUIRE_GENERATED}/quire.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
install(FILES packaging/quire.service DESTINATION lib/systemd/system COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/quire RENAME copyright COMPONENT program)
install(FILES packaging/quire.env DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/quire/examples COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libquire-dev RENAME copyright COMPONENT library)

set(CPACK_PACKAGE_NAME quire)
set(CPACK_PACKAGE_VENDOR "quire")
set(CPACK_PACKAGE_CONTACT "quire maintainers <quire@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Inference and serving engine for large language models")
set(CPACK_PACKAGE_DESCRIPTION "quire serves Hugging Face checkpoints and GGUF files through an OpenAI-compatible API, runs
offline batches, and chats in the terminal. A small model is included.")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program library)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "The C++ library of quire: headers, a static archive, and a CMake package.")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME quire)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libquire-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)

set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_MAIN_COMPONENT program)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_GROUP "Applications/System")
set(CPACK_RPM_LIBRARY_PACKAGE_NAME quire-devel)
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _build_id_links none")
# Directories of the system, which other packages own.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib/systemd /usr/lib/systemd/system /usr/share/man /usr/share/man/man1
  /usr/share/bash-completion /usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/vendor-completions
  /usr/share/fish /usr/share/fish/vendor_completions.d /usr/lib/cmake /usr/lib/x86_64-linux-gnu
  /usr/lib/x86_64-linux-gnu/cmake)
include(CPack)
