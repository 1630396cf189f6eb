// The emulated device: runs CUDA kernels on the CPU. A kernel is compiled as C++ against the headers in this
// directory, which come before those of the CUDA toolkit on the include path. Blocks run one after another;
// each thread of a block is a fiber. Every launch runs on the calling host thread, and only one thread may
// use the device at a time.
//
// A seed selects the order of blocks, warps and lanes, and when asynchronous copies complete, so that a
// result that depends on the order shows. Each barrier and each wait in a kernel is a site that a test can
// remove. The emulator cannot show the memory order between blocks, bank conflicts or times.
#pragma once

#include <cstdint>
#include <cstring>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "../arithmetic.h"

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace emulated {

// 0 = blocks, warps and lanes run in order, all warps advance together, and a cp.async completes when it is
// waited for. Any other seed draws the order of blocks, warps and lanes, lets one warp run as far ahead as
// the barriers allow, and draws whether a cp.async completes at once or when it is waited for.
void set_seed(uint64_t seed);

enum class MmaArithmetic { kHopper, kFma };  // kFma is several times as fast and rounds differently
void set_mma_arithmetic(MmaArithmetic arithmetic);

// A barrier or a wait, named "file:line" with the name of the file alone. remove_site makes calls at this
// site return without doing anything; an empty name removes none. sites() lists those that have been called.
void remove_site(std::string_view name);
std::vector<std::string> sites();

using Where = std::source_location;

// Values of the built-in variables of the calling CUDA thread.
const uint3& thread_idx();
const uint3& block_idx();
const dim3& block_dim();
const dim3& grid_dim();
int lane();
void* shared_memory();

void sync_block(const Where& where);
void sync_warp(uint32_t mask, const Where& where);

// Data that one lane contributes to a warp-wide instruction.
using LaneWords = uint64_t[8];
// Waits until every lane in `mask` has called exchange, and returns the words of all 32 lanes. They stay
// valid until the lane's next warp-wide instruction. Does not order memory accesses.
const LaneWords* exchange(uint32_t mask, const uint64_t* words, int num_words);

// The destination holds NaN until the copy completes. Bytes of `size` from src_bytes on are set to zero.
void cp_async(void* dst, const void* src, int size, int src_bytes);
void cp_async_commit();
void cp_async_wait(int max_pending_groups, const Where& where);

// mma.m16n8k16 with float32 accumulators, with the fragments of the PTX ISA. d may be c.
void mma_16816(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4],
               probe::OperandType type);

struct Call {
  void (*run)(void*);
  void* self;
};
// Runs call.run(call.self) in every thread of the grid, and returns when all blocks have finished. Throws
// std::runtime_error if all threads of a block wait, or if the masks of a warp-wide instruction disagree.
void run_grid(Call call, dim3 grid, dim3 block, size_t shared_bytes);

template <class T>
T shuffle(uint32_t mask, T value, int source_lane) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  const LaneWords* all = exchange(mask, &word, 1);
  T out;
  std::memcpy(&out, all[source_lane], sizeof(T));
  return out;
}

}  // namespace emulated
