// Where a step's time goes: an op table that times every call of another one, and what it saw.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/op_table.h"

namespace quire {

// What a machine can do at most, measured. 0: it has no such instructions.
struct MachineLimits {
  double read_bytes_per_s = 0;
  double f32_flop_per_s = 0;   // fused multiply-adds, each two operations
  double bf16_flop_per_s = 0;  // products of bfloat16 numbers, summed as float32
  double int8_flop_per_s = 0;  // products of 8-bit numbers, summed as int32
};

// One call of an op, or a span of the step around them.
struct ProfileEvent {
  std::string_view name;  // lives as long as the program, or the model for a matrix's label
  double begin_s = 0;     // monotonic_seconds()
  double seconds = 0;
  double bytes = 0;  // that it must read and write at the least, each once
  double flop = 0;
  double peak_flop_per_s = 0;  // of the instructions it is made of
  int64_t rows = 0;
  int64_t columns = 0;  // of a matrix: outputs
  int64_t depth = 0;    // of a matrix: inputs
};

// Owned by the runtime; filled by the thread that runs the steps, read when no step runs. Its memory is taken
// at once; what comes when it is full is counted and dropped.
class OpProfile {
 public:
  // inner outlives the profile.
  OpProfile(const OpTable& inner, const MachineLimits& limits, size_t max_events);
  OpProfile(const OpProfile&) = delete;  // contexts point to it
  OpProfile& operator=(const OpProfile&) = delete;

  // The table to compute with; its entries want this profile in OpContext::profile.
  const OpTable& table() const { return table_; }
  const OpTable& inner() const { return inner_; }
  const MachineLimits& limits() const { return limits_; }

  void add(const ProfileEvent& event);
  // What is called with the input of each matrix, before it is multiplied; no longer than the profile lives.
  using InputListener = std::function<void(const TensorView& x, const PackedLinear& matrix)>;
  void on_input(InputListener listener) { on_input_ = std::move(listener); }
  const InputListener& input_listener() const { return on_input_; }
  const std::vector<ProfileEvent>& events() const { return events_; }
  int64_t num_dropped() const { return num_dropped_; }

  // The least time that the machine's limits leave for an event. 0: neither bytes nor operations.
  double least_seconds(const ProfileEvent& event) const;

 private:
  const OpTable& inner_;
  OpTable table_;
  MachineLimits limits_;
  std::vector<ProfileEvent> events_;
  int64_t num_dropped_ = 0;
  InputListener on_input_;
};

}  // namespace quire
