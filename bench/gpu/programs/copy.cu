// Part `copy`: bandwidth of device memory and of pinned host memory.
#include "../kernels/copy.cuh"

#include <string>
#include <vector>

#include "program.h"

namespace {

using probe::Memory;
using probe::MemoryKind;

constexpr int kRepeats = 10;

double gigabytes_per_second(size_t bytes, const probe::Time& time) {
  return static_cast<double>(bytes) / time.best_us * 1e-3;
}

std::string size_label(size_t bytes) {
  return bytes >= (1 << 20) ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}

void measure_device(const probe::Device& device, const probe::Stream& stream, probe::Results& results) {
  const size_t largest = size_t{4} << 30;
  const Memory source(largest, MemoryKind::kDevice), target(largest, MemoryKind::kDevice);
  probe::check(cudaMemsetAsync(source.as<void>(), 1, largest, stream), "filling memory");
  const int blocks = device.num_sms * 4;
  const Memory out(static_cast<size_t>(blocks) * copy::kThreads * sizeof(uint32_t), MemoryKind::kDevice);
  for (const size_t bytes : {size_t{8} << 20, size_t{256} << 20, largest}) {
    const auto report = [&](const char* how, size_t moved, const probe::Time& time) {
      results.add("device memory", {{"", how}, {"size", size_label(bytes)}},
                  gigabytes_per_second(moved, time), "GB/s");
    };
    report("cudaMemcpyAsync, read + written", 2 * bytes, probe::time_work(stream, kRepeats, [&] {
             probe::check(cudaMemcpyAsync(target.as<void>(), source.as<void>(), bytes,
                                          cudaMemcpyDeviceToDevice, stream),
                          "copying on the device");
           }));
    report("copy kernel, read + written", 2 * bytes, probe::time_work(stream, kRepeats, [&] {
             copy::run_copy(target.as<void>(), source.as<void>(), bytes, blocks, stream);
           }));
    report("read kernel", bytes, probe::time_work(stream, kRepeats, [&] {
             copy::run_read(out.as<uint32_t>(), source.as<void>(), bytes, blocks, stream);
           }));
    report("cudaMemsetAsync, written", bytes, probe::time_work(stream, kRepeats, [&] {
             probe::check(cudaMemsetAsync(target.as<void>(), 2, bytes, stream), "filling memory");
           }));
  }
}

void measure_pinned(const probe::Device& device, const probe::Stream& stream, probe::Results& results) {
  const size_t largest = size_t{1} << 30;
  const Memory host(largest, MemoryKind::kPinned), other_host(largest, MemoryKind::kPinned);
  const Memory on_device(largest, MemoryKind::kDevice), other_on_device(largest, MemoryKind::kDevice);
  const probe::Stream back;
  const auto copy_async = [](void* dst, const void* src, size_t bytes, cudaStream_t on) {
    probe::check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, on), "copying between host and device");
  };
  for (const size_t bytes : {size_t{64} << 10, size_t{1} << 20, largest}) {
    const auto report = [&](const char* how, size_t moved, const probe::Time& time) {
      results.add("pinned memory", {{"", how}, {"size", size_label(bytes)}},
                  gigabytes_per_second(moved, time), "GB/s");
    };
    report("host to device", bytes, probe::time_work(stream, kRepeats, [&] {
             copy_async(on_device.as<void>(), host.as<void>(), bytes, stream);
           }));
    report("device to host", bytes, probe::time_work(stream, kRepeats, [&] {
             copy_async(host.as<void>(), on_device.as<void>(), bytes, stream);
           }));
    report("kernel reads host memory", bytes, probe::time_work(stream, kRepeats, [&] {
             copy::run_copy(on_device.as<void>(), host.as<void>(), bytes, device.num_sms, stream);
           }));
    report("kernel writes host memory", bytes, probe::time_work(stream, kRepeats, [&] {
             copy::run_copy(host.as<void>(), on_device.as<void>(), bytes, device.num_sms, stream);
           }));
  }
  // Both directions at once. The event that ends the measurement waits for the second stream.
  cudaEvent_t begun = nullptr, returned = nullptr;
  probe::check(cudaEventCreateWithFlags(&begun, cudaEventDisableTiming), "creating an event");
  probe::check(cudaEventCreateWithFlags(&returned, cudaEventDisableTiming), "creating an event");
  const probe::Time both = probe::time_work(stream, kRepeats, [&] {
    probe::check(cudaEventRecord(begun, stream), "recording an event");
    probe::check(cudaStreamWaitEvent(back, begun, 0), "waiting for an event");
    copy_async(on_device.as<void>(), host.as<void>(), largest, stream);
    copy_async(other_host.as<void>(), other_on_device.as<void>(), largest, back);
    probe::check(cudaEventRecord(returned, back), "recording an event");
    probe::check(cudaStreamWaitEvent(stream, returned, 0), "waiting for an event");
  });
  results.add("pinned memory", {{"", "both directions at once, sum"}, {"size", size_label(largest)}},
              gigabytes_per_second(2 * largest, both), "GB/s");
  cudaEventDestroy(begun);
  cudaEventDestroy(returned);
}

void measure(const probe::Arguments&, const probe::Device& device, probe::Results& results) {
  const probe::Stream stream;
  measure_device(device, stream, results);
  measure_pinned(device, stream, results);
}

}  // namespace

int main(int argc, char** argv) {
  return probe::run_program(argc, argv, measure);
}
