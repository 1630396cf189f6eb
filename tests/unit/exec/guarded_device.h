// A device for tests. It computes as the CPU does, in memory of its own, which the host cannot access outside
// of ops and copies: any other access ends the program. What a copy brings to the host arrives when the host
// waits for it.
#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_device.h"
#include "base/error.h"
#include "device/device.h"
#include "ops/profile.h"
#include "unit/models/guarded_ops.h"

namespace quire::test {

inline const OpTable& selected_ops() {
  return *select_cpu_isa().table;
}

// One at a time in a process, because its ops find the memory through GuardedMemory::current().
class GuardedDevice final : public Device {
 public:
  // Calls of streams since the start.
  struct Counts {
    std::atomic<int64_t> copies_to_device = 0;
    std::atomic<int64_t> copies_to_host = 0;
    std::atomic<int64_t> waits = 0;
  };

  explicit GuardedDevice(int threads)
      : cpu_(threads),
        ops_(guarded<selected_ops>()),
        name_("guarded " + std::string(cpu_.instruction_set())) {
    guard_.add(memory_);
    guard_.close();
    GuardedMemory::current() = &guard_;
  }
  ~GuardedDevice() override { GuardedMemory::current() = nullptr; }

  std::string_view name() const override { return name_; }
  std::string_view instruction_set() const override { return cpu_.instruction_set(); }
  const OpTable& ops() const override { return ops_; }
  ThreadPool& threads() override { return cpu_.threads(); }
  MachineLimits measure_limits() override { return cpu_.measure_limits(); }
  DeviceMemory memory() const override { return cpu_.memory(); }
  bool shares_host_memory() const override { return false; }

  // Memory is not used again, so that the use of a freed buffer ends the program only if it is outside of
  // ops.
  Buffer allocate(size_t bytes, MemoryKind kind) override {
    if (kind != MemoryKind::kDevice) return Buffer(bytes);
    if (bytes > memory_.size() - used_) throw Error("the test device has too little memory");
    std::byte* begin = memory_.data() + used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return Buffer::borrowed({begin, bytes}, std::shared_ptr<const void>(begin, [](const void*) {}));
  }
  Buffer upload(Buffer host, DeviceStream& /*stream*/) override {
    Buffer device = allocate(host.size(), MemoryKind::kDevice);
    guard_.open();
    std::memcpy(device.data(), host.data(), host.size());
    guard_.close();
    return device;
  }
  std::unique_ptr<DeviceStream> create_stream() override { return std::make_unique<GuardedStream>(*this); }

  const Counts& counts() const { return counts_; }
  int64_t num_ops_without_stream() const { return guard_.num_without_stream; }

 private:
  static constexpr size_t kMemory = size_t{1} << 30;
  static constexpr size_t kAlignment = 64;

  class GuardedStream final : public DeviceStream {
   public:
    explicit GuardedStream(GuardedDevice& device) : device_(device) {}

    void copy(void* dst, const void* src, size_t bytes) override {
      const auto* from = static_cast<const std::byte*>(src);
      auto* to = static_cast<std::byte*>(dst);
      if (!device_.owns(src)) deliver();  // it may be what an earlier copy brings
      if (device_.owns(src) && !device_.owns(dst)) {
        ++device_.counts_.copies_to_host;
        device_.guard_.open();
        arriving_.emplace_back(to, std::vector<std::byte>(from, from + bytes));
        device_.guard_.close();
        return;
      }
      if (!device_.owns(src)) ++device_.counts_.copies_to_device;
      device_.guard_.open();
      std::memmove(to, from, bytes);
      device_.guard_.close();
    }
    void zero(void* dst, size_t bytes) override {
      device_.guard_.open();
      std::memset(dst, 0, bytes);
      device_.guard_.close();
    }
    Event record() override { return {this, ++num_events_}; }
    void wait(const Event& /*event*/) override {}
    void synchronize(const Event& event) override {
      if (event.stream != this || event.number > num_events_) throw Error("an event of another stream");
      ++device_.counts_.waits;
      deliver();
    }

   private:
    void deliver() {
      for (const auto& [to, bytes] : arriving_) std::memcpy(to, bytes.data(), bytes.size());
      arriving_.clear();
    }

    GuardedDevice& device_;
    std::deque<std::pair<std::byte*, std::vector<std::byte>>> arriving_;
    uint64_t num_events_ = 0;
  };

  bool owns(const void* at) const {
    const auto* byte = static_cast<const std::byte*>(at);
    return byte >= memory_.data() && byte < memory_.data() + memory_.size();
  }

  CpuDevice cpu_;
  OpTable ops_;
  std::string name_;
  Buffer memory_{kMemory};
  size_t used_ = 0;
  GuardedMemory guard_;
  Counts counts_;
};

}  // namespace quire::test
