#include "sim/sharing.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "base/strings.h"
#include "kv/kv_manager.h"
#include "sim/simulator.h"

namespace quire::sim {

namespace {

int32_t blocks_for(int64_t num_tokens, int32_t block_size) {
  return static_cast<int32_t>((num_tokens + block_size - 1) / block_size);
}

// A hypothesis of the search and its block table.
struct Beam {
  TableId table = -1;
  double score = 0.0;  // cumulative log-probability
};

struct Continuation {
  size_t parent = 0;
  double score = 0.0;
};

// Returns the `width` best continuations of all beams. The probabilities of a beam's continuations follow a
// stick-breaking process: each takes a fraction of the rest, 2/3 on average (Beta(2, 1)).
std::vector<Continuation> best_continuations(const std::vector<Beam>& beams, size_t width,
                                             std::mt19937_64& engine) {
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::vector<Continuation> all;
  for (size_t b = 0; b < beams.size(); ++b) {
    double left = 1.0;
    for (size_t k = 0; k < width; ++k) {
      const double part =
          std::sqrt(uniform(engine));  // inverse of the cumulative distribution function of Beta(2, 1)
      all.push_back({b, beams[b].score + std::log(std::max(left * part, 1e-300))});
      left *= 1.0 - part;
    }
  }
  const size_t count = std::min(width, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(count), all.end(),
                    [](const Continuation& a, const Continuation& b) { return a.score > b.score; });
  all.resize(count);
  return all;
}

class BeamRun {
 public:
  BeamRun(int32_t num_blocks, int32_t block_size, int32_t width, std::mt19937_64& engine)
      : kv_({.block_size = block_size, .num_blocks = num_blocks}, {.enable_prefix_caching = false}),
        width_(static_cast<size_t>(width)),
        engine_(engine) {}

  // Runs one prompt with output_len generated tokens.
  void run(int32_t input_len, int32_t output_len) {
    beams_ = {{kv_.open("", ""), 0.0}};
    write(input_len);
    for (int32_t drawn = 1; drawn < output_len; ++drawn) {
      continue_best();
      write(input_len + drawn);
    }
    for (const Beam& beam : beams_) kv_.close(beam.table);
  }

  double saved() const {
    return entries_ > 0 ? static_cast<double>(entries_ - used_) / static_cast<double>(entries_) : 0.0;
  }

 private:
  void write(int32_t num_tokens) {
    for (const Beam& beam : beams_) {
      copies_.clear();
      if (!kv_.allocate_slots(beam.table, num_tokens, copies_))
        throw Error("the KV pool is too small for the beams");
      kv_.commit(beam.table, {}, num_tokens);
      entries_ += static_cast<int64_t>(kv_.block_table(beam.table, 0).size());
    }
    used_ += kv_.stats().num_used;
  }

  // A beam's first continuation keeps its table, further ones fork it; a beam without continuations ends.
  void continue_best() {
    const auto best = best_continuations(beams_, width_, engine_);
    std::vector<Beam> next;
    std::vector<bool> goes_on(beams_.size(), false);
    for (const Continuation& continuation : best) {
      const TableId parent = beams_[continuation.parent].table;
      next.push_back({goes_on[continuation.parent] ? kv_.fork(parent) : parent, continuation.score});
      goes_on[continuation.parent] = true;
    }
    for (size_t b = 0; b < beams_.size(); ++b) {
      if (!goes_on[b]) kv_.close(beams_[b].table);
    }
    beams_ = std::move(next);
  }

  KvManager kv_;
  size_t width_;
  std::mt19937_64& engine_;
  std::vector<Beam> beams_;
  std::vector<BlockCopy> copies_;
  int64_t entries_ = 0;  // block table entries, summed over steps
  int64_t used_ = 0;     // blocks, summed over steps
};

}  // namespace

SharingPoint parallel_sampling_sharing(const Trace& trace, const ReplicaOptions& options,
                                       int32_t num_samples) {
  Trace unshared = trace;
  unshared.hash_ids.clear();
  for (TraceRequest& request : unshared.requests) {
    request.num_hashes = 0;
    request.arrival = 0.0;
  }
  SimOptions sim;
  sim.replica = options;
  sim.replica.num_samples = num_samples;
  sim.replica.memory = MemoryManager::kPaged;
  SchedulerConfig& scheduler = sim.replica.scheduler;
  scheduler.enable_prefix_caching = false;
  scheduler.max_num_seqs = std::max(scheduler.max_num_seqs, num_samples);
  // The token budget admits every running sequence to every step.
  scheduler.max_num_batched_tokens = std::max(scheduler.max_num_batched_tokens, 2 * scheduler.max_num_seqs);
  sim.replica.max_num_queued_requests = std::numeric_limits<int32_t>::max();
  const int32_t longest = std::min(trace.longest(), scheduler.max_model_len);
  const int64_t num_blocks =
      int64_t{blocks_for(longest, sim.replica.layout.block_size) + 1} * scheduler.max_num_seqs * 102 / 100;
  if (num_blocks > std::numeric_limits<int32_t>::max())
    throw Error("the sequences of the trace are too long");
  sim.replica.layout.num_blocks = static_cast<int32_t>(num_blocks);
  sim.replica.layout.num_host_blocks = 0;
  sim.replica.layout.num_disk_blocks = 0;
  // Durations do not matter, because blocks are counted once per step.
  const SimResult result = simulate(unshared, CostModel(LinearCost{1.0, 0.0, 0.0, 0.0, 0.0}), sim);
  return {"parallel sampling", num_samples, result.all_steps.saved()};
}

SharingPoint beam_search_sharing(const Trace& trace, int32_t block_size, int32_t width, uint64_t seed) {
  if (width < 1) throw Error(cat("the beam width is ", width, "; it must be at least 1"));
  std::mt19937_64 engine(mix64(seed));
  const int64_t num_blocks = int64_t{blocks_for(trace.longest(), block_size) + 1} * width;
  if (num_blocks > std::numeric_limits<int32_t>::max())
    throw Error("the sequences of the trace are too long");
  BeamRun run(static_cast<int32_t>(num_blocks), block_size, width, engine);
  for (const TraceRequest& request : trace.requests) run.run(request.input_len, request.output_len);
  return {"beam search", width, run.saved()};
}

}  // namespace quire::sim
