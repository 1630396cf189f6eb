// The arrays of integers that describe a step to ops, one after the other in one buffer, which one copy moves
// to the device. Owned by a BatchBuilder and used by its thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "device/mirrored_buffer.h"

namespace quire {

// An array in memory of the host, which fills it, and in memory of the device, where it is after
// StepArrays::upload().
template <class T>
struct StepArray {
  std::span<T> host;
  std::span<const T> device;

  StepArray first(size_t count) const { return {host.first(count), device.first(count)}; }
};

// Takes the arrays of a step from one buffer. A step is laid out twice: first with StepArraysSize, which only
// counts.
class StepArrays {
 public:
  explicit StepArrays(Device& device) : device_(device) {}

  // Bytes that an array takes.
  template <class T>
  static size_t bytes_of(size_t count) {
    return (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }

  // Starts a step whose arrays take at most `bytes`. The arrays of earlier steps are no longer valid. Their
  // memory moves only if this step needs more than any before.
  void start(size_t bytes) {
    used_ = 0;
    if (bytes > buffer_.size()) buffer_ = MirroredBuffer(device_, std::max(bytes, 2 * buffer_.size()));
  }
  template <class T>
  StepArray<T> take(size_t count) {
    const size_t begin = used_;
    used_ += bytes_of<T>(count);
    if (used_ > buffer_.size()) throw Error("internal error: the arrays of a step take more than planned");
    return {{reinterpret_cast<T*>(buffer_.host() + begin), count},
            {reinterpret_cast<const T*>(buffer_.device() + begin), count}};
  }
  void upload(DeviceStream& stream) { buffer_.copy_to_device(stream, used_); }

 private:
  static constexpr size_t kAlignment = 64;

  Device& device_;
  MirroredBuffer buffer_;
  size_t used_ = 0;
};

struct StepArraysSize {
  size_t bytes = 0;

  template <class T>
  StepArray<T> take(size_t count) {
    bytes += StepArrays::bytes_of<T>(count);
    return {};
  }
};

}  // namespace quire
