#include "backends/cpu/cpu_device.h"

#include <cstring>

#include "base/available_memory.h"
#include "base/strings.h"

namespace quire {
namespace {

class CpuStream : public DeviceStream {
 public:
  void copy(void* dst, const void* src, size_t bytes) override {
    if (dst != src && bytes > 0) std::memcpy(dst, src, bytes);
  }
  void zero(void* dst, size_t bytes) override {
    if (bytes > 0) std::memset(dst, 0, bytes);
  }
  Event record() override { return {this, ++num_events_}; }
  void wait(const Event& /*event*/) override {}
  void synchronize(const Event& /*event*/) override {}

 private:
  uint64_t num_events_ = 0;
};

}  // namespace

CpuDevice::CpuDevice(int threads, const CpuIsa& isa)
    : isa_(isa), name_(cat("cpu ", isa.name)), threads_(threads > 0 ? threads : available_cores()) {}

DeviceMemory CpuDevice::memory() const {
  const AvailableMemory available = available_memory();
  return {available.bytes, available.total_bytes, available.exact};
}

std::unique_ptr<DeviceStream> CpuDevice::create_stream() {
  return std::make_unique<CpuStream>();
}

}  // namespace quire
