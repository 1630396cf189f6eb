// The interface of devices, which compute the ops of a model. backends/open_device.h opens a device by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "device/stream.h"
#include "tensor/tensor.h"

namespace quire {

class ThreadPool;
struct MachineLimits;  // ops/profile.h
struct OpTable;        // ops/op_table.h

enum class MemoryKind : uint8_t {
  kHost,    // memory of the host
  kPinned,  // memory of the host that the device copies to and from while the host continues
  kDevice,  // memory of the device: only ops and the copies of a stream read and write it
};

struct DeviceMemory {
  int64_t free_bytes = 0;  // that this process can still allocate
  int64_t total_bytes = 0;
  bool exact = true;  // false: more than free_bytes may be free
};

// Owned by the runtime, which loads a model for one device. Buffers and streams of a device must not outlive
// it. Used by the thread that loads the model, and then by the engine's.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  // "cpu avx512": the kind of device, and what decides the bits of its results.
  virtual std::string_view name() const = 0;
  virtual std::string_view instruction_set() const = 0;  // "avx512"
  // Lives as long as the device.
  virtual const OpTable& ops() const = 0;
  // The host's threads, for ops that run on the CPU, for packing weights and for sampling.
  virtual ThreadPool& threads() = 0;
  // Measures the peak throughput, in less than a second.
  virtual MachineLimits measure_limits() = 0;

  virtual DeviceMemory memory() const = 0;
  // Memory of the device is memory of the host: both may use it at any time, and copies between buffers of
  // the two are not needed.
  virtual bool shares_host_memory() const = 0;
  // Zeroed. Throws Error with the size if there is not enough memory.
  virtual Buffer allocate(size_t bytes, MemoryKind kind) = 0;
  // The contents of `host` in memory of the device, for ops that are submitted to the stream afterwards. A
  // device that shares the host's memory returns `host`, which may be a view of a file.
  virtual Buffer upload(Buffer host, DeviceStream& stream) = 0;
  virtual std::unique_ptr<DeviceStream> create_stream() = 0;
};

}  // namespace quire
