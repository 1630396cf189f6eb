// The CPU as a device: one instruction set and the threads of the process. Its memory is the host's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backends/cpu/cpu_backend.h"
#include "base/thread_pool.h"
#include "device/device.h"

namespace quire {

class CpuDevice : public Device {
 public:
  // threads: 0 = the physical cores available to this process.
  explicit CpuDevice(int threads, const CpuIsa& isa = select_cpu_isa());

  std::string_view name() const override { return name_; }
  std::string_view instruction_set() const override { return isa_.name; }
  const OpTable& ops() const override { return *isa_.table; }
  ThreadPool& threads() override { return threads_; }
  MachineLimits measure_limits() override { return isa_.limits(threads_); }

  DeviceMemory memory() const override;
  bool shares_host_memory() const override { return true; }
  Buffer allocate(size_t bytes, MemoryKind /*kind*/) override { return Buffer(bytes); }
  Buffer upload(Buffer host, DeviceStream& /*stream*/) override { return host; }
  // Its work is done when a call returns.
  std::unique_ptr<DeviceStream> create_stream() override;

 private:
  const CpuIsa isa_;
  std::string name_;
  ThreadPool threads_;
};

}  // namespace quire
