// Memory that exists on both sides of a device: the host fills it for ops, or reads what ops have written.
#pragma once

#include <cstddef>

#include "device/device.h"
#include "tensor/tensor.h"

namespace quire {

// On a device that shares the host's memory, both sides are the same memory and nothing is copied. Owned by
// an executor and used by its thread.
class MirroredBuffer {
 public:
  MirroredBuffer() = default;
  MirroredBuffer(Device& device, size_t bytes)
      : host_(device.allocate(bytes, MemoryKind::kPinned)),
        device_(device.shares_host_memory() ? Buffer() : device.allocate(bytes, MemoryKind::kDevice)) {}

  size_t size() const { return host_.size(); }
  std::byte* host() { return host_.data(); }
  std::byte* device() { return device_.size() > 0 ? device_.data() : host_.data(); }

  // The first `bytes` bytes. The copied side must stay as it is until the stream has made the copy.
  void copy_to_device(DeviceStream& stream, size_t bytes) {
    if (device_.size() > 0 && bytes > 0) stream.copy(device_.data(), host_.data(), bytes);
  }
  void copy_to_host(DeviceStream& stream, size_t bytes) {
    if (device_.size() > 0 && bytes > 0) stream.copy(host_.data(), device_.data(), bytes);
  }

 private:
  Buffer host_;
  Buffer device_;  // empty if the device shares the host's memory
};

}  // namespace quire
