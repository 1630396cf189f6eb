// Bookkeeping of the disk tier: writes, reads, and blocks that are in use meanwhile.
#include <gtest/gtest.h>

#include "base/error.h"
#include "kv/kv_manager.h"
#include "unit/kv/kv_testing.h"

namespace quire {
namespace {

using test::count_to;
using test::layout_of;
using test::Tokens;

class KvDisk : public test::KvTierTest {
 protected:
  // Takes the plan's disk writes.
  std::vector<DiskWrite> taken(KvManager& kv) {
    std::vector<DiskWrite> writes;
    kv.take_disk_writes(writes);
    kv.check_integrity();
    return writes;
  }
  void end_writes(KvManager& kv, const std::vector<DiskWrite>& writes, bool ok = true) {
    for (const DiskWrite& write : writes) kv.finish_disk_io({write.slot, -1, true, ok});
    kv.check_integrity();
  }
  void write_all(KvManager& kv) {
    while (kv.has_disk_writes()) end_writes(kv, taken(kv));
  }
  // The disk slots of a process that has computed these tokens.
  std::vector<StoredBlock> left_by(const Tokens& tokens) {
    KvManager kv(layout_of(64, 8, 64), {});
    kv.close(computed(kv, tokens));
    std::vector<StoredBlock> stored;
    for (const DiskWrite& write : taken(kv)) stored.push_back({write.slot, write.key});
    return stored;
  }

  std::vector<DiskRead> reads_;
};

TEST_F(KvDisk, RequiresHostBlocks) {
  EXPECT_THROW(KvManager(layout_of(8, 0, 8), {}), Error);
}

TEST_F(KvDisk, WritesABlockOnceAfterItsLastReference) {
  KvManager kv(layout_of(16, 4, 16), {});
  const TableId first = computed(kv, count_to(10));
  const TableId second = computed(kv, count_to(10));
  kv.close(first);
  EXPECT_FALSE(kv.has_disk_writes()) << "another sequence holds them";
  kv.close(second);
  ASSERT_TRUE(kv.has_disk_writes());
  const auto writes = taken(kv);
  EXPECT_EQ(writes.size(), 2U) << "full blocks only";
  EXPECT_EQ(writes[1].key.token_ids, count_to(4)) << "released from the end";
  EXPECT_FALSE(kv.has_disk_writes());
  end_writes(kv, writes);
  kv.close(computed(kv, count_to(10)));
  EXPECT_FALSE(kv.has_disk_writes()) << "they are there";
  EXPECT_EQ(kv.stats().num_disk_writes, 2);
  EXPECT_EQ(kv.stats().disk.num_cached, 2);
}

TEST_F(KvDisk, LimitsTheWritesInFlight) {
  KvOptions options;
  options.max_disk_writes = 3;
  KvManager kv(layout_of(16, 4, 16), options);
  kv.close(computed(kv, count_to(32)));
  const auto writes = taken(kv);
  EXPECT_EQ(writes.size(), 3U);
  EXPECT_TRUE(taken(kv).empty());
  EXPECT_TRUE(kv.has_disk_writes());
  end_writes(kv, writes);
  EXPECT_EQ(taken(kv).size(), 3U);
}

TEST_F(KvDisk, WritesOrDropsABlockBeforeItIsReused) {
  KvOptions options;
  options.max_disk_writes = 3;
  KvManager kv(layout_of(4, 4, 16), options);
  kv.close(computed(kv, count_to(16)));
  computed(kv, Tokens(16, 7));
  EXPECT_EQ(taken(kv).size(), 3U);
  EXPECT_EQ(kv.stats().num_disk_writes_dropped, 1);
  EXPECT_FALSE(kv.has_disk_writes());
}

TEST_F(KvDisk, LoadsThePrefixInALaterProcess) {
  const auto stored = left_by(count_to(20));
  KvManager kv(layout_of(16, 8, 64), {});
  kv.restore_disk(stored);
  const TableId table = kv.open("", "");
  kv.find_prefix(table, count_to(20), match_);
  EXPECT_EQ(match_.num_tokens, 0);
  EXPECT_EQ(match_.num_disk_tokens, 16) << "at most all but one token";
  ASSERT_TRUE(kv.load_from_disk(table, count_to(20), match_, reads_));
  ASSERT_EQ(reads_.size(), 4U);
  for (const DiskRead& read : reads_) {
    EXPECT_TRUE(kv.loading(table));
    kv.finish_disk_io({read.slot, read.host_block, false, true});
    kv.check_integrity();
  }
  EXPECT_FALSE(kv.loading(table));
  kv.find_prefix(table, count_to(20), match_);
  EXPECT_EQ(match_.num_tokens, 16);
  EXPECT_EQ(match_.num_disk_tokens, 0);
  ASSERT_TRUE(kv.start(table, match_, 20, copies_));
  EXPECT_EQ(copies_.size(), 4U);
  EXPECT_EQ(kv.stats().disk.num_hits, 4);
  EXPECT_EQ(kv.stats().host.num_used, 0);
  kv.check_integrity();
}

TEST_F(KvDisk, SharesAReadBetweenWaitingSequences) {
  KvManager kv(layout_of(16, 8, 64), {});
  kv.restore_disk(left_by(count_to(20)));
  const TableId first = kv.open("", "");
  const TableId second = kv.open("", "");
  kv.find_prefix(first, count_to(20), match_);
  ASSERT_TRUE(kv.load_from_disk(first, count_to(20), match_, reads_));
  kv.find_prefix(second, count_to(13), match_);
  ASSERT_TRUE(kv.load_from_disk(second, count_to(13), match_, reads_));
  EXPECT_EQ(reads_.size(), 4U);
  kv.close(first);
  kv.check_integrity();
  EXPECT_TRUE(kv.loading(second));
  for (const DiskRead& read : reads_) kv.finish_disk_io({read.slot, read.host_block, false, true});
  EXPECT_FALSE(kv.loading(second));
  kv.find_prefix(second, count_to(13), match_);
  EXPECT_EQ(match_.num_tokens, 12);
  kv.close(second);
  kv.check_integrity();
  EXPECT_EQ(kv.stats().host.num_used, 0);
}

TEST_F(KvDisk, RemovesADamagedBlockAndShortensThePrefix) {
  KvManager kv(layout_of(16, 8, 64), {});
  kv.restore_disk(left_by(count_to(20)));
  const TableId table = kv.open("", "");
  kv.find_prefix(table, count_to(20), match_);
  ASSERT_TRUE(kv.load_from_disk(table, count_to(20), match_, reads_));
  for (size_t i = 0; i < reads_.size(); ++i)
    kv.finish_disk_io({reads_[i].slot, reads_[i].host_block, false, i != 2});
  kv.find_prefix(table, count_to(20), match_);
  EXPECT_EQ(match_.num_tokens, 8);
  EXPECT_EQ(match_.num_disk_tokens, 0);
  EXPECT_EQ(kv.stats().num_disk_reads_failed, 1);
  kv.check_integrity();
}

TEST_F(KvDisk, LoadsOnceUpToTheFreeHostBlocks) {
  KvManager kv(layout_of(16, 3, 64), {});
  kv.restore_disk(left_by(count_to(24)));
  const TableId table = kv.open("", "");
  kv.find_prefix(table, count_to(24), match_);
  EXPECT_EQ(match_.num_disk_tokens, 20);
  ASSERT_TRUE(kv.load_from_disk(table, count_to(24), match_, reads_));
  EXPECT_EQ(reads_.size(), 3U);
  for (const DiskRead& read : reads_) kv.finish_disk_io({read.slot, read.host_block, false, true});
  kv.find_prefix(table, count_to(24), match_);
  EXPECT_EQ(match_.num_tokens, 12);
  EXPECT_FALSE(kv.load_from_disk(table, count_to(24), match_, reads_));
  const TableId other = kv.open("", "");
  kv.find_prefix(other, count_to(24), match_);
  EXPECT_FALSE(kv.load_from_disk(other, count_to(24), match_, reads_)) << "no host block is free";
  kv.find_prefix(table, count_to(24), match_);
  ASSERT_TRUE(kv.start(table, match_, 24, copies_));
  kv.check_integrity();
}

TEST_F(KvDisk, DoesNotFindAFailedWrite) {
  KvManager kv(layout_of(4, 4, 16), {});
  kv.close(computed(kv, count_to(12)));
  end_writes(kv, taken(kv), false);
  EXPECT_EQ(kv.stats().disk.num_cached, 0);
  EXPECT_EQ(kv.stats().num_disk_writes_dropped, 3);
}

TEST_F(KvDisk, EvictsTheLeastRecentlyUsedSlot) {
  KvManager kv(layout_of(32, 8, 4), {});
  kv.close(computed(kv, count_to(8)));
  write_all(kv);
  kv.close(computed(kv, Tokens(8, 7)));
  write_all(kv);
  kv.close(computed(kv, count_to(8)));  // used again
  kv.close(computed(kv, Tokens(8, 9)));
  write_all(kv);
  EXPECT_EQ(kv.stats().disk.num_evicted, 2);
  kv.close(computed(kv, count_to(8)));
  EXPECT_FALSE(kv.has_disk_writes()) << "it is still there";
  kv.close(computed(kv, Tokens(8, 7)));
  EXPECT_TRUE(kv.has_disk_writes()) << "it was evicted";
}

TEST_F(KvDisk, ResetsTheDiskDuringReadsAndWrites) {
  KvManager kv(layout_of(16, 8, 64), {});
  kv.restore_disk(left_by(count_to(20)));
  const TableId table = kv.open("", "");
  kv.find_prefix(table, count_to(20), match_);
  ASSERT_TRUE(kv.load_from_disk(table, count_to(20), match_, reads_));
  kv.close(computed(kv, Tokens(12, 7)));
  const auto writes = taken(kv);
  kv.reset_prefix_cache();
  kv.check_integrity();
  for (const DiskRead& read : reads_) kv.finish_disk_io({read.slot, read.host_block, false, true});
  end_writes(kv, writes);
  kv.find_prefix(table, count_to(20), match_);
  EXPECT_EQ(match_.num_tokens + match_.num_disk_tokens, 0);
  EXPECT_EQ(kv.stats().disk.num_cached, 0);
  kv.close(table);
  EXPECT_EQ(kv.stats().host.num_used, 0);
  kv.check_integrity();
}

TEST_F(KvDisk, IgnoresRestoredSlotsThatDoNotFit) {
  auto stored = left_by(count_to(20));
  stored.push_back(stored[0]);
  stored.push_back({99, stored[1].key});
  stored.push_back({7, stored[1].key});
  stored.push_back({8, {1, 2, 3, 4, 5, Tokens(4, 1)}});
  stored.push_back({9, {1, 2, 3, 4, 0, Tokens(5, 1)}});
  KvManager kv(layout_of(16, 8, 64), {});
  kv.restore_disk(stored);
  EXPECT_EQ(kv.stats().disk.num_cached, 5);
  kv.check_integrity();
}

}  // namespace
}  // namespace quire
