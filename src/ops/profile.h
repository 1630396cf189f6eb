// The profiler of ops: an op table that measures each call and forwards it to the op table of a backend.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/op_table.h"

namespace quire {

// Measured limits of the machine. 0 = it has no such instructions.
struct MachineLimits {
  double read_bytes_per_s = 0;
  double f32_flop_per_s = 0;   // fused multiply-adds, two operations each
  double bf16_flop_per_s = 0;  // products of bfloat16 numbers, summed as float32
  double int8_flop_per_s = 0;  // products of 8-bit integers, summed as int32
};

// One call of an op, or a part of the step that contains such calls.
struct ProfileEvent {
  std::string_view name;  // lives as long as the program, or as the model for a matrix's label
  double begin_s = 0;     // monotonic_seconds()
  double seconds = 0;
  double bytes = 0;  // OpCost::bytes
  double flop = 0;
  double peak_flop_per_s = 0;  // limit of the instructions that the op uses
  int64_t rows = 0;
  int64_t columns = 0;  // matrix products: output features
  int64_t depth = 0;    // matrix products: input features
};

// Owned by the runtime; filled by the thread that runs the steps, read while no step runs. Allocates its
// memory when it is constructed; events that do not fit are counted and dropped.
class OpProfile {
 public:
  // inner outlives the profile.
  OpProfile(const OpTable& inner, const MachineLimits& limits, size_t max_events);
  OpProfile(const OpProfile&) = delete;  // contexts point to it
  OpProfile& operator=(const OpProfile&) = delete;

  // The table to compute with. Its ops need this profile in OpContext::profile.
  const OpTable& table() const { return table_; }
  const OpTable& inner() const { return inner_; }
  const MachineLimits& limits() const { return limits_; }

  void add(const ProfileEvent& event);
  // Sets a function that is called with the input of each matrix product before it runs. The function does
  // not outlive the profile.
  using InputListener = std::function<void(const TensorView& x, const PackedLinear& matrix)>;
  void on_input(InputListener listener) { on_input_ = std::move(listener); }
  const InputListener& input_listener() const { return on_input_; }
  const std::vector<ProfileEvent>& events() const { return events_; }
  int64_t num_dropped() const { return num_dropped_; }

  // The shortest time that the machine's limits allow for an event. 0 if it has neither bytes nor operations.
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
