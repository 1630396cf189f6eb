// Work of a device that is done in the order in which it was submitted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

class DeviceStream;

// A point in the work of a stream: all that was submitted before it. Must not outlive the stream.
struct Event {
  const DeviceStream* stream = nullptr;
  uint64_t number = 0;
};

// Made by Device::create_stream(), which the stream must not outlive. Used by one thread. Ops and copies may
// still be running when the call that submitted them returns, so that their operands have to stay as they are
// until an event after them has been waited for.
class DeviceStream {
 public:
  DeviceStream() = default;
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  virtual ~DeviceStream() = default;

  // Between memory of any kinds. Host memory that is not pinned may be read or written at once, after waiting
  // for the earlier work.
  virtual void copy(void* dst, const void* src, size_t bytes) = 0;
  virtual void zero(void* dst, size_t bytes) = 0;

  virtual Event record() = 0;
  // Work that is submitted later starts after the event of another stream. The caller does not wait.
  virtual void wait(const Event& event) = 0;
  // The caller waits for the event. Throws Error if work before it has failed.
  virtual void synchronize(const Event& event) = 0;
};

}  // namespace quire
