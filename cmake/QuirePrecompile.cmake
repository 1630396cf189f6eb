# How sources are grouped to compile them in less processor time. Figures: CPU time with GCC 12, on a machine that was busy.
# clang-tidy reads sources one by one, with the headers that they include: -DQUIRE_PRECOMPILE=OFF.
option(QUIRE_PRECOMPILE "Compile sources in batches, with precompiled headers of libraries" ON)

# Precompiled headers: the standard library and JSON take 2.3 s for each source that includes them, and 0.7 s precompiled, which
# takes 5 s once for all targets with the same flags. GoogleTest makes that 3.0 s for each source of the tests.
set(QUIRE_PCH_layer
  <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstdio> <cstdlib> <cstring>
  <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream>
  <stop_token> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>
  <nlohmann/json.hpp>)
set(QUIRE_PCH_test ${QUIRE_PCH_layer} <gmock/gmock.h> <gtest/gtest.h>)
set(QUIRE_PCH_LIBS_layer nlohmann_json::nlohmann_json)
set(QUIRE_PCH_LIBS_test nlohmann_json::nlohmann_json GTest::gtest GTest::gmock)

# quire_precompile(TARGET SET OPTIONS): TARGET uses the headers QUIRE_PCH_<SET>, compiled once with OPTIONS for all targets that
# name the same. OPTIONS are the target's own optimization level, and -fPIE for an executable: a precompiled header that was
# compiled with others is ignored, or crashes GCC 12. Sources with other flags need SKIP_PRECOMPILE_HEADERS.
function(quire_precompile target set options)
  if(NOT QUIRE_PRECOMPILE)
    return()
  endif()
  list(JOIN options "" suffix)
  string(REPLACE "-" "_" owner "quire_pch_${set}${suffix}")
  if(NOT TARGET ${owner})
    set(source ${CMAKE_BINARY_DIR}/${owner}.cc)
    if(NOT EXISTS ${source})
      file(WRITE ${source} "")
    endif()
    add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${source})
    target_link_libraries(${owner} PRIVATE quire_options ${QUIRE_PCH_LIBS_${set}})
    target_compile_options(${owner} PRIVATE ${options})
    if("-fPIE" IN_LIST options)
      set_target_properties(${owner} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    endif()
    target_precompile_headers(${owner} PRIVATE ${QUIRE_PCH_${set}})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# quire_batch(TARGET): TARGET's sources are compiled in batches, each as one. Templates and headers that they share are then compiled
# once: in batches of 12, the 95 sources of src/models take 48 s instead of about 165 s, the 35 of src/io 35 s instead of 69 s. One
# batch of 24 needs as much memory as the largest kernel source, 1.2 GB. Smaller ones suit those who edit a large layer.
# Names in anonymous namespaces are therefore distinct within a layer, and within its tests. Sources with flags of their own are
# compiled alone.
set(QUIRE_BATCH_SIZE 24 CACHE STRING "Sources that are compiled as one")
function(quire_batch target)
  if(NOT QUIRE_PRECOMPILE)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${QUIRE_BATCH_SIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes the sources of a batch for headers, whose types must not use an anonymous namespace.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
