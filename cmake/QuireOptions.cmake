# Compiler settings that every target shares: warnings, sanitizers, ccache, the linker.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(QUIRE_CCACHE ccache)
if(QUIRE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${QUIRE_CCACHE})
endif()

find_program(QUIRE_MOLD mold)

add_library(quire_options INTERFACE)
target_include_directories(quire_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
target_compile_options(quire_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers
  # Results are reproducible: no fused or reordered arithmetic but what a kernel writes itself.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # No garbage collection before the compiler has allocated 512 MiB: a collection takes 0.3 s for each source.
  target_compile_options(quire_options INTERFACE --param=ggc-min-heapsize=524288)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in std::string operator+ where there are none (GCC bug 105651).
  target_compile_options(quire_options INTERFACE -Wno-restrict)
endif()
if(QUIRE_SANITIZE)
  target_compile_options(quire_options INTERFACE
    -fsanitize=${QUIRE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(quire_options INTERFACE -fsanitize=${QUIRE_SANITIZE})
elseif(QUIRE_MOLD)
  target_link_options(quire_options INTERFACE -fuse-ld=mold)
endif()

# Hardening. tools/check_hardening.py checks the result on the executable. Sanitizer builds do their own checks and
# leave it out. Debug builds are not optimized, which _FORTIFY_SOURCE requires.
if(NOT QUIRE_SANITIZE)
  set(QUIRE_FORTIFY_LEVEL 2)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
    set(QUIRE_FORTIFY_LEVEL 3)
  endif()
  target_compile_options(quire_options INTERFACE
    -fstack-protector-strong -D_GLIBCXX_ASSERTIONS
    "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${QUIRE_FORTIFY_LEVEL}>")
  target_link_options(quire_options INTERFACE -Wl,-z,relro -Wl,-z,now)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)  # links executables with -pie
endif()
