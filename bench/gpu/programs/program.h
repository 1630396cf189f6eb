// The frame of each program: its arguments, the device, memory and times. Used by one host thread.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "results.h"

namespace probe {

// Exit codes, which run.sh reads.
enum ExitCode {
  kMeasured = 0,
  kFailed = 1,
  kUsage = 2,
  kNoDevice = 3,      // no driver, no GPU, or a driver that is too old
  kNotSupported = 4,  // the GPU or the machine lacks what the measurement needs
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode exit_code, const std::string& message) : std::runtime_error(message), exit_code(exit_code) {}
  ExitCode exit_code;
};

// Throws Error(kFailed) with what was attempted and CUDA's message.
void check(cudaError_t status, const char* attempt);

struct Device {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int num_sms = 0;
  int driver_version = 0;  // the CUDA version that the driver supports, as 1000 * major + 10 * minor
  size_t memory_bytes = 0, l2_bytes = 0;
  int sm_clock_khz = 0, memory_clock_khz = 0;  // the highest
};

// "13.0" for 13000.
std::string version_text(int version);

// Device 0. Throws Error(kNoDevice).
Device open_device();

struct Arguments {
  std::vector<std::string> names;  // those that are not options
  std::string cublaslt;            // path of the library; empty = the dynamic linker's search path
};

// `measure` may throw Error. Prints errors to standard error.
//   PROGRAM [NAME...] [--records FILE] [--cublaslt LIBRARY]
int run_program(int argc, char** argv,
                const std::function<void(const Arguments&, const Device&, Results&)>& measure);

enum class MemoryKind { kDevice, kPinned };

// Memory that is freed with the object.
class Memory {
 public:
  Memory(size_t bytes, MemoryKind kind);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  template <class T>
  T* as(size_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(data_) + offset_bytes);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
  MemoryKind kind_;
};

template <class T>
std::vector<T> to_host(const T* device, size_t count) {
  std::vector<T> host(count);
  check(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost),
        "copying results to the host");
  return host;
}

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: used like the handle
  void synchronize(const char* attempt) const { check(cudaStreamSynchronize(stream_), attempt); }

 private:
  cudaStream_t stream_ = nullptr;
};

struct Time {
  double best_us = 0, median_us = 0;
};

// Runs `work` once to warm up, then `repeats` times between two events.
Time time_work(const Stream& stream, int repeats, const std::function<void()>& work);

// Captures `work`, which enqueues `calls` operations, into a graph. The times are per operation.
Time time_graph(const Stream& stream, int repeats, int calls, const std::function<void()>& work);

// Bytes per second at which a kernel reads device memory, in GB/s: the measure for kernels that read weights
// or the KV cache.
double read_bandwidth(const Device& device, const Stream& stream);

}  // namespace probe
