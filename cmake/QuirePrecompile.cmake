# Precompiled headers. Headers of the standard library and of third parties take a third of the time of compiling a source, so
# all targets with the same flags share one precompiled set of them. Sources still include what they use: the build for clang-tidy
# has no precompiled headers (-DQUIRE_PRECOMPILE=OFF).
option(QUIRE_PRECOMPILE "Precompile the headers of libraries" ON)

set(QUIRE_PCH_std
  <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstdio> <cstdlib> <cstring>
  <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream>
  <stop_token> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
set(QUIRE_PCH_layer ${QUIRE_PCH_std} <nlohmann/json.hpp>)
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

# quire_batch(TARGET): TARGET's sources are compiled in batches, each as one. Names in anonymous namespaces are therefore distinct
# within a layer. Sources with flags of their own are compiled alone.
set(QUIRE_BATCH_SIZE 12)
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
