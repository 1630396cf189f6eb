# Files that the server sends, linked into the program as data: the web page and the description of the API. A table of them
# is read by src/server/linked_files.cc; names are relative to src/server.
file(GLOB linked_files CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/server/openapi.json
  ${CMAKE_SOURCE_DIR}/src/server/page/*.html ${CMAKE_SOURCE_DIR}/src/server/page/*.css
  ${CMAKE_SOURCE_DIR}/src/server/page/*.js ${CMAKE_SOURCE_DIR}/src/server/page/*.svg)

set(data "")
set(table "")
set(index 0)
foreach(file IN LISTS linked_files)
  file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR}/src/server ${file})
  string(LENGTH "${name}" name_size)
  string(APPEND data "name_${index}: .ascii \"${name}\"\nbytes_${index}: .incbin \"${file}\"\nend_${index}:\n")
  string(APPEND table "    .8byte name_${index}, ${name_size}, bytes_${index}, end_${index} - bytes_${index}\n")
  math(EXPR index "${index} + 1")
endforeach()

# The table holds addresses, so it is not part of .rodata in a position-independent program.
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/linked_files.S CONTENT "/* Names, contents and sizes of files. */
    .section .rodata
${data}
    .section .data.rel.ro, \"aw\"
    .balign 8
    .global quire_linked_files_begin
    .hidden quire_linked_files_begin
quire_linked_files_begin:
${table}
    .global quire_linked_files_end
    .hidden quire_linked_files_end
quire_linked_files_end:
    .8byte 0
    .section .note.GNU-stack,\"\",%progbits
")
set_source_files_properties(${CMAKE_BINARY_DIR}/linked_files.S PROPERTIES GENERATED ON OBJECT_DEPENDS "${linked_files}")
add_library(quire_linked_files STATIC ${CMAKE_BINARY_DIR}/linked_files.S)
target_link_libraries(quire_server PUBLIC quire_linked_files)
