# Compile flags per file. Kernels are optimized in debug builds, too.
set(kernel_warnings "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns about the deliberately undefined operands of its own AVX-512 intrinsics.
  set(kernel_warnings "-Wno-maybe-uninitialized;-Wno-uninitialized")
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${dir}/cpu/isa/avx2.cc ${dir}/cpu/isa/quantized_avx2.cc
    ${dir}/cpu/isa/quantized_int_avx2.cc PROPERTIES
    COMPILE_OPTIONS "-O3;-mavx2;-mfma;-mf16c;${kernel_warnings}")
  set(avx512_flags "-O3;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c;${kernel_warnings}")
  set_source_files_properties(${dir}/cpu/isa/avx512.cc ${dir}/cpu/isa/quantized_avx512.cc
    ${dir}/cpu/isa/quantized_int_avx512.cc PROPERTIES
    COMPILE_OPTIONS "${avx512_flags}")
  set_source_files_properties(${dir}/cpu/isa/avx512_vnni.cc ${dir}/cpu/isa/quantized_int_vnni.cc PROPERTIES
    COMPILE_OPTIONS "${avx512_flags};-mavx512vnni")
  set_source_files_properties(${dir}/cpu/isa/avx512_bf16.cc PROPERTIES
    COMPILE_OPTIONS "${avx512_flags};-mavx512vnni;-mavx512bf16")
  set_source_files_properties(${dir}/cpu/isa/amx_bf16.cc PROPERTIES
    COMPILE_OPTIONS "${avx512_flags};-mavx512vnni;-mavx512bf16;-mamx-tile;-mamx-bf16")
  set_source_files_properties(${dir}/cpu/isa/amx_int8.cc PROPERTIES
    COMPILE_OPTIONS "${avx512_flags};-mavx512vnni;-mamx-tile;-mamx-int8")
  # With assertions, functions of the standard library would not be inlined, and the linker could use the
  # copy compiled for AVX-512 in the whole program.
  file(GLOB isa_units ${dir}/cpu/isa/*.cc)
  set_property(SOURCE ${isa_units} APPEND PROPERTY COMPILE_OPTIONS -U_GLIBCXX_ASSERTIONS)
  set_property(SOURCE ${isa_units} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  if(QUIRE_SANITIZE)
    # These files have hundreds of kernels made of inlined parts, so each check costs much time to compile. Addresses are
    # checked by calls instead of inlined code, and not at all in the two largest files. QUIRE_MAX_DIRECT_ROWS leaves out kernels
    # that differ in a constant.
    set_property(SOURCE ${isa_units} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined -O1
      -DQUIRE_MAX_DIRECT_ROWS=2)
    if(QUIRE_SANITIZE MATCHES address)
      set_property(SOURCE ${isa_units} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=fuzzer-no-link
        -mllvm -asan-instrumentation-with-call-threshold=0)
    endif()
    set_property(SOURCE ${dir}/cpu/isa/quantized_avx2.cc ${dir}/cpu/isa/quantized_avx512.cc
      APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
  endif()
endif()

if(QUIRE_BUILD_TESTS)
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND)
    add_test(NAME backends.isa_units_share_no_symbols
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/check_isa_symbols.py --nm ${CMAKE_NM}
        $<TARGET_OBJECTS:quire_backends>
      COMMAND_EXPAND_LISTS)
  endif()
endif()
