// The disk cache returns intact blocks or none, after any damage.
#include "exec/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "support/temp_dir.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kTokens = 4;
constexpr int64_t kBlockBytes = 10'000;

class DiskCacheTest : public testing::Test {
 protected:
  DiskCacheOptions options(const std::string& fingerprint = "a", int64_t num_slots = 20) const {
    return {.directory = directory_,
            .max_bytes = num_slots * slot_sizes(kTokens, kBlockBytes).slot(),
            .fingerprint = fingerprint,
            .block_size = kTokens,
            .bytes_per_block = kBlockBytes};
  }
  std::unique_ptr<DiskCache> open(const std::string& fingerprint = "a", int64_t num_slots = 20) const {
    return DiskCache::open(options(fingerprint, num_slots));
  }
  fs::path folder(const std::string& fingerprint = "a") const { return directory_ / ("kv-" + fingerprint); }

  static CachedBlockHash key_of(int32_t content) {
    const auto n = static_cast<uint64_t>(content);
    return {n, n + 1, n + 2, n + 3, 0, std::vector<TokenId>(kTokens, content)};
  }
  static std::vector<std::byte> block_of(int32_t content) {
    std::mt19937 random(static_cast<uint32_t>(content));
    std::vector<std::byte> block(kBlockBytes);
    for (auto& byte : block) byte = static_cast<std::byte>(random());
    return block;
  }

  static std::vector<DiskOutcome> outcomes(DiskCache& cache, size_t count) {
    std::vector<DiskOutcome> all;
    while (all.size() < count) {
      cache.wait();
      cache.take_outcomes(all);
    }
    EXPECT_EQ(all.size(), count);
    return all;
  }
  static bool write(DiskCache& cache, int32_t slot, int32_t content) {
    cache.write(slot, key_of(content), block_of(content));
    const DiskOutcome outcome = outcomes(cache, 1)[0];
    EXPECT_TRUE(outcome.write);
    EXPECT_EQ(outcome.slot, slot);
    return outcome.ok;
  }
  // The block in the slot; empty if it holds none.
  static std::vector<std::byte> read(DiskCache& cache, int32_t slot) {
    std::vector<std::byte> block(kBlockBytes);
    cache.read(slot, 7, block);
    const DiskOutcome outcome = outcomes(cache, 1)[0];
    EXPECT_FALSE(outcome.write);
    EXPECT_EQ(outcome.host_block, 7);
    return outcome.ok ? block : std::vector<std::byte>{};
  }
  // Leaves three blocks on disk, in a cache that no process has open.
  void leave_three_blocks() {
    const auto cache = open();
    for (int32_t i = 0; i < 3; ++i) ASSERT_TRUE(write(*cache, i, i + 100));
  }
  void damage(const char* name, int64_t offset, const std::string& bytes) {
    std::fstream file(folder() / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // Checks that every block that is found was written.
  void expect_nothing_false(size_t at_most) {
    const auto cache = open();
    ASSERT_NE(cache, nullptr);
    const auto entries = cache->take_entries();
    EXPECT_LE(entries.size(), at_most);
    for (const auto& entry : entries) {
      const int32_t content = entry.key.token_ids[0];
      EXPECT_EQ(entry.key.hash_low, static_cast<uint64_t>(content));
      const auto block = read(*cache, entry.slot);
      if (!block.empty()) {
        EXPECT_EQ(block, block_of(content));
      }
    }
    // The slots can be used again.
    for (int32_t slot = 0; slot < 3; ++slot) {
      EXPECT_TRUE(write(*cache, slot, 200 + slot));
      EXPECT_EQ(read(*cache, slot), block_of(200 + slot));
    }
  }

  const test::TempDir temporary_;
  const fs::path directory_ = temporary_.path();
};

TEST_F(DiskCacheTest, ReadsWrittenBlocks) {
  const auto cache = open();
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(cache->num_slots(), 20);
  EXPECT_TRUE(write(*cache, 5, 1));
  EXPECT_TRUE(write(*cache, 19, 2));
  EXPECT_EQ(read(*cache, 5), block_of(1));
  EXPECT_EQ(read(*cache, 19), block_of(2));
  EXPECT_TRUE(write(*cache, 5, 3));
  EXPECT_EQ(read(*cache, 5), block_of(3));
  EXPECT_TRUE(read(*cache, 6).empty()) << "never written";
}

TEST_F(DiskCacheTest, ListsBlocksForALaterProcessLeastRecentlyWrittenFirst) {
  uint64_t seed = 0;
  {
    const auto cache = open();
    seed = cache->hash_seed();
    for (const int32_t slot : {4, 2, 9}) ASSERT_TRUE(write(*cache, slot, slot));
    ASSERT_TRUE(write(*cache, 4, 40));
  }
  const auto cache = open();
  EXPECT_EQ(cache->hash_seed(), seed);
  const auto entries = cache->take_entries();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].slot, 2);
  EXPECT_EQ(entries[1].slot, 9);
  EXPECT_EQ(entries[2].slot, 4);
  EXPECT_EQ(entries[2].key.token_ids, key_of(40).token_ids);
  EXPECT_EQ(entries[2].key.hash_high, key_of(40).hash_high);
  EXPECT_EQ(entries[2].key.parent_low, key_of(40).parent_low);
  EXPECT_EQ(read(*cache, 4), block_of(40));
}

TEST_F(DiskCacheTest, CompletesWritesWhenItIsDestroyed) {
  {
    const auto cache = open();
    for (int32_t slot = 0; slot < 10; ++slot) cache->write(slot, key_of(slot), block_of(slot));
  }
  EXPECT_EQ(open()->take_entries().size(), 10U);
}

TEST_F(DiskCacheTest, RejectsWritesIfItsQueueIsFull) {
  const auto cache = open("a", 100);
  std::vector<DiskOutcome> refused;
  for (int32_t i = 0; i < 3 * DiskCache::kMaxWrites; ++i) cache->write(i, key_of(i), block_of(i));
  const auto all = outcomes(*cache, 3 * DiskCache::kMaxWrites);
  const auto written = std::count_if(all.begin(), all.end(), [](const DiskOutcome& o) { return o.ok; });
  EXPECT_GE(written, DiskCache::kMaxWrites);
  for (const DiskOutcome& outcome : all) EXPECT_EQ(read(*cache, outcome.slot).empty(), !outcome.ok);
}

TEST_F(DiskCacheTest, SeparatesModels) {
  leave_three_blocks();
  const auto other = open("b");
  EXPECT_TRUE(other->take_entries().empty());
  EXPECT_NE(other->hash_seed(), open()->hash_seed());
}

TEST_F(DiskCacheTest, IsDisabledInASecondProcess) {
  const auto first = open();
  EXPECT_EQ(open(), nullptr);
  EXPECT_NE(open("b"), nullptr) << "another model has a folder of its own";
}

TEST_F(DiskCacheTest, IsReadableByItsOwnerOnly) {
  leave_three_blocks();
  struct stat info = {};
  for (const char* name : {"heads", "blocks", "seed"}) {
    ASSERT_EQ(::stat((folder() / name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U) << name;
  }
  ASSERT_EQ(::stat(folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST_F(DiskCacheTest, IsDisabledIfTheDirectoryIsNotUsable) {
  std::ofstream(directory_ / "file") << "not a directory";
  DiskCacheOptions wrong = options();
  wrong.directory = directory_ / "file";
  EXPECT_EQ(DiskCache::open(wrong), nullptr);
  wrong = options();
  wrong.max_bytes = 100;
  EXPECT_EQ(DiskCache::open(wrong), nullptr) << "not one block fits";
}

TEST_F(DiskCacheTest, SurvivesTruncationAtAnyOffset) {
  const SlotSizes sizes = slot_sizes(kTokens, kBlockBytes);
  const auto cut = [&](const char* file, int64_t size) {
    SCOPED_TRACE(testing::Message() << file << " cut at " << size);
    fs::remove_all(folder());
    leave_three_blocks();
    fs::resize_file(folder() / file, static_cast<uintmax_t>(size));
    expect_nothing_false(3);
  };
  for (const int64_t within : {int64_t{0}, int64_t{1}, int64_t{40}, sizes.head - 9, sizes.head - 1})
    cut("heads", sizes.head + within);
  for (const int64_t within : {int64_t{0}, int64_t{1}, kBlockBytes / 2, kBlockBytes - 1, kBlockBytes})
    cut("blocks", sizes.block + within);
  cut("heads", 0);
  cut("blocks", 0);
}

TEST_F(DiskCacheTest, DetectsATornWrite) {
  // The head of a new block with the bytes of the old one, and vice versa.
  const SlotSizes sizes = slot_sizes(kTokens, kBlockBytes);
  const auto block = block_of(300);
  std::vector<std::byte> head(static_cast<size_t>(sizes.head));
  encode_head(key_of(300), 0, 99, block.size(), block_checksum(block), head);
  leave_three_blocks();
  damage("heads", 0, {reinterpret_cast<const char*>(head.data()), head.size()});
  damage("blocks", sizes.block, {reinterpret_cast<const char*>(block.data()), block.size()});
  const auto cache = open();
  EXPECT_EQ(cache->take_entries().size(), 3U);
  EXPECT_TRUE(read(*cache, 0).empty());
  EXPECT_TRUE(read(*cache, 1).empty());
  EXPECT_EQ(read(*cache, 2), block_of(102));
}

TEST_F(DiskCacheTest, DetectsAHeadInAnotherSlot) {
  const SlotSizes sizes = slot_sizes(kTokens, kBlockBytes);
  const auto block = block_of(100);
  std::vector<std::byte> head(static_cast<size_t>(sizes.head));
  encode_head(key_of(100), 0, 99, block.size(), block_checksum(block), head);
  EXPECT_TRUE(decode_head(head, 0, kBlockBytes).has_value());
  EXPECT_FALSE(decode_head(head, 1, kBlockBytes).has_value());
  EXPECT_FALSE(decode_head(head, 0, kBlockBytes + 1).has_value());
}

TEST_F(DiskCacheTest, DetectsAFlippedBit) {
  const SlotSizes sizes = slot_sizes(kTokens, kBlockBytes);
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    fs::remove_all(folder());
    leave_three_blocks();
    // Every field of the head, then anywhere in the block.
    const bool in_head = i < 30;
    const char* name = in_head ? "heads" : "blocks";
    const int64_t offset = in_head ? i * (sizes.head - 1) / 29 : static_cast<int64_t>(random() % kBlockBytes);
    SCOPED_TRACE(testing::Message() << name << " at " << offset);
    std::ifstream file(folder() / name, std::ios::binary);
    file.seekg(offset);
    const char flipped = static_cast<char>(file.get() ^ (1 << (random() % 8)));
    damage(name, offset, std::string(1, flipped));
    const auto cache = open();
    EXPECT_EQ(cache->take_entries().size(), in_head ? 2U : 3U);
    EXPECT_TRUE(read(*cache, 0).empty());
    EXPECT_EQ(read(*cache, 1), block_of(101));
  }
}

TEST_F(DiskCacheTest, DetectsDamageWhileItIsOpen) {
  const auto cache = open();
  ASSERT_TRUE(write(*cache, 0, 1));
  ASSERT_TRUE(write(*cache, 1, 2));
  damage("blocks", 77, "x");
  EXPECT_TRUE(read(*cache, 0).empty());
  EXPECT_TRUE(read(*cache, 0).empty());
  EXPECT_EQ(read(*cache, 1), block_of(2));
}

TEST_F(DiskCacheTest, FindsNothingInRandomBytes) {
  std::mt19937 random(5);
  for (int i = 0; i < 80; ++i) {
    SCOPED_TRACE(i);
    fs::remove_all(folder());
    leave_three_blocks();
    const char* name = i % 2 == 0 ? "heads" : "blocks";
    const uint64_t size = fs::file_size(folder() / name);
    std::string garbage(1 + random() % size, '\0');
    if (i % 3 != 0)
      std::generate(garbage.begin(), garbage.end(), [&] { return static_cast<char>(random()); });
    damage(name, static_cast<int64_t>(random() % size), garbage);
    expect_nothing_false(3);
  }
}

TEST_F(DiskCacheTest, IsEmptyIfTheSeedIsLost) {
  leave_three_blocks();
  const uint64_t before = open()->hash_seed();
  std::ofstream(folder() / "seed", std::ios::trunc) << "short";
  const auto cache = open();
  ASSERT_NE(cache, nullptr);
  EXPECT_NE(cache->hash_seed(), before);
  EXPECT_TRUE(cache->take_entries().empty());
}

TEST_F(DiskCacheTest, OnlyStopsWritingIfTheDiskIsFull) {
  const SlotSizes sizes = slot_sizes(kTokens, kBlockBytes);
  const auto cache = open();
  ASSERT_TRUE(write(*cache, 0, 1));
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = static_cast<rlim_t>(sizes.block + sizes.block / 2);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(write(*cache, 1, 2));
  EXPECT_FALSE(write(*cache, 2, 3));
  EXPECT_FALSE(write(*cache, 0, 4));
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_TRUE(read(*cache, 1).empty());
  EXPECT_TRUE(read(*cache, 0).empty()) << "a write replaces the content of a slot, even if it fails";
}

TEST_F(DiskCacheTest, RemovesOtherModelsAtTheLimit) {
  {
    const auto old = open("old", 4);
    for (int32_t slot = 0; slot < 4; ++slot) ASSERT_TRUE(write(*old, slot, slot));
  }
  const auto held = open("held", 4);
  const auto cache = open("a", 6);
  ASSERT_TRUE(write(*cache, 0, 1));
  EXPECT_TRUE(fs::exists(folder("old"))) << "there is room for both";
  for (int32_t slot = 1; slot < 6; ++slot) EXPECT_TRUE(write(*cache, slot, slot + 1));
  EXPECT_FALSE(fs::exists(folder("old")));
  EXPECT_TRUE(fs::exists(folder("held")));
  for (int32_t slot = 0; slot < 6; ++slot) EXPECT_EQ(read(*cache, slot), block_of(slot + 1));
}

TEST_F(DiskCacheTest, KeepsAnotherModelThatIsInUse) {
  const auto held = open("held", 4);
  for (int32_t slot = 0; slot < 4; ++slot) ASSERT_TRUE(write(*held, slot, slot));
  const auto cache = open("a", 6);
  int32_t written = 0;
  for (int32_t slot = 0; slot < 6; ++slot) written += write(*cache, slot, slot) ? 1 : 0;
  EXPECT_EQ(written, 2) << "six slots in all";
  EXPECT_EQ(read(*held, 3), block_of(3));
  EXPECT_EQ(read(*cache, 1), block_of(1));
}

TEST_F(DiskCacheTest, ClearRemovesEarlierBlocks) {
  {
    const auto cache = open();
    for (int32_t slot = 0; slot < 5; ++slot) cache->write(slot, key_of(slot), block_of(slot));
    cache->clear();
    outcomes(*cache, 5);
    ASSERT_TRUE(write(*cache, 3, 30));
    EXPECT_TRUE(read(*cache, 2).empty());
    EXPECT_EQ(read(*cache, 3), block_of(30));
  }
  EXPECT_EQ(open()->take_entries().size(), 1U);
}

TEST_F(DiskCacheTest, KeepsTheFirstSlotsWithASmallerLimit) {
  leave_three_blocks();
  const auto cache = open("a", 2);
  EXPECT_EQ(cache->take_entries().size(), 2U);
  EXPECT_EQ(fs::file_size(folder() / "blocks"),
            static_cast<uintmax_t>(2 * slot_sizes(kTokens, kBlockBytes).block));
}

}  // namespace
}  // namespace quire
