// One serving process in virtual time: it plans a step, is told when the step is over, and says what came of
// it. Two kinds: the real scheduler with paged memory, and the contiguous managers that came before. Used by
// one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "contract/kv_layout.h"
#include "sched/scheduler.h"
#include "sim/cost_model.h"
#include "sim/trace.h"

namespace quire::sim {

// How a replica manages the memory of keys and values. The contiguous ones reserve one range for each
// sequence when it is admitted, and never preempt.
enum class MemoryManager : uint8_t {
  kPaged,       // the real KvManager
  kMaxLength,   // reserves max_model_len tokens
  kPowerOfTwo,  // reserves the prompt and the answer's length rounded up to a power of two
  kOracle,      // reserves exactly what the sequence will have
};
const char* name_of(MemoryManager manager);  // "paged", "max-length", "power-of-two", "oracle"

// Where a contiguous manager finds a range.
enum class RangeAllocator : uint8_t {
  kBuddy,     // ranges of powers of two, halves of each other
  kFirstFit,  // the first free range that is long enough
};

struct ReplicaOptions {
  SchedulerConfig scheduler;
  KvLayout layout;
  int32_t num_samples = 1;  // of each prompt (n of the API)
  MemoryManager memory = MemoryManager::kPaged;
  RangeAllocator allocator = RangeAllocator::kBuddy;
};

// The KV pool while a step runs, in slots (a slot holds one token). held = filled + reserved + unused +
// rounding.
struct KvUse {
  int64_t total = 0;
  int64_t held = 0;         // by sequences
  int64_t filled = 0;       // hold a token, those of this step included
  int64_t reserved = 0;     // will hold one before the sequence ends (contiguous managers)
  int64_t unused = 0;       // held and never filled: internal fragmentation, the rest of a last block
  int64_t rounding = 0;     // held because the allocator deals in certain sizes
  int64_t unshared = 0;     // slots of all block tables, shared blocks counted for each of them; 0: not known
  int32_t num_running = 0;  // sequences
  int32_t num_waiting = 0;
  bool blocked = false;  // a seat is free, and a request waits for memory
};

// A token that a step drew.
struct DrawnToken {
  int64_t request = 0;  // of the trace
  int32_t sample = 0;
  bool last = false;  // of the request: nothing follows
};

struct ReplicaTotals {
  int64_t num_preemptions = 0;
  int64_t num_steps = 0;
  int64_t num_computed_tokens = 0;
  int64_t prefix_queried_tokens = 0;
  int64_t prefix_hit_tokens = 0;
};

class Replica {
 public:
  virtual ~Replica() = default;
  // Takes a request; false when it can never run or the queue is full.
  virtual bool add(int64_t request) = 0;
  // Plans a step that begins at `now` (seconds, never less than before); false when there is nothing to do.
  virtual bool begin_step(double now, StepLoad& load, KvUse& kv) = 0;
  // The step is over: appends the tokens it drew.
  virtual void end_step(std::vector<DrawnToken>& drawn) = 0;
  virtual ReplicaTotals totals() const = 0;
};

// `trace` must outlive it. Throws Error for options that cannot work.
std::unique_ptr<Replica> make_replica(const Trace& trace, const ReplicaOptions& options);
std::unique_ptr<Replica> make_paged_replica(const Trace& trace, const ReplicaOptions& options);
std::unique_ptr<Replica> make_contiguous_replica(const Trace& trace, const ReplicaOptions& options);

}  // namespace quire::sim
