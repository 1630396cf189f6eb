#include "program.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "../kernels/copy.cuh"

namespace probe {
namespace {

int attribute(cudaDeviceAttr name) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, 0), "reading an attribute of the device");
  return value;
}

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "creating an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) const { check(cudaEventRecord(event_, stream), "recording an event"); }
  double us_since(const Event& begin) const {
    float ms = 0;
    check(cudaEventSynchronize(event_), "waiting for the measured work");
    check(cudaEventElapsedTime(&ms, begin.event_, event_), "reading the time");
    return ms * 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

Arguments parse(int argc, char** argv, std::string& records) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--records" || word == "--cublaslt") {
      if (++i == argc) throw Error(kUsage, word + " needs a value");
      (word == "--records" ? records : arguments.cublaslt) = argv[i];
    } else if (word.rfind("--", 0) == 0) {
      throw Error(kUsage, "unknown option " + word);
    } else {
      arguments.names.push_back(word);
    }
  }
  return arguments;
}

}  // namespace

void check(cudaError_t status, const char* attempt) {
  if (status == cudaSuccess) return;
  throw Error(kFailed, std::string(attempt) + ": " + cudaGetErrorString(status) + " (" +
                           cudaGetErrorName(status) + ")");
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Device open_device() {
  int driver = 0, runtime = 0, count = 0;
  check(cudaRuntimeGetVersion(&runtime), "reading the version of the runtime");
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    throw Error(kNoDevice, "no NVIDIA driver is installed (libcuda.so.1 cannot be opened)");
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver)
    throw Error(kNoDevice, "the NVIDIA driver is too old: it supports CUDA " + version_text(driver) +
                               ", the program was built with " + version_text(runtime));
  if (status != cudaSuccess || count == 0)
    throw Error(kNoDevice, std::string("no GPU can be used: ") +
                               (status == cudaSuccess ? "the driver reports none" : cudaGetErrorString(status)));
  Device device;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "reading the properties of the device");
  device.driver_version = driver;
  device.name = properties.name;
  device.major = properties.major;
  device.minor = properties.minor;
  device.num_sms = properties.multiProcessorCount;
  device.memory_bytes = properties.totalGlobalMem;
  device.l2_bytes = static_cast<size_t>(properties.l2CacheSize);
  device.sm_clock_khz = attribute(cudaDevAttrClockRate);
  device.memory_clock_khz = attribute(cudaDevAttrMemoryClockRate);
  if (device.major < 8)
    throw Error(kNotSupported, device.name + " has compute capability " + std::to_string(device.major) + "." +
                                   std::to_string(device.minor) + "; the programs need 8.0 or later");
  return device;
}

int run_program(int argc, char** argv,
                const std::function<void(const Arguments&, const Device&, Results&)>& measure) {
  std::string name = argv[0];
  name = name.substr(name.rfind('/') + 1);
  try {
    std::string records;
    const Arguments arguments = parse(argc, argv, records);
    const Device device = open_device();
    Results results(records);
    measure(arguments, device, results);
    return kMeasured;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return error.exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return kFailed;
  }
}

Memory::Memory(size_t bytes, MemoryKind kind) : bytes_(bytes), kind_(kind) {
  const std::string attempt = "allocating " + std::to_string(bytes) + " bytes";
  check(kind == MemoryKind::kDevice ? cudaMalloc(&data_, bytes)
                                    : cudaHostAlloc(&data_, bytes, cudaHostAllocMapped),
        attempt.c_str());
}
Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), kind_(other.kind_) {}
Memory::~Memory() {
  if (data_ == nullptr) return;
  if (kind_ == MemoryKind::kDevice) {
    cudaFree(data_);
  } else {
    cudaFreeHost(data_);
  }
}

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}
Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

Time time_work(const Stream& stream, int repeats, const std::function<void()>& work) {
  const Event begin, end;
  std::vector<double> times;
  work();
  stream.synchronize("warming up");
  for (int i = 0; i < repeats; ++i) {
    begin.record(stream);
    work();
    end.record(stream);
    times.push_back(end.us_since(begin));
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

Time time_graph(const Stream& stream, int repeats, int calls, const std::function<void()>& work) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  work();  // kernels are loaded here, because loading may not be captured
  stream.synchronize("warming up");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning to capture a graph");
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "capturing a graph");
  check(cudaGraphInstantiate(&executable, graph, 0), "instantiating a graph");
  Time time =
      time_work(stream, repeats, [&] { check(cudaGraphLaunch(executable, stream), "launching a graph"); });
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  time.best_us /= calls;
  time.median_us /= calls;
  return time;
}

double read_bandwidth(const Device& device, const Stream& stream) {
  const size_t bytes = size_t{2} << 30;
  const int blocks = device.num_sms * 4;
  const Memory source(bytes, MemoryKind::kDevice);
  const Memory out(static_cast<size_t>(blocks) * copy::kThreads * sizeof(uint32_t), MemoryKind::kDevice);
  check(cudaMemsetAsync(source.as<void>(), 1, bytes, stream), "filling memory");
  const Time time = time_work(
      stream, 10, [&] { copy::run_read(out.as<uint32_t>(), source.as<void>(), bytes, blocks, stream); });
  return static_cast<double>(bytes) / time.best_us * 1e-3;
}

}  // namespace probe
