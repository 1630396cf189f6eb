#include "ops/topk_to_bitmask.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace quire {
namespace {

// Orders floats as integers. Both zeros have the same rank; NaN is below or above all numbers.
uint32_t rank_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x + 0.0F);
  constexpr uint32_t kSign = 0x80000000U;
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

struct Threshold {
  uint32_t rank;  // rank of the lowest selected score
  int64_t equal;  // number of selected scores with that rank
};

// A radix select, one byte at a time from the highest.
Threshold find_threshold(const float* scores, int64_t n, int64_t count) {
  uint32_t found = 0;
  uint32_t known = 0;  // mask of the bits of `found` that are final
  for (int shift = 24; shift >= 0; shift -= 8) {
    std::array<int64_t, 256> having{};
    for (int64_t p = 0; p < n; ++p) {
      const uint32_t rank = rank_of(scores[p]);
      if ((rank & known) == found) ++having[rank >> shift & 0xffU];
    }
    uint32_t byte = 0xff;
    while (having[byte] < count) count -= having[byte--];
    found |= byte << shift;
    known |= 0xffU << shift;
  }
  return {found, count};
}

// Called for each score once, in order: ties go to the first.
bool is_chosen(Threshold& threshold, float score) {
  const uint32_t rank = rank_of(score);
  return rank > threshold.rank || (rank == threshold.rank && threshold.equal-- > 0);
}

}  // namespace

void topk_to_bitmask(const float* scores, int64_t n, int64_t count, uint64_t* words) {
  if (n <= count) return mark_all(n, words);
  Threshold threshold = find_threshold(scores, n, count);
  for (int64_t begin = 0; begin < n; begin += 64) {
    uint64_t word = 0;
    for (int64_t p = begin; p < std::min(n, begin + 64); ++p)
      word |= static_cast<uint64_t>(is_chosen(threshold, scores[p])) << (p - begin);
    words[begin / 64] = word;
  }
}

void topk_blocks_to_bitmask(float* scores, int64_t n, const KeyBlocks& blocks, uint64_t* words) {
  const int64_t num = (n + blocks.size - 1) / blocks.size;
  if (num <= blocks.count) return mark_all(n, words);
  std::fill_n(scores + num - blocks.local, blocks.local, std::numeric_limits<float>::infinity());
  Threshold threshold = find_threshold(scores, num, blocks.count);
  std::fill_n(words, (n + 63) / 64, uint64_t{0});
  for (int64_t b = 0; b < num; ++b) {
    if (!is_chosen(threshold, scores[b])) continue;
    // Sixteen positions never cross a word.
    for (int64_t p = b * blocks.size; p < std::min(n, (b + 1) * blocks.size); p += 16)
      words[p / 64] |= uint64_t{0xffff} << (p % 64);
  }
  if (n % 64 != 0) words[n / 64] &= (uint64_t{1} << (n % 64)) - 1;
}

void mark_all(int64_t n, uint64_t* words) {
  std::fill_n(words, n / 64, ~uint64_t{0});
  if (n % 64 != 0) words[n / 64] = (uint64_t{1} << (n % 64)) - 1;
}

}  // namespace quire
