// Part `gemm`: times of matrix products with the shapes of an 8B model, for 1 to 4096 tokens.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../kernels/gemm_mma_tiles.cuh"
#include "../kernels/operands.cuh"
#include "cublaslt.h"
#include "gemm_wgmma.h"
#include "program.h"

namespace {

using probe::Memory;
using probe::MemoryKind;
using probe::OperandType;

struct Shape {
  const char* name;
  int num_features;
  int k;
};
constexpr Shape kShapes[] = {
    {"qkv", 6144, 4096}, {"o", 4096, 4096}, {"gate_up", 28672, 4096}, {"down", 4096, 14336}};
constexpr int kTokens[] = {1, 4, 16, 32, 64, 128, 256, 512, 2048, 4096};
constexpr int kMaxTokens = 4096, kRepeats = 10;
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// Every product of a sequence reads its own copy of the weights, so that L2 does not hold them.
struct Buffers {
  Memory weights, x, y, workspace{kWorkspaceBytes, MemoryKind::kDevice};
  int num_copies;
  size_t copy_bytes;

  Buffers(const Shape& shape, int copies, const probe::Stream& stream)
      : weights(static_cast<size_t>(copies) * weight_bytes(shape), MemoryKind::kDevice),
        x(size_t{2} * kMaxTokens * static_cast<size_t>(shape.k), MemoryKind::kDevice),
        y(size_t{4} * kMaxTokens * static_cast<size_t>(shape.num_features), MemoryKind::kDevice),
        num_copies(copies),
        copy_bytes(weight_bytes(shape)) {
    operands::run_fill(weights.as<uint16_t>(), static_cast<int64_t>(weights.bytes() / 2), 1,
                       operands::Kind::kUniform, true, 1024, stream);
    operands::run_fill(x.as<uint16_t>(), static_cast<int64_t>(x.bytes() / 2), 2, operands::Kind::kUniform,
                       true, 1024, stream);
  }
  static size_t weight_bytes(const Shape& shape) {
    return size_t{2} * static_cast<size_t>(shape.num_features) * static_cast<size_t>(shape.k);
  }
};

class Measurement {
 public:
  Measurement(const probe::Device& device, const probe::Stream& stream, probe::Results& results,
              const probe::CublasLt* cublaslt)
      : device_(device), stream_(stream), results_(results), cublaslt_(cublaslt) {
    bandwidth_ = probe::read_bandwidth(device, stream);
    results.add("bandwidth of a kernel that reads", {}, bandwidth_, "GB/s");
  }

  void run(const Shape& shape) {
    // At least 512 MB, and two copies.
    const auto copies =
        static_cast<int>(std::max<size_t>(2, (size_t{512} << 20) / Buffers::weight_bytes(shape)));
    const Buffers buffers(shape, copies, stream_);
    for (const int tokens : kTokens) run(shape, buffers, tokens);
  }

 private:
  void run(const Shape& shape, const Buffers& buffers, int tokens) {
    const auto* x = buffers.x.as<__nv_bfloat16>();
    auto* y = buffers.y.as<float>();
    const auto mma = [&]<class Tiles>(Tiles, const char* name) {
      report(shape, tokens, name, buffers, [&](const void* w) {
        run_gemm_mma<Tiles>(y, x, static_cast<const __nv_bfloat16*>(w), tokens, shape.num_features, shape.k,
                            stream_);
      });
    };
    if (tokens <= 64) mma(gemm_tiles::Rows16<__nv_bfloat16>{}, "mma.sync 16 x 16");
    if (tokens >= 16 && tokens <= 512) mma(gemm_tiles::Rows64<__nv_bfloat16>{}, "mma.sync 64 x 32");
    if (tokens >= 64) mma(gemm_tiles::Rows128<__nv_bfloat16>{}, "mma.sync 128 x 128");
    for (const probe::WgmmaTile& tile : probe::kWgmmaTiles) {
      // A tile at most four times as large as needed, and the largest three for many tokens.
      if (device_.major != 9 || (tile.tokens > 16 && tile.tokens > 4 * tokens) ||
          tile.tokens * 16 < std::min(tokens, 1024))
        continue;
      report(shape, tokens, name_of(tile).c_str(), buffers, [&](const void* w) {
        probe::run_gemm_wgmma(OperandType::kBf16, tile, {y, x, w, tokens, shape.num_features, shape.k},
                              stream_);
      });
    }
    if (cublaslt_ == nullptr) return;
    const probe::CublasLtGemm gemm(*cublaslt_, OperandType::kBf16, tokens, shape.num_features, shape.k,
                                   kWorkspaceBytes);
    const std::string name = "cuBLASLt, split-K " + std::to_string(gemm.split_k());
    report(shape, tokens, name.c_str(), buffers,
           [&](const void* w) { gemm.run(y, x, w, buffers.workspace.as<void>(), stream_); });
  }

  void report(const Shape& shape, int tokens, const char* kernel, const Buffers& buffers,
              const std::function<void(const void*)>& multiply) {
    const probe::Time time = probe::time_graph(stream_, kRepeats, buffers.num_copies, [&] {
      for (int i = 0; i < buffers.num_copies; ++i)
        multiply(buffers.weights.as<char>(static_cast<size_t>(i) * buffers.copy_bytes));
    });
    const probe::Labels labels{{"", shape.name},
                               {"", std::to_string(shape.num_features) + " x " + std::to_string(shape.k)},
                               {"tokens", std::to_string(tokens)},
                               {"", kernel}};
    const double operations = 2.0 * tokens * shape.num_features * shape.k;
    const double read = static_cast<double>(buffers.copy_bytes) * 1e-3 / time.median_us;  // GB/s
    results_.add("time", labels, time.median_us, "us");
    if (tokens <= 64) {
      results_.add("weights read, fraction of the read bandwidth", labels, read / bandwidth_, "");
    } else {
      results_.add("rate", labels, operations * 1e-6 / time.median_us, "TFLOP/s");
    }
  }

  const probe::Device& device_;
  const probe::Stream& stream_;
  probe::Results& results_;
  const probe::CublasLt* cublaslt_;
  double bandwidth_ = 0;
};

void measure(const probe::Arguments& arguments, const probe::Device& device, probe::Results& results) {
  std::unique_ptr<probe::CublasLt> cublaslt;
  try {
    cublaslt = std::make_unique<probe::CublasLt>(arguments.cublaslt);
    cublaslt->create_context();
    results.add_text("cuBLASLt", cublaslt->version());
  } catch (const std::runtime_error& error) {
    cublaslt.reset();
    results.add_text("cuBLASLt", std::string("not measured: ") + error.what());
  }
  if (device.major != 9) results.add_text("wgmma", "not measured; it needs compute capability 9.0");
  const probe::Stream stream;
  Measurement measurement(device, stream, results, cublaslt.get());
  for (const Shape& shape : kShapes) measurement.run(shape);
}

}  // namespace

int main(int argc, char** argv) {
  return probe::run_program(argc, argv, measure);
}
