# The web page: the files of src/server/page, linked into the program as data, and a table of them that
# src/server/internal/page_files.cc reads.
file(GLOB page_files CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/server/page/*.html ${CMAKE_SOURCE_DIR}/src/server/page/*.css
  ${CMAKE_SOURCE_DIR}/src/server/page/*.js ${CMAKE_SOURCE_DIR}/src/server/page/*.svg)

set(data "")
set(table "")
set(index 0)
foreach(file IN LISTS page_files)
  get_filename_component(name ${file} NAME)
  string(LENGTH "${name}" name_size)
  string(APPEND data "name_${index}: .ascii \"${name}\"\nbytes_${index}: .incbin \"${file}\"\nend_${index}:\n")
  string(APPEND table "    .8byte name_${index}, ${name_size}, bytes_${index}, end_${index} - bytes_${index}\n")
  math(EXPR index "${index} + 1")
endforeach()

# The table holds addresses, so it is not part of .rodata in a position-independent program.
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/page.S CONTENT "/* The files of the web page. */
    .section .rodata
${data}
    .section .data.rel.ro, \"aw\"
    .balign 8
    .global quire_page_begin
    .hidden quire_page_begin
quire_page_begin:
${table}
    .global quire_page_end
    .hidden quire_page_end
quire_page_end:
    .8byte 0
    .section .note.GNU-stack,\"\",%progbits
")
set_source_files_properties(${CMAKE_BINARY_DIR}/page.S PROPERTIES GENERATED ON OBJECT_DEPENDS "${page_files}")
add_library(quire_page STATIC ${CMAKE_BINARY_DIR}/page.S)
target_link_libraries(quire_server PUBLIC quire_page)
