// QUIRE_UNROLL precedes loops over the registers of a block, which must be fully unrolled.
#if defined(__clang__)
#define QUIRE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define QUIRE_UNROLL _Pragma("GCC unroll 16")
#endif
