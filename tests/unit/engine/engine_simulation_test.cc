// Deterministic simulation of the engine core: scheduler, KV manager, host and disk tiers and output
// processor run against a simulated clock, disk and executor with faults drawn from a seed. Steps are slow or
// stall, sequences fail, disk operations are slow or fail, writes are torn, reordered or lost in crashes,
// stored bits flip, requests are aborted, and exceptions end the engine at any phase of a step. After a crash
// or an exception a new core starts with the contents of the disk. Between bursts of requests the engine is
// idle for seconds or hours; the disk changes and the process ends and restarts in idle hours, too. The
// machine may be suspended for hours while requests run.
//
// Checked for every seed: each request ends exactly once, with the tokens that it gets alone unless the fault
// affected it; the bookkeeping is consistent; no block leaks. A seed can be replayed:
//   QUIRE_SIM_SEED=17 build/release/test_engine --gtest_filter='EngineSimulation.*'
// QUIRE_SIM_ROUNDS seeds are run, by default 200.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/engine_core.h"
#include "exec/disk_slot.h"
#include "sample/validate.h"
#include "support/environment.h"
#include "support/sanitizers.h"
#include "unit/sched/fake_executor.h"

namespace quire {
namespace {

using test::FakeDisk;
using test::FakeExecutor;

constexpr double kHour = 3600.0;  // seconds

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t limit) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(limit)); }
  bool one_in(int64_t count) { return below(count) == 0; }
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

// The two files of a disk cache in the operating system's page cache: written bytes are visible immediately,
// and reach the disk sector by sector, in any order, later or never.
class SimulatedDisk final : public FakeDisk {
 public:
  SimulatedDisk(Random& random, int32_t block_size, int32_t num_slots)
      : random_(random),
        block_size_(block_size),
        num_slots_(num_slots),
        bytes_per_block_(int64_t{block_size} * 8),
        sizes_(slot_sizes(block_size, bytes_per_block_)),
        heads_(static_cast<size_t>(sizes_.head * num_slots)),
        blocks_(static_cast<size_t>(sizes_.block * num_slots)) {
    open();
  }

  // In the order of exec/disk_cache: the block, then its head.
  bool write(int32_t slot, const CachedBlockHash& name, const std::vector<uint64_t>& content) override {
    const auto block = std::as_bytes(std::span(content));
    const uint64_t checksum = block_checksum(block);
    std::vector<std::byte> head(static_cast<size_t>(sizes_.head));
    encode_head(name, slot, ++stamp_, block.size(), checksum, head);
    checksums_.erase(slot);
    if (random_.one_in(40)) {  // disk full or broken: only a prefix is written
      store(blocks_, slot * sizes_.block, block.first(static_cast<size_t>(random_.below(bytes_per_block_))));
      return false;
    }
    store(blocks_, slot * sizes_.block, block);
    if (random_.one_in(60)) {
      store(heads_, slot * sizes_.head,
            std::span(head).first(static_cast<size_t>(random_.below(sizes_.head))));
      return false;
    }
    store(heads_, slot * sizes_.head, head);
    checksums_[slot] = checksum;
    return true;
  }

  std::optional<std::vector<uint64_t>> read(int32_t slot) override {
    const auto known = checksums_.find(slot);
    if (known == checksums_.end() || random_.one_in(50)) return std::nullopt;
    if (random_.one_in(200)) flip_a_bit(blocks_, slot * sizes_.block, bytes_per_block_);
    std::vector<uint64_t> content(static_cast<size_t>(block_size_));
    const auto bytes = std::as_writable_bytes(std::span(content));
    std::copy_n(blocks_.seen.begin() + slot * sizes_.block, bytes.size(), bytes.begin());
    if (block_checksum(bytes) != known->second) return std::nullopt;
    return content;
  }

  // The blocks that a new process finds, least recently written first.
  std::vector<StoredBlock> open() {
    checksums_.clear();
    std::map<uint64_t, StoredBlock> found;
    for (int32_t slot = 0; slot < num_slots_; ++slot) {
      const auto head = std::span(std::as_const(heads_.seen))
                            .subspan(static_cast<size_t>(slot * sizes_.head), head_bytes());
      auto decoded = decode_head(head, slot, bytes_per_block_);
      if (!decoded) continue;
      stamp_ = std::max(stamp_, decoded->stamp);
      checksums_[slot] = decoded->block_checksum;
      found[decoded->stamp] = {slot, std::move(decoded->key)};
    }
    std::vector<StoredBlock> blocks;
    for (auto& [stamp, block] : found) blocks.push_back(std::move(block));
    return blocks;
  }

  // Power loss: a random subset of the dirty sectors has reached the disk.
  void lose_power() {
    for (File* file : {&heads_, &blocks_}) {
      for (const size_t sector : file->dirty) {
        if (random_.one_in(2)) file->persist(sector);
      }
      file->dirty.clear();
      file->seen = file->durable;
    }
  }
  // Writes dirty sectors back, each with a probability of 1 / n.
  void write_back(int64_t n) {
    for (File* file : {&heads_, &blocks_}) {
      for (auto it = file->dirty.begin(); it != file->dirty.end();) {
        if (!random_.one_in(n)) {
          ++it;
          continue;
        }
        file->persist(*it);
        it = file->dirty.erase(it);
      }
    }
  }
  void decay() { flip_a_bit(random_.one_in(2) ? heads_ : blocks_, 0, -1); }

 private:
  static constexpr size_t kSector = 64;  // small, so that blocks of a few hundred bytes can tear

  struct File {
    explicit File(size_t size) : seen(size), durable(size) {}
    void persist(size_t sector) {
      const size_t begin = sector * kSector, end = std::min(begin + kSector, seen.size());
      std::copy(seen.begin() + static_cast<ptrdiff_t>(begin), seen.begin() + static_cast<ptrdiff_t>(end),
                durable.begin() + static_cast<ptrdiff_t>(begin));
    }
    std::vector<std::byte> seen;     // content that reads return
    std::vector<std::byte> durable;  // content after a power loss
    std::set<size_t> dirty;          // sectors
  };

  size_t head_bytes() const { return static_cast<size_t>(sizes_.head); }
  void store(File& file, int64_t offset, std::span<const std::byte> bytes) {
    std::copy(bytes.begin(), bytes.end(), file.seen.begin() + offset);
    for (size_t at = static_cast<size_t>(offset) / kSector;
         at * kSector < static_cast<size_t>(offset) + bytes.size(); ++at)
      file.dirty.insert(at);
  }
  void flip_a_bit(File& file, int64_t offset, int64_t size) {
    if (size < 0) size = static_cast<int64_t>(file.seen.size());
    const auto at = static_cast<size_t>(offset + random_.below(size));
    const auto bit = std::byte{static_cast<unsigned char>(1 << random_.below(8))};
    file.seen[at] ^= bit;
    file.durable[at] ^= bit;
  }

  Random& random_;
  int32_t block_size_;
  int32_t num_slots_;
  int64_t bytes_per_block_;
  SlotSizes sizes_;
  File heads_;
  File blocks_;
  uint64_t stamp_ = 0;
  std::map<int32_t, uint64_t> checksums_;  // by slot, of the running process
};

// FakeExecutor with simulated step times and failing sequences.
class SimulatedExecutor final : public Executor {
 public:
  SimulatedExecutor(const KvLayout& layout, const SchedulerConfig& config, Random& random, double& now,
                    FakeDisk* disk)
      : fake_(layout, config.max_model_len), random_(random), now_(now) {
    fake_.disk = disk;
  }
  void begin(const StepPlan& plan) override { plan_ = &plan; }
  const StepResult& finish() override {
    if (!plan_->scheduled.empty() && random_.one_in(300)) {
      const auto& victim =
          plan_->scheduled[static_cast<size_t>(random_.below(static_cast<int64_t>(plan_->scheduled.size())))];
      fake_.fail_next.insert(victim.seq);
      ++num_failed;
    }
    result_ = fake_.execute(*plan_);
    // Milliseconds per token of a large model on a small machine; some steps stall for up to a minute.
    now_ += 0.02 + 0.004 * plan_->num_tokens;
    if (random_.one_in(30)) now_ += 60.0 * random_.unit();
    if (random_.one_in(1500)) {  // the machine is suspended
      now_ += 8.0 * kHour * random_.unit();
      ++num_suspended;
    }
    return result_;
  }
  size_t num_sequences() const { return fake_.num_sequences(); }

  int num_failed = 0;
  int num_suspended = 0;

 private:
  FakeExecutor fake_;
  Random& random_;
  double& now_;
  const StepPlan* plan_ = nullptr;
  StepResult result_;
};

struct Totals {
  double simulated_seconds = 0.0;
  int64_t steps = 0, requests = 0, completed = 0, aborted = 0, failed = 0, rejected = 0, lost = 0;
  int64_t crashes = 0, exceptions = 0, preemptions = 0, disk_hits = 0, host_hits = 0, disk_failures = 0;
  double busy_seconds = 0.0;  // with requests in progress
  int64_t suspended = 0, stops = 0, idle_periods = 0, idle_events = 0;

  void add(const Totals& other) {
    simulated_seconds += other.simulated_seconds;
    steps += other.steps, requests += other.requests, completed += other.completed, aborted += other.aborted;
    failed += other.failed, rejected += other.rejected, lost += other.lost;
    crashes += other.crashes, exceptions += other.exceptions, preemptions += other.preemptions;
    disk_hits += other.disk_hits, host_hits += other.host_hits, disk_failures += other.disk_failures;
    busy_seconds += other.busy_seconds, suspended += other.suspended, stops += other.stops;
    idle_periods += other.idle_periods, idle_events += other.idle_events;
  }
};

struct Injected {};

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) { choose_world(); }

  // Runs several thousand steps until idle. Test failures report the seed.
  void run(int num_steps) {
    start();
    double next_arrival = 0.0;
    for (int i = 0; i < num_steps && !::testing::Test::HasFailure(); ++i) {
      if (!core_->has_work()) {
        check_idle();
        now_ = std::max(now_, next_arrival);
        be_idle();
        next_arrival = now_;
      }
      // While the machine is suspended, no requests arrive.
      next_arrival = std::max(next_arrival, now_ - 60.0);
      for (; next_arrival <= now_; next_arrival += 4.0 * random_.unit() * random_.unit()) arrive();
      outside_events();
      step();
      if (random_.one_in(64)) core_->check_integrity();
    }
    for (int i = 0; core_->has_work() && i < 200000 && !::testing::Test::HasFailure(); ++i) step();
    check_idle();
    totals.simulated_seconds = now_;
    collect_statistics();
  }

  uint64_t trace() const { return trace_; }
  Totals totals;

 private:
  struct Request {
    quire::Request scheduled;  // for computing its output alone
    std::vector<std::vector<TokenId>> tokens;
    std::vector<FinishReason> reasons;
    std::optional<Failure> failure;
    bool finished = false;
    bool aborted = false;
  };

  void choose_world() {
    layout_ = test::make_layout(static_cast<int32_t>(12 + random_.below(60)),
                                static_cast<int32_t>(2 + random_.below(7)));
    // Blocks that are larger than many prompts, and few of them.
    if (random_.one_in(4)) layout_ = test::make_layout(static_cast<int32_t>(4 + random_.below(5)), 32);
    layout_.bytes_per_block = int64_t{layout_.block_size} * 8;
    if (!random_.one_in(4))
      layout_.num_host_blocks = static_cast<int32_t>(2 + random_.below(layout_.num_blocks));
    if (layout_.num_host_blocks > 0 && !random_.one_in(3))
      layout_.num_disk_blocks = static_cast<int32_t>(8 + random_.below(60));
    if (random_.one_in(4)) layout_.groups.push_back({KvGroupKind::kState, 0, {}});
    if (random_.one_in(4)) layout_.groups.push_back({KvGroupKind::kSlidingWindow, 8, {}});
    if (layout_.groups.size() > 1) layout_.checkpoint_blocks = static_cast<int32_t>(1 + random_.below(4));
    config_.max_num_seqs = static_cast<int32_t>(2 + random_.below(8));
    config_.max_num_batched_tokens = static_cast<int32_t>(config_.max_num_seqs + random_.below(48));
    config_.max_model_len = std::min(96, layout_.block_size * (layout_.num_blocks / 2));
    max_queued_ = static_cast<int32_t>(1 + random_.below(30));
    config_.long_prefill_token_threshold = random_.one_in(3) ? static_cast<int32_t>(1 + random_.below(8)) : 0;
    constexpr std::array kPolicies = {SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority,
                                      SchedulingPolicy::kFair, SchedulingPolicy::kMlfq};
    config_.policy = kPolicies[static_cast<size_t>(random_.below(kPolicies.size()))];
    constexpr std::array kModes = {PreemptionMode::kAuto, PreemptionMode::kRecompute, PreemptionMode::kSwap};
    config_.preemption_mode =
        layout_.num_host_blocks > 0 ? kModes[static_cast<size_t>(random_.below(3))] : PreemptionMode::kAuto;
    config_.hash_seed = 77;
    model_.max_model_len = config_.max_model_len;
    model_.end_token_ids = {1, 2};
    if (layout_.num_disk_blocks > 0)
      disk_ = std::make_unique<SimulatedDisk>(random_, layout_.block_size, layout_.num_disk_blocks);
  }

  // A new process: only the disk and the clock keep their state.
  void start() {
    collect_statistics();
    core_.reset();
    metrics_ = std::make_unique<MetricsRegistry>(MetricLabels{});
    executor_ = std::make_unique<SimulatedExecutor>(layout_, config_, random_, now_, disk_.get());
    num_unstarted_ = 0;
    EngineHooks hooks;
    hooks.clock = [this] { return now_; };
    hooks.before = [this](StepPhase phase) {
      if (armed_ && *armed_ == phase) {
        armed_.reset();
        throw Injected();
      }
    };
    core_ = std::make_unique<EngineCore>(config_, layout_, *executor_, nullptr, *metrics_, model_, kSeed,
                                         num_unstarted_, hooks);
    if (disk_ != nullptr) core_->restore_disk(disk_->open());
  }

  void arrive() {
    const RequestId id = next_id_++;
    quire::Request request;
    // Few families of prompts, so that prefixes are shared.
    const auto longest = config_.max_model_len - 2;
    request.prompt_token_ids = test::make_prompt(static_cast<int32_t>(1 + random_.below(longest)),
                                                 static_cast<uint64_t>(random_.below(3)));
    SamplingParams& sampling = request.sampling.edit();
    sampling.max_tokens = static_cast<int32_t>(random_.one_in(12) ? 0 : 1 + random_.below(30));
    sampling.n = static_cast<int32_t>(random_.one_in(3) ? 1 + random_.below(4) : 1);
    if (random_.one_in(2)) sampling.seed = static_cast<uint64_t>(random_.below(5));
    if (random_.one_in(4)) sampling.stop_token_ids = {3, 4, 5};
    if (random_.one_in(5)) sampling.ignore_eos = true;
    if (random_.one_in(6)) request.cache_salt = "tenant";
    request.priority = static_cast<int32_t>(random_.below(5));
    request.client = std::to_string(random_.below(3));
    Request& mine = requests_[id];
    mine.scheduled.id = id;
    mine.scheduled.prompt_token_ids = request.prompt_token_ids;
    mine.scheduled.sampling = sampling;
    mine.scheduled.seed = effective_seed(sampling, kSeed, static_cast<uint64_t>(id));
    mine.scheduled.end_token_ids = model_.end_token_ids;
    mine.tokens.resize(static_cast<size_t>(sampling.n));
    mine.reasons.resize(static_cast<size_t>(sampling.n), FinishReason::kNone);
    ++totals.requests;
    request.id = id;
    request.arrival = now_;
    if (num_unstarted_.load() >= max_queued_ || !core_->check(request).ok()) {
      ++totals.rejected;
      requests_.erase(id);
      return;
    }
    num_unstarted_.fetch_add(1);
    core_->add({std::move(request), [this, id](RequestOutput&& output) { receive(id, std::move(output)); }});
  }

  void receive(RequestId id, RequestOutput&& output) {
    Request& request = requests_.at(id);
    EXPECT_FALSE(request.finished) << "an output after the last one";
    note(static_cast<uint64_t>(id));
    for (const CompletionDelta& delta : output.outputs) {
      const auto index = static_cast<size_t>(delta.index);
      ASSERT_LT(index, request.tokens.size());
      for (const TokenId token : delta.token_ids) note(static_cast<uint64_t>(token));
      request.tokens[index].insert(request.tokens[index].end(), delta.token_ids.begin(),
                                   delta.token_ids.end());
      request.reasons[index] = delta.finish_reason;
    }
    request.failure = output.failure;
    request.finished = output.finished;
    if (output.finished) judge(id, request);
  }

  void judge(RequestId id, Request& request) {
    if (request.failure) {
      ++totals.failed;
      EXPECT_TRUE(failing_ || request.failure->message == "the logits are not numbers")
          << request.failure->message;
    } else if (request.aborted) {
      ++totals.aborted;
    } else {
      ++totals.completed;
      for (size_t i = 0; i < request.tokens.size(); ++i) {
        const auto expected =
            test::expected_sample(request.scheduled, static_cast<int32_t>(i), config_.max_model_len);
        EXPECT_EQ(request.tokens[i], expected.token_ids) << "request " << id << ", sample " << i;
        EXPECT_EQ(request.reasons[i], expected.finish_reason) << "request " << id << ", sample " << i;
      }
    }
    requests_.erase(id);
  }

  // A pause until the next burst: a second, up to an hour, or up to a day in which the disk changes and the
  // process may end.
  void be_idle() {
    if (!random_.one_in(4)) {
      now_ += random_.unit();
      return;
    }
    if (!random_.one_in(4)) {
      now_ += kHour * random_.unit();
      return;
    }
    ++totals.idle_periods;
    const double end = now_ + 24.0 * kHour * random_.unit();
    for (; now_ < end; now_ += 4.0 * kHour * random_.unit()) {
      ++totals.idle_events;
      // The operating system has written nearly everything back by now.
      if (disk_ != nullptr && !random_.one_in(5)) disk_->write_back(1);
      if (disk_ != nullptr && random_.one_in(10)) disk_->decay();
      if (random_.one_in(20)) core_->reset_prefix_cache();
      if (random_.one_in(4)) {
        EXPECT_EQ(core_->view().time, now_);
      }
      if (random_.one_in(10)) {  // SIGTERM and a new process
        armed_.reset();
        core_->flush_disk();
        ++totals.stops;
        start();
      } else if (random_.one_in(30)) {
        crash();
      }
    }
  }

  void crash() {
    ++totals.crashes;
    if (disk_ != nullptr && random_.one_in(2)) disk_->lose_power();
    totals.lost += static_cast<int64_t>(requests_.size());
    requests_.clear();
    armed_.reset();
    start();
  }

  void outside_events() {
    if (random_.one_in(10) && !requests_.empty()) {
      auto it = requests_.lower_bound(random_.below(next_id_));
      if (it != requests_.end()) {
        it->second.aborted = true;
        core_->abort(it->first);
      }
    }
    if (disk_ != nullptr && random_.one_in(5)) disk_->write_back(3);
    if (disk_ != nullptr && random_.one_in(400)) disk_->decay();
    if (random_.one_in(500)) core_->reset_prefix_cache();
    if (random_.one_in(700)) armed_ = static_cast<StepPhase>(1 + random_.below(5));
    if (random_.one_in(900)) crash();  // the process is killed, or the machine loses power
  }

  void step() {
    ++totals.steps;
    const double begin = now_;
    try {
      if (core_->has_work()) core_->step();
      core_->deliver();
    } catch (const Injected&) {
      ++totals.exceptions;
      failing_ = true;
      core_->fail_all({ErrorKind::kInternal, "the engine failed", ""});
      failing_ = false;
      EXPECT_TRUE(requests_.empty()) << "a request got no answer from the failed engine";
      requests_.clear();
      start();
    }
    totals.busy_seconds += now_ - begin;
  }

  void check_idle() {
    EXPECT_TRUE(requests_.empty()) << requests_.size() << " requests without an answer";
    requests_.clear();
    EXPECT_EQ(num_unstarted_.load(), 0);
    EXPECT_EQ(core_->num_requests(), 0U);
    core_->check_integrity();
    const EngineStats stats = core_->stats();
    EXPECT_EQ(stats.num_free_blocks, stats.num_blocks) << "blocks leaked";
  }

  // Before the core ends.
  void collect_statistics() {
    if (core_ == nullptr) return;
    totals.preemptions += core_->stats().num_preemptions;
    totals.suspended += executor_->num_suspended;
    const std::string page = metrics_->render();
    totals.disk_hits += metric(page, "quire:kv_tier_hits_total{tier=\"disk\"} ");
    totals.host_hits += metric(page, "quire:kv_tier_hits_total{tier=\"host\"} ");
    totals.disk_failures += metric(page, "quire:kv_disk_reads_failed_total ");
  }
  static int64_t metric(const std::string& page, const std::string& name) {
    const size_t at = page.find("\n" + name);
    return at == std::string::npos ? 0 : std::atoll(page.c_str() + at + 1 + name.size());
  }

  void note(uint64_t value) { trace_ = (trace_ ^ value) * 0x9E3779B97F4A7C15ULL + (trace_ >> 9); }

  static constexpr uint64_t kSeed = 5;

  Random random_;
  KvLayout layout_;
  SchedulerConfig config_;
  int32_t max_queued_ = 0;
  ModelInfo model_;
  double now_ = 0.0;
  std::unique_ptr<SimulatedDisk> disk_;
  std::unique_ptr<MetricsRegistry> metrics_;
  std::unique_ptr<SimulatedExecutor> executor_;
  std::atomic<int32_t> num_unstarted_{0};
  std::unique_ptr<EngineCore> core_;
  std::optional<StepPhase> armed_;
  bool failing_ = false;
  RequestId next_id_ = 0;
  std::map<RequestId, Request> requests_;
  uint64_t trace_ = 1;
};

constexpr int kSteps = 3000;
constexpr int kRounds = test::repetitions(200, 40);
constexpr double kMinHours = 50.0 * kRounds;

TEST(EngineSimulation, EndsEveryRequestOnceWithItsOwnOutput) {
  const double one_seed = test::number_of("QUIRE_SIM_SEED", -1.0);
  const double rounds = one_seed < 0 ? test::number_of("QUIRE_SIM_ROUNDS", kRounds) : 1;
  Totals totals;
  int64_t seeds = 0;
  for (uint64_t seed = one_seed < 0 ? 1 : static_cast<uint64_t>(one_seed);
       static_cast<double>(seeds) < rounds && !HasFailure(); ++seed) {
    SCOPED_TRACE("QUIRE_SIM_SEED=" + std::to_string(seed));
    Simulation simulation(seed);
    simulation.run(kSteps);
    totals.add(simulation.totals);
    ++seeds;
  }
  const double hours = totals.simulated_seconds / kHour;
  std::printf("%lld seeds, %lld steps, %.0f simulated hours (%.0f with requests in progress)\n",
              static_cast<long long>(seeds), static_cast<long long>(totals.steps), hours,
              totals.busy_seconds / kHour);
  std::printf("%lld long idle periods with %lld events, %lld stops, %lld suspensions\n",
              static_cast<long long>(totals.idle_periods), static_cast<long long>(totals.idle_events),
              static_cast<long long>(totals.stops), static_cast<long long>(totals.suspended));
  std::printf(
      "%lld requests: %lld completed, %lld aborted, %lld failed, %lld rejected, %lld lost in %lld crashes; "
      "%lld exceptions, %lld preemptions, %lld host hits, %lld disk hits, %lld failed disk reads\n",
      static_cast<long long>(totals.requests), static_cast<long long>(totals.completed),
      static_cast<long long>(totals.aborted), static_cast<long long>(totals.failed),
      static_cast<long long>(totals.rejected), static_cast<long long>(totals.lost),
      static_cast<long long>(totals.crashes), static_cast<long long>(totals.exceptions),
      static_cast<long long>(totals.preemptions), static_cast<long long>(totals.host_hits),
      static_cast<long long>(totals.disk_hits), static_cast<long long>(totals.disk_failures));
  if (rounds < kRounds || HasFailure()) return;
  EXPECT_GE(hours, kMinHours);
  // Ensures that the faults have occurred.
  for (const int64_t count : {totals.completed, totals.aborted, totals.failed, totals.rejected,
                              totals.crashes, totals.exceptions, totals.preemptions, totals.host_hits,
                              totals.disk_hits, totals.disk_failures, totals.stops, totals.suspended})
    EXPECT_GT(count, 0);
}

TEST(EngineSimulation, ReplaysASeedExactly) {
  for (const uint64_t seed : {3, 11, 42}) {
    Simulation first(seed), second(seed), other(seed + 1000);
    first.run(1000);
    second.run(1000);
    other.run(1000);
    EXPECT_EQ(first.trace(), second.trace());
    EXPECT_EQ(first.totals.simulated_seconds, second.totals.simulated_seconds);
    EXPECT_NE(first.trace(), other.trace());
  }
}

}  // namespace
}  // namespace quire
