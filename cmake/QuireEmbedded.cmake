# The embedded model: a model directory is packed into one file at build time and linked into the program as data.
enable_language(ASM)

set(QUIRE_EMBEDDED_MODEL ${CMAKE_SOURCE_DIR}/models/quire-tiny CACHE PATH "Model directory to embed; empty for none")
set(QUIRE_LINKED_BUNDLE ${CMAKE_BINARY_DIR}/linked_model.bundle)

if(QUIRE_EMBEDDED_MODEL AND EXISTS ${QUIRE_EMBEDDED_MODEL}/config.json)
  add_executable(quire_pack_model ${CMAKE_SOURCE_DIR}/tools/pack_model/main.cc ${CMAKE_SOURCE_DIR}/src/engine/bundle.cc)
  target_link_libraries(quire_pack_model PRIVATE quire_io)
  file(GLOB embedded_files CONFIGURE_DEPENDS ${QUIRE_EMBEDDED_MODEL}/*.json ${QUIRE_EMBEDDED_MODEL}/*.safetensors)
  add_custom_command(OUTPUT ${QUIRE_LINKED_BUNDLE}
    COMMAND quire_pack_model ${QUIRE_EMBEDDED_MODEL} ${QUIRE_LINKED_BUNDLE}
    DEPENDS quire_pack_model ${embedded_files}
    COMMENT "Packing the embedded model")
else()
  message(STATUS "No model is embedded: ${QUIRE_EMBEDDED_MODEL} has no config.json")
  file(WRITE ${QUIRE_LINKED_BUNDLE} "")
endif()

configure_file(${CMAKE_SOURCE_DIR}/src/engine/embedded/linked_bundle.S.in ${CMAKE_BINARY_DIR}/linked_bundle.S @ONLY)
set_source_files_properties(${CMAKE_BINARY_DIR}/linked_bundle.S PROPERTIES OBJECT_DEPENDS ${QUIRE_LINKED_BUNDLE})
add_library(quire_embedded STATIC ${CMAKE_BINARY_DIR}/linked_bundle.S)
target_link_libraries(quire_engine PUBLIC quire_embedded)
