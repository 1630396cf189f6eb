# main.cc is the executable's alone; the library is what its tests link.
get_target_property(cli_sources quire_cli SOURCES)
list(FILTER cli_sources EXCLUDE REGEX "/main\\.cc$")
set_property(TARGET quire_cli PROPERTY SOURCES ${cli_sources})
# Flags, tables and files: compiling takes longer than running, so little is optimised.
target_compile_options(quire_cli PRIVATE $<$<CONFIG:Release>:-O1>)
