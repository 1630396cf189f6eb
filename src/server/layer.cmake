if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 with sanitizers takes a coroutine frame's operator delete, not inlined, for another allocator's.
  set_source_files_properties(${dir}/http/connection.cc PROPERTIES COMPILE_OPTIONS -Wno-mismatched-new-delete)
endif()

# clang 14 cannot compile coroutines with UndefinedBehaviorSanitizer's check of calls through function pointers.
if(QUIRE_SANITIZE MATCHES undefined AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set_property(SOURCE ${dir}/http/connection.cc APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=function)
endif()
