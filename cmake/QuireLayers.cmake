# quire_add_layers(FILE): one static library quire_<layer> for each line of FILE whose folder src/<layer> has sources.
#
# One rule holds for all layers and all builds: the sources of a layer are compiled in batches of QUIRE_BATCH_SIZE
# (cmake/QuirePrecompile.cmake), optimized as the build type says. What differs:
#   sources with flags of their own     compiled alone; src/<layer>/layer.cmake sets them
#   layers in QUIRE_COLD_LAYERS         optimized less
#   layers in QUIRE_FUZZED_LAYERS       with the counters of fuzzers, in builds that have fuzzers
#   libraries that a layer uses         QUIRE_LIBS_<layer> in cmake/QuireDependencies.cmake

# Code that runs once per command or download, never per token: -O1 in release builds, and not optimized with sanitizers. That takes
# a third less CPU time than -O3 (GCC 12: 21 s instead of 31 s for the sources of src/server) and half that of -O1 (clang 14 with
# address sanitizer: 6.0 s instead of 11.5 s for those of src/sched).
set(QUIRE_COLD_LAYERS cli hub)

# Fuzzers need counters in the code that they run, and in no other, where these would take time.
set(QUIRE_FUZZED_LAYERS base contract grammar io lora quant sample server text)
set(QUIRE_NO_COVERAGE "")
if(QUIRE_BUILD_FUZZERS)
  set(QUIRE_NO_COVERAGE -fno-sanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table,stack-depth)
endif()

set(QUIRE_COLD_OPTIMIZATION "")
if(QUIRE_SANITIZE)
  set(QUIRE_COLD_OPTIMIZATION -O0)
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(QUIRE_COLD_OPTIMIZATION -O1)
endif()

function(quire_add_layers file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} lines REGEX "^[a-z]")
  set(layers "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([a-z_]+):[ ]*(.*)$" _ "${line}")
    set(layer ${CMAKE_MATCH_1})
    separate_arguments(deps UNIX_COMMAND "${CMAKE_MATCH_2}")
    list(TRANSFORM deps PREPEND quire_)
    set(uses quire_options ${QUIRE_LIBS_${layer}} ${deps})
    set(dir ${CMAKE_SOURCE_DIR}/src/${layer})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cc)
    # main.cc belongs to the executable; tests link the library.
    list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
    if(sources)
      add_library(quire_${layer} STATIC ${sources})
      target_link_libraries(quire_${layer} PUBLIC ${uses})
      if(layer IN_LIST QUIRE_COLD_LAYERS)
        # Precompiled headers serve one optimization level: for the few batches of these layers, they cost what they save.
        target_compile_options(quire_${layer} PRIVATE ${QUIRE_COLD_OPTIMIZATION})
      else()
        quire_precompile(quire_${layer} layer "")
      endif()
      if(NOT layer IN_LIST QUIRE_FUZZED_LAYERS)
        target_compile_options(quire_${layer} PRIVATE ${QUIRE_NO_COVERAGE})
      endif()
      quire_batch(quire_${layer})
    else()
      # A layer of headers needs no library of its own.
      add_library(quire_${layer} INTERFACE)
      target_link_libraries(quire_${layer} INTERFACE ${uses})
    endif()
    if(EXISTS ${dir}/layer.cmake)
      include(${dir}/layer.cmake)
    endif()
    list(APPEND layers ${layer})
  endforeach()
  set(QUIRE_LAYERS ${layers} PARENT_SCOPE)
endfunction()
