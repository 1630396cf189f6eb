// Random histories of a KvManager with tiers: for any sharing, swapping, eviction and reloading, a sequence
// reads what was written for its tokens, and the bookkeeping is consistent after each operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "unit/kv/kv_simulator.h"

namespace quire::test {
namespace {

struct World {
  const char* name;
  int32_t num_blocks;
  int32_t num_host_blocks;
  int32_t num_disk_blocks;
  int32_t block_size;
  std::vector<KvGroupSpec> groups;
};

std::ostream& operator<<(std::ostream& out, const World& world) {
  return out << world.name;
}

const KvGroupSpec kFullGroup = {KvGroupKind::kFull, 0, {}};
const KvGroupSpec kStateGroup = {KvGroupKind::kState, 0, {}};
KvGroupSpec window(int32_t tokens) {
  return {KvGroupKind::kSlidingWindow, tokens, {}};
}

KvGroupSpec chunked(int32_t tokens) {
  return {KvGroupKind::kChunked, tokens, {}};
}

class KvRandom : public ::testing::TestWithParam<World> {
 protected:
  int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit)); }
  bool one_in(int32_t count) { return below(count) == 0; }

  void begin_sequence(KvSimulator& sim) {
    SimSequence& sequence = sequences_.emplace_back();
    sequence.request = next_request_++;
    const bool salted = one_in(5);
    sequence.root = salted ? 1 : 0;
    sequence.table = sim.kv.open("", salted ? "tenant" : "");
    // Few families of prompts, so that prefixes are shared.
    const int32_t family = below(3);
    for (int32_t i = 0, size = 1 + below(60); i < size; ++i)
      sequence.token_ids.push_back(family * 100 + i % 7);
    for (int32_t i = 0, size = below(5); i < size; ++i) sequence.token_ids.push_back(below(3));
  }

  // Continues a sequence within the plan: starts it, or lets it grow.
  void advance(KvSimulator& sim, SimSequence& sequence) {
    if (sequence.swapped || sequence.planned > 0) return;
    if (sequence.loading && sim.kv.loading(sequence.table)) return;
    sequence.loading = false;
    const int32_t num_tokens = static_cast<int32_t>(sequence.token_ids.size());
    if (!sequence.running) {
      sim.kv.find_prefix(sequence.table, sequence.token_ids, match_);
      if (!one_in(4) && sim.kv.load_from_disk(sequence.table, sequence.token_ids, match_, sim.disk_reads)) {
        sequence.loading = true;
        return;
      }
      int32_t chunk = 1 + below(num_tokens - match_.num_tokens);
      if (match_.num_tokens % (2 * sim.layout.block_size) == 0) chunk = to_checkpoint(sim, sequence, chunk);
      const int64_t free_before = sim.kv.num_free();
      const int64_t needed = sim.kv.blocks_to_start(match_, match_.num_tokens + chunk, chunk);
      if (!sim.kv.start(sequence.table, match_, match_.num_tokens + chunk, sim.copies)) {
        EXPECT_EQ(free_before, sim.kv.num_free());
        return;
      }
      if (!has_window_ && !has_state_) {
        EXPECT_EQ(free_before - sim.kv.num_free(), needed);
      }
      sequence.running = true;
      sequence.planned = chunk;
      num_hits_ += match_.num_tokens;
      return;
    }
    const int32_t computed = sim.kv.num_computed(sequence.table);
    if (computed == num_tokens) sequence.token_ids.push_back(below(3));
    int32_t chunk = 1 + below(static_cast<int32_t>(sequence.token_ids.size()) - computed);
    chunk = to_checkpoint(sim, sequence, chunk);
    if (sim.kv.allocate_slots(sequence.table, computed + chunk, sim.copies)) sequence.planned = chunk;
  }

  // Most chunks end at a checkpoint if they reach one.
  int32_t to_checkpoint(const KvSimulator& sim, const SimSequence& sequence, int32_t chunk) {
    const int32_t to_checkpoint = sim.kv.tokens_to_checkpoint(sequence.table);
    return to_checkpoint > 0 && !one_in(4) ? std::min(chunk, to_checkpoint) : chunk;
  }

  std::vector<TableId> tables_of(int32_t request) const {
    std::vector<TableId> tables;
    for (const SimSequence& sequence : sequences_) {
      if (sequence.request == request) tables.push_back(sequence.table);
    }
    return tables;
  }

  void swap(KvSimulator& sim, const SimSequence& chosen) {
    const int32_t request = chosen.request;
    const bool ready = std::all_of(sequences_.begin(), sequences_.end(), [&](const SimSequence& s) {
      return s.request != request || (s.running && s.planned == 0);
    });
    if (!ready) return;
    const std::vector<TableId> tables = tables_of(request);
    if (chosen.swapped) {
      const int64_t needed = sim.kv.blocks_to_swap_in(tables);
      const int64_t free_before = sim.kv.num_free();
      ASSERT_EQ(sim.kv.swap_in(tables, sim.copies), needed <= free_before);
      if (needed > free_before) return;
      EXPECT_LE(free_before - sim.kv.num_free(), needed);
    } else if (!sim.kv.swap_out(tables, sim.copies)) {
      return;
    }
    ++num_swaps_;
    for (SimSequence& sequence : sequences_) {
      if (sequence.request != request) continue;
      sequence.swapped = !sequence.swapped;
      EXPECT_EQ(sim.kv.swapped_out(sequence.table), sequence.swapped);
      EXPECT_EQ(sim.kv.block_table(sequence.table, 0).empty(), sequence.swapped);
    }
  }

  void fork(KvSimulator& sim, size_t index) {
    if (!sequences_[index].running || sequences_[index].planned > 0) return;
    SimSequence child = sequences_[index];
    child.table = sim.kv.fork(sequences_[index].table);
    sequences_.push_back(child);
  }

  void operate(KvSimulator& sim) {
    if (sequences_.empty() || (sequences_.size() < 12 && one_in(6))) begin_sequence(sim);
    const size_t index = static_cast<size_t>(below(static_cast<int32_t>(sequences_.size())));
    SimSequence& sequence = sequences_[index];
    switch (below(12)) {
      case 0:
        // A sequence in the plan ends only after the plan.
        if (sequence.planned > 0) break;
        sim.kv.close(sequence.table);
        sequences_.erase(sequences_.begin() + static_cast<ptrdiff_t>(index));
        break;
      case 1:
        if (sequence.planned > 0) break;
        sim.kv.clear(sequence.table);
        sequence.running = sequence.swapped = sequence.loading = false;
        sequence.request = next_request_++;
        break;
      case 2:
        if (sequences_.size() < 12) fork(sim, index);
        break;
      case 3:
      case 4:
        swap(sim, sequence);
        break;
      case 5:
        sim.perform(sequences_);
        break;
      case 6:
        if (one_in(50)) sim.kv.reset_prefix_cache();
        sim.end_disk_io(random_(), one_in(10));
        break;
      case 7:
        for (int i = below(20); i > 0 && sim.end_disk_io(random_(), one_in(20)); --i) {
        }
        break;
      default:
        advance(sim, sequence);
    }
  }

  std::mt19937 random_;
  std::vector<SimSequence> sequences_;
  PrefixMatch match_;
  int32_t next_request_ = 0;
  int64_t num_hits_ = 0;
  int64_t num_swaps_ = 0;
  bool has_window_ = false;
  bool has_state_ = false;
};

KvLayout layout_of(const World& world) {
  KvLayout layout;
  layout.num_blocks = world.num_blocks;
  layout.num_host_blocks = world.num_host_blocks;
  layout.num_disk_blocks = world.num_disk_blocks;
  layout.block_size = world.block_size;
  layout.groups = world.groups;
  return layout;
}

TEST_P(KvRandom, ReadsTheWrittenTokens) {
  const World& world = GetParam();
  for (const KvGroupSpec& group : world.groups) {
    has_window_ = has_window_ || group.window > 0;
    has_state_ = has_state_ || group.kind == KvGroupKind::kState;
  }
  KvOptions options;
  options.checkpoint_blocks = 2;
  options.max_disk_writes = 5;
  int64_t num_checked = 0;
  int64_t num_host_hits = 0;
  int64_t num_disk_hits = 0;
  std::unique_ptr<KvSimulator> last;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    random_.seed(seed);
    sequences_.clear();
    auto sim = std::make_unique<KvSimulator>(layout_of(world), options);
    // Every world except the first starts with the disk of the previous one.
    if (last != nullptr) sim->restore(*last);
    for (int i = 0; i < 3000; ++i) {
      operate(*sim);
      ASSERT_NO_THROW(sim->kv.check_integrity()) << "operation " << i;
      if (HasFailure()) return;
    }
    sim->perform(sequences_);
    for (const SimSequence& sequence : sequences_) sim->kv.close(sequence.table);
    while (sim->end_disk_io(0, false)) {
    }
    sim->kv.check_integrity();
    const KvStats stats = sim->kv.stats();
    EXPECT_EQ(stats.num_used, 0);
    EXPECT_EQ(stats.host.num_used, 0);
    EXPECT_EQ(stats.disk.num_used, 0);
    num_checked += sim->num_checked;
    num_host_hits += stats.host.num_hits;
    num_disk_hits += stats.disk.num_hits;
    last = std::move(sim);
  }
  EXPECT_GT(num_checked, 5'000);
  EXPECT_GT(num_hits_, 1000);
  EXPECT_EQ(num_swaps_ > 500, world.num_host_blocks > 3) << num_swaps_;
  EXPECT_EQ(num_host_hits > 0, world.num_host_blocks > 0) << num_host_hits;
  EXPECT_EQ(num_disk_hits > 100, world.num_disk_blocks > 0) << num_disk_hits;
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, KvRandom,
    ::testing::Values(
        World{"DeviceOnly", 40, 0, 0, 4, {kFullGroup}}, World{"Host", 40, 30, 0, 4, {kFullGroup}},
        World{"SmallHost", 30, 6, 0, 4, {kFullGroup}}, World{"LargeHost", 24, 200, 0, 4, {kFullGroup}},
        World{"BlocksOfOne", 120, 90, 0, 1, {kFullGroup}}, World{"WindowHost", 40, 30, 0, 4, {window(9)}},
        World{"FullAndWindowsHost", 70, 60, 0, 4, {window(6), kFullGroup, window(17)}},
        World{"Disk", 30, 12, 100, 4, {kFullGroup}}, World{"SmallDisk", 30, 12, 9, 4, {kFullGroup}},
        World{"StagingOnly", 30, 3, 60, 4, {kFullGroup}}, World{"DiskOfOne", 100, 30, 300, 1, {kFullGroup}},
        World{"WindowsDisk", 60, 20, 150, 4, {window(6), kFullGroup, window(17)}},
        World{"ChunkedHost", 40, 30, 0, 4, {chunked(8)}},
        World{"FullAndChunkedDisk", 70, 30, 150, 4, {kFullGroup, chunked(6), chunked(16)}},
        World{"GroupsOfOneKind", 90, 40, 150, 4, {kFullGroup, window(6), window(6), window(6)}},
        World{"States", 30, 0, 0, 4, {kStateGroup}},
        World{"StatesHost", 50, 40, 0, 4, {kStateGroup, kFullGroup}},
        World{"AllKindsDisk", 70, 30, 150, 4, {kStateGroup, window(9), kFullGroup, kStateGroup}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace quire::test
