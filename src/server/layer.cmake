if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 with sanitizers takes a coroutine frame's operator delete, not inlined, for another allocator's.
  set_source_files_properties(${dir}/http/connection.cc PROPERTIES COMPILE_OPTIONS -Wno-mismatched-new-delete)
endif()
