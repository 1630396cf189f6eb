// Part `launch`: the gap between dependent kernels in a stream and in a graph, with and without programmatic
// dependent launch, and the time that the host takes.
#include <chrono>
#include <string>

#include "program.h"

namespace {

constexpr int kChain = 200;  // kernels
constexpr int kRepeats = 20;
constexpr long long kCycles = 5000;  // per kernel: about 3 us
constexpr int kThreads = 128;

// Runs for a number of clock cycles. With kDependent, the next kernel may be launched as soon as every block
// has started, and the kernel waits for the previous one before it counts.
template <bool kDependent>
__global__ void __launch_bounds__(kThreads) spin(long long cycles) {
#if __CUDA_ARCH__ >= 900
  if (kDependent) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
#endif
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

void run_spin(bool dependent, int blocks, long long cycles, cudaStream_t stream) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = dependent ? 1 : 0;
  probe::check(dependent ? cudaLaunchKernelEx(&config, spin<true>, cycles)
                         : cudaLaunchKernelEx(&config, spin<false>, cycles),
               "launching a kernel");
}

double host_us(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

void measure_chain(bool dependent, int blocks, double single_us, const probe::Stream& stream,
                   probe::Results& results) {
  const auto chain = [&] {
    for (int i = 0; i < kChain; ++i) run_spin(dependent, blocks, kCycles, stream);
  };
  const std::string launched = dependent ? "programmatic dependent launch" : "ordinary launch";
  const std::string grid = std::to_string(blocks);
  const auto report = [&](const char* how, const probe::Time& time, int calls) {
    const double gap = (time.median_us * calls - single_us) / (kChain - 1);
    results.add("gap between kernels", {{"", how}, {"", launched}, {"blocks", grid}}, gap, "us");
  };
  report("stream", probe::time_work(stream, kRepeats, chain), 1);
  report("graph", probe::time_graph(stream, kRepeats, kChain, chain), kChain);
}

void measure_host(const probe::Stream& stream, probe::Results& results) {
  constexpr int kLaunches = 500;
  const auto launch_all = [&] {
    for (int i = 0; i < kLaunches; ++i) run_spin(false, 1, 0, stream);
  };
  launch_all();
  stream.synchronize("warming up");
  const double enqueue = host_us(launch_all);
  stream.synchronize("waiting for empty kernels");
  results.add("host time", {{"", "enqueue one kernel"}}, enqueue / kLaunches, "us");

  double total = 0;
  for (int i = 0; i < kLaunches; ++i) {
    total += host_us([&] {
      run_spin(false, 1, 0, stream);
      stream.synchronize("waiting for an empty kernel");
    });
  }
  results.add("host time", {{"", "enqueue one kernel and wait for it"}}, total / kLaunches, "us");

  const probe::Time empty = probe::time_graph(stream, kRepeats, kChain, [&] {
    for (int i = 0; i < kChain; ++i) run_spin(false, 1, 0, stream);
  });
  results.add("empty kernels in a graph", {{"", "one block"}}, empty.median_us, "us per kernel");
}

void measure(const probe::Arguments&, const probe::Device& device, probe::Results& results) {
  const probe::Stream stream;
  for (const int blocks : {1, device.num_sms}) {
    // One kernel that runs as long as the kernels of a chain together: the rest of the chain's time is gaps.
    const probe::Time single =
        probe::time_work(stream, kRepeats, [&] { run_spin(false, blocks, kChain * kCycles, stream); });
    if (blocks == 1)
      results.add("clock while a kernel runs", {}, static_cast<double>(kChain * kCycles) / single.median_us,
                  "MHz");
    measure_chain(false, blocks, single.median_us, stream, results);
    if (device.major >= 9) measure_chain(true, blocks, single.median_us, stream, results);
  }
  if (device.major < 9)
    results.add_text("programmatic dependent launch", "not measured; it needs compute capability 9.0");
  measure_host(stream, results);
}

}  // namespace

int main(int argc, char** argv) {
  return probe::run_program(argc, argv, measure);
}
