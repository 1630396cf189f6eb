#include "ops/compressed_keys.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "ops/reference.h"

namespace quire {
namespace {

bool is_set(const uint64_t* words, int64_t place) {
  return (words[place / 64] >> (place % 64) & 1U) != 0;
}

TEST(CompressedKeys, AreStoredInTheBlockOfTheirLastToken) {
  for (const int32_t tokens : {1, 3, 4, 16, 100}) {
    for (const int32_t block : {4, 5, 16, 64}) {
      const CompressedKeys keys = {tokens, block, compressed_slots(tokens, block)};
      if (block % 16 == 0) {
        EXPECT_EQ(keys.slots % 16, 0);
      }
      std::set<int64_t> slots;
      for (int64_t p = 0; p < 1000; ++p) {
        const int64_t place = keys.place_of_token(p);
        EXPECT_EQ(place / keys.block_places(), p / block);
        EXPECT_TRUE(slots.insert(place).second) << p;
      }
      for (int64_t i = 0; i < 1000 / tokens; ++i) {
        const int64_t place = keys.place_of_key(i);
        const int64_t last = (i + 1) * tokens - 1;
        EXPECT_EQ(place / keys.block_places(), last / block);
        EXPECT_LT(place, keys.place_of_token(last)) << "a key is stored after the tokens that see it";
        EXPECT_TRUE(slots.insert(place).second) << i;
        EXPECT_EQ(keys.seen(last), i + 1);
        EXPECT_EQ(keys.seen(last - 1), i);
      }
    }
  }
}

TEST(CompressedKeys, RowsAttendToTheWindowAndTheSelectedKeys) {
  constexpr int32_t kWindow = 6;
  constexpr int64_t kWords = 8;
  const CompressedKeys keys = {4, 16, compressed_slots(4, 16)};
  // Rows 29 and 30 of one sequence, row 0 of another.
  const std::vector<int32_t> cu = {0, 2, 3};
  const std::vector<int32_t> lengths = {31, 1};
  const AttentionBatch batch = {.num_seqs = 2, .cu_seqlens_q = cu, .seq_lens = lengths};
  std::vector<uint64_t> picked = {0b1010110, 0b1110111, 0b1};
  for (const bool picks : {false, true}) {
    std::vector<uint64_t> words(3 * kWords, ~uint64_t{0});
    const SparseMask chosen = {words.data(), kWords};
    reference_ops().run({},
                        ops::MarkCompressed{.mask = chosen,
                                            .batch = batch,
                                            .keys = keys,
                                            .window = kWindow,
                                            .selected = picks ? SparseMask{picked.data(), 1} : SparseMask{}});
    const std::vector<int64_t> positions = {29, 30, 0};
    for (size_t r = 0; r < 3; ++r) {
      const int64_t p = positions[r];
      std::set<int64_t> want;
      for (int64_t t = std::max<int64_t>(0, p - kWindow + 1); t <= p; ++t)
        want.insert(keys.place_of_token(t));
      for (int64_t i = 0; i < (p + 1) / 4; ++i) {
        if (!picks || (picked[r] >> i & 1U) != 0) want.insert(keys.place_of_key(i));
      }
      const int64_t last = keys.place_of_token(lengths[r < 2 ? 0 : 1] - 1);
      for (int64_t place = 0; place <= last; ++place)
        EXPECT_EQ(is_set(chosen.row(static_cast<int64_t>(r)), place), want.contains(place))
            << r << " " << place;
    }
  }
}

}  // namespace
}  // namespace quire
