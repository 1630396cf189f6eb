// Part `start`: whether a program with the static CUDA runtime starts, and on which device and driver.
#include <cuda_runtime_api.h>
#include <gnu/libc-version.h>

#include <string>

#include "program.h"

namespace {

void measure(const probe::Arguments&, const probe::Device& device, probe::Results& results) {
  int runtime = 0;
  probe::check(cudaRuntimeGetVersion(&runtime), "reading the version of the runtime");
  results.add_text("device", device.name);
  results.add_text("compute capability", std::to_string(device.major) + "." + std::to_string(device.minor));
  results.add_text("CUDA version of the driver", probe::version_text(device.driver_version));
  results.add_text("CUDA version of the static runtime", probe::version_text(runtime));
  results.add_text("C library", std::string("glibc ") + gnu_get_libc_version());
  results.add("multiprocessors", {}, device.num_sms, "");
  results.add("device memory", {}, static_cast<double>(device.memory_bytes) * 1e-9, "GB");
  results.add("L2", {}, static_cast<double>(device.l2_bytes) * 1e-6, "MB");
  results.add("highest clock", {{"", "multiprocessors"}}, device.sm_clock_khz * 1e-3, "MHz");
  results.add("highest clock", {{"", "memory"}}, device.memory_clock_khz * 1e-3, "MHz");
  const probe::Memory memory(1 << 20, probe::MemoryKind::kDevice);
  probe::check(cudaMemset(memory.as<void>(), 0, memory.bytes()), "writing device memory");
  probe::check(cudaDeviceSynchronize(), "waiting for the device");
}

}  // namespace

int main(int argc, char** argv) {
  return probe::run_program(argc, argv, measure);
}
