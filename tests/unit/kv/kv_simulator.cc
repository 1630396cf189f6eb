#include "unit/kv/kv_simulator.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace quire::test {

namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9;
  x ^= x >> 27;
  x *= 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

size_t slots_of(int32_t num_blocks, int32_t block_size) {
  return static_cast<size_t>(num_blocks) * static_cast<size_t>(block_size);
}

}  // namespace

KvSimulator::KvSimulator(const KvLayout& kv_layout, const KvOptions& options)
    : layout(kv_layout),
      kv(kv_layout, options),
      device_(slots_of(kv_layout.num_blocks, kv_layout.block_size)),
      host_(slots_of(kv_layout.num_host_blocks, kv_layout.block_size)),
      disk_(static_cast<size_t>(kv_layout.num_disk_blocks)) {}

uint64_t KvSimulator::expected(const SimSequence& sequence, int32_t group, int32_t position) {
  uint64_t history = sequence.root;
  for (size_t i = 0; i <= static_cast<size_t>(position); ++i)
    history = mix(history + static_cast<uint64_t>(sequence.token_ids[i]) + 1);
  return history + static_cast<uint64_t>(group);
}

uint64_t& KvSimulator::slot(KvTier tier, BlockId block, int32_t index) {
  std::vector<uint64_t>& bytes = tier == KvTier::kDevice ? device_ : host_;
  return bytes.at(static_cast<size_t>(block) * static_cast<size_t>(layout.block_size) +
                  static_cast<size_t>(index));
}

void KvSimulator::copy(const BlockCopy& copy) {
  for (int32_t i = 0; i < layout.block_size; ++i)
    slot(copy.dst_tier, copy.dst, i) = slot(copy.src_tier, copy.src, i);
}

void KvSimulator::compute(const SimSequence& sequence) {
  const int32_t begin = kv.num_computed(sequence.table);
  for (int32_t g = 0; g < kv.num_groups(); ++g) {
    const auto blocks = kv.block_table(sequence.table, g);
    const KvGroupSpec& group = layout.groups[static_cast<size_t>(g)];
    if (group.kind == KvGroupKind::kState) {
      ASSERT_EQ(blocks.size(), 1U);
      uint64_t& state = slot(KvTier::kDevice, blocks[0], 0);
      if (begin > 0) {
        ASSERT_EQ(state, expected(sequence, g, begin - 1)) << "another state at " << begin;
      }
      state = expected(sequence, g, begin + sequence.planned - 1);
      ++num_checked;
      continue;
    }
    for (int32_t p = begin; p < begin + sequence.planned; ++p) {
      slot(KvTier::kDevice, blocks[static_cast<size_t>(p / layout.block_size)], p % layout.block_size) =
          expected(sequence, g, p);
    }
    int32_t first = 0;
    if (group.kind == KvGroupKind::kSlidingWindow) first = std::max(0, begin - group.window + 1);
    if (group.kind == KvGroupKind::kChunked) first = begin - begin % group.window;
    for (int32_t p = first; p < begin; ++p, ++num_checked) {
      ASSERT_EQ(
          slot(KvTier::kDevice, blocks[static_cast<size_t>(p / layout.block_size)], p % layout.block_size),
          expected(sequence, g, p))
          << "table " << sequence.table << " reads another history at position " << p << " of group " << g;
    }
  }
}

bool KvSimulator::end_disk_io(uint32_t choice, bool fails) {
  const size_t num_writes = writes_in_flight_.size();
  if (num_writes + reads_in_flight_.size() == 0) return false;
  const size_t chosen = choice % (num_writes + reads_in_flight_.size());
  if (chosen < num_writes) {
    Write write = std::move(writes_in_flight_[chosen]);
    writes_in_flight_.erase(writes_in_flight_.begin() + static_cast<ptrdiff_t>(chosen));
    Slot& slot = disk_[static_cast<size_t>(write.plan.slot)];
    slot = fails ? Slot{} : Slot{write.plan.key, std::move(write.bytes)};
    kv.finish_disk_io({write.plan.slot, -1, true, !fails});
    return true;
  }
  const DiskRead read = reads_in_flight_[chosen - num_writes];
  reads_in_flight_.erase(reads_in_flight_.begin() + static_cast<ptrdiff_t>(chosen - num_writes));
  Slot& slot = disk_[static_cast<size_t>(read.slot)];
  if (fails) slot = {};
  if (!fails) {
    EXPECT_FALSE(slot.bytes.empty()) << "an empty slot is read";
    for (int32_t i = 0; i < layout.block_size && !slot.bytes.empty(); ++i)
      this->slot(KvTier::kHost, read.host_block, i) = slot.bytes[static_cast<size_t>(i)];
  }
  kv.finish_disk_io({read.slot, read.host_block, false, !fails});
  return true;
}

std::vector<StoredBlock> KvSimulator::stored() const {
  std::vector<StoredBlock> all;
  for (size_t i = 0; i < disk_.size(); ++i) {
    if (!disk_[i].bytes.empty()) all.push_back({static_cast<int32_t>(i), disk_[i].key});
  }
  return all;
}

void KvSimulator::restore(const KvSimulator& before) {
  disk_ = before.disk_;
  kv.restore_disk(before.stored());
}

void KvSimulator::perform(std::vector<SimSequence>& sequences) {
  taken_.clear();
  kv.take_disk_writes(taken_);
  for (const DiskWrite& write : taken_) {
    Write& begun = writes_in_flight_.emplace_back(Write{write, {}});
    for (int32_t i = 0; i < layout.block_size; ++i) begun.bytes.push_back(slot(write.src_tier, write.src, i));
  }
  for (const BlockCopy& each : copies) copy(each);
  copies.clear();
  for (const DiskRead& read : disk_reads) {
    // The block must not be used before the read has ended.
    for (int32_t i = 0; i < layout.block_size; ++i) slot(KvTier::kHost, read.host_block, i) = 0;
    reads_in_flight_.push_back(read);
  }
  disk_reads.clear();
  for (const SimSequence& sequence : sequences) {
    if (sequence.planned > 0) compute(sequence);
  }
  for (SimSequence& sequence : sequences) {
    if (sequence.planned == 0) continue;
    kv.commit(sequence.table, sequence.token_ids, kv.num_computed(sequence.table) + sequence.planned);
    sequence.planned = 0;
  }
}

}  // namespace quire::test
