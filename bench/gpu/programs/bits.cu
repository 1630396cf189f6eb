// Parts `bits`, `model` and `cublaslt_bits`: which matrix products give the same bits.
//   bits           mma.sync with two tile sizes and wgmma with every tile, for 1 to 4096 tokens
//   model          single mma instructions and whole sums against arithmetic.h
//   cublaslt_bits  cuBLASLt against mma.sync, for 1 to 4096 tokens
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../arithmetic.h"
#include "../kernels/gemm_mma_tiles.cuh"
#include "../kernels/mma_once.cuh"
#include "../kernels/operands.cuh"
#include "cublaslt.h"
#include "gemm_wgmma.h"
#include "program.h"

namespace {

using operands::Kind;
using probe::Memory;
using probe::MemoryKind;
using probe::OperandType;

constexpr int kMaxTokens = 4096, kFeatures = 512, kDepth = 4096;
constexpr OperandType kTypes[] = {OperandType::kBf16, OperandType::kFp16};
constexpr uint64_t kSeedX = 1, kSeedW = 2, kSeedC = 3;

const char* name_of(OperandType type) {
  return type == OperandType::kBf16 ? "bf16" : "fp16";
}
const char* name_of(Kind kind) {
  return kind == Kind::kUniform ? "uniform" : kind == Kind::kWide ? "wide exponents" : "subnormal";
}

// Operands, the result of the reference, and the result of the kernel that is compared with it.
struct Problem {
  OperandType type;
  Kind kind;
  Memory x{size_t{2} * kMaxTokens * kDepth, MemoryKind::kDevice};
  Memory w{size_t{2} * kFeatures * kDepth, MemoryKind::kDevice};
  Memory expected{size_t{4} * kMaxTokens * kFeatures, MemoryKind::kDevice};
  Memory y{size_t{4} * kMaxTokens * kFeatures, MemoryKind::kDevice};
  Memory counts{size_t{4} * operands::kNumCounts * kMaxTokens, MemoryKind::kDevice};

  Problem(OperandType operand_type, Kind operand_kind, const probe::Stream& stream)
      : type(operand_type), kind(operand_kind) {
    const bool bf16 = type == OperandType::kBf16;
    operands::run_fill(x.as<uint16_t>(), int64_t{kMaxTokens} * kDepth, kSeedX, kind, bf16, 1024, stream);
    operands::run_fill(w.as<uint16_t>(), int64_t{kFeatures} * kDepth, kSeedW, kind, bf16, 1024, stream);
    multiply<gemm_tiles::Rows128>(expected.as<float>(), kMaxTokens, stream);
    stream.synchronize("computing the reference");
  }

  template <template <class> class Tiles>
  void multiply(float* out, int num_tokens, cudaStream_t stream) const {
    if (type == OperandType::kBf16) {
      run_gemm_mma<Tiles<__nv_bfloat16>>(out, x.as<__nv_bfloat16>(), w.as<__nv_bfloat16>(), num_tokens,
                                         kFeatures, kDepth, stream);
    } else {
      run_gemm_mma<Tiles<__half>>(out, x.as<__half>(), w.as<__half>(), num_tokens, kFeatures, kDepth, stream);
    }
  }

  std::string label(const char* kernel) const {
    return std::string(kernel) + ", " + name_of(type) + ", " + name_of(kind);
  }
};

// Runs `multiply(num_tokens)`, which writes problem.y, for every number of tokens, and reports how many
// elements differ from the rows of the reference.
void compare(const Problem& problem, const std::string& kernel, const std::function<void(int)>& multiply,
             const probe::Stream& stream, probe::Results& results) {
  for (int tokens = 1; tokens <= kMaxTokens; ++tokens) {
    const int64_t count = int64_t{tokens} * kFeatures;
    probe::check(cudaMemsetAsync(problem.y.as<void>(), 0xff, static_cast<size_t>(count) * 4, stream),
                 "clearing");
    multiply(tokens);
    operands::run_count(problem.counts.as<uint32_t>() + int64_t{tokens - 1} * operands::kNumCounts,
                        problem.y.as<float>(), problem.expected.as<float>(), count, stream);
  }
  stream.synchronize("comparing results");
  const auto counts =
      probe::to_host(problem.counts.as<uint32_t>(), size_t{kMaxTokens} * operands::kNumCounts);
  double different = 0;
  int numbers_of_tokens = 0, first = 0;
  for (int tokens = 1; tokens <= kMaxTokens; ++tokens) {
    const auto begin = counts.begin() + int64_t{tokens - 1} * operands::kNumCounts;
    const double here = std::accumulate(begin, begin + operands::kNumCounts, 0.0);
    different += here;
    if (here == 0) continue;
    ++numbers_of_tokens;
    if (first == 0) first = tokens;
  }
  const probe::Labels labels{{"", problem.label(kernel.c_str())}};
  const double total = 0.5 * kMaxTokens * (kMaxTokens + 1) * kFeatures;
  results.add("elements that differ from mma.sync", labels, different, "of " + probe::table_number(total));
  results.add("numbers of tokens that differ", labels, numbers_of_tokens, "of 4096");
  if (first != 0) results.add("first number of tokens that differs", labels, first, "tokens");
}

void measure_bits(const probe::Device& device, const probe::Stream& stream, probe::Results& results) {
  for (const OperandType type : kTypes) {
    for (const Kind kind : {Kind::kUniform, Kind::kWide}) {
      const Problem problem(type, kind, stream);
      auto* y = problem.y.as<float>();
      compare(
          problem, "mma.sync 16 x 16", [&](int n) { problem.multiply<gemm_tiles::Rows16>(y, n, stream); },
          stream, results);
      compare(
          problem, "mma.sync 128 x 128", [&](int n) { problem.multiply<gemm_tiles::Rows128>(y, n, stream); },
          stream, results);
      for (const probe::WgmmaTile& tile : probe::kWgmmaTiles) {
        if (device.major != 9 || !probe::has_wgmma(type, tile)) continue;
        compare(
            problem, name_of(tile),
            [&](int n) {
              probe::run_gemm_wgmma(
                  type, tile, {y, problem.x.as<void>(), problem.w.as<void>(), n, kFeatures, kDepth}, stream);
            },
            stream, results);
      }
    }
  }
  if (device.major != 9) results.add_text("wgmma", "not measured; it needs compute capability 9.0");
}

void measure_cublaslt(const std::string& path, const probe::Stream& stream, probe::Results& results) {
  std::unique_ptr<probe::CublasLt> library;
  try {
    library = std::make_unique<probe::CublasLt>(path);
  } catch (const std::runtime_error& error) {
    throw probe::Error(probe::kNotSupported, error.what());
  }
  library->create_context();
  results.add_text("cuBLASLt", library->version());
  for (const OperandType type : kTypes) {
    for (const size_t workspace_bytes : {size_t{0}, size_t{32} << 20}) {
      const Problem problem(type, Kind::kUniform, stream);
      const Memory workspace(std::max(workspace_bytes, size_t{256}), MemoryKind::kDevice);
      int split = 0;
      const std::string kernel = "cuBLASLt, workspace " + std::to_string(workspace_bytes >> 20) + " MiB";
      compare(
          problem, kernel,
          [&](int n) {
            const probe::CublasLtGemm gemm(*library, type, n, kFeatures, kDepth, workspace_bytes);
            split += gemm.split_k() > 1 ? 1 : 0;
            gemm.run(problem.y.as<float>(), problem.x.as<void>(), problem.w.as<void>(), workspace.as<void>(),
                     stream);
          },
          stream, results);
      results.add("numbers of tokens with split-K", {{"", problem.label(kernel.c_str())}}, split, "of 4096");
    }
  }
}

struct NamedModel {
  const char* name;
  probe::DotModel model;
};
constexpr NamedModel kModels[] = {
    {"25 bits, sums of 16", {25, 16}}, {"24 bits, sums of 16", {24, 16}}, {"26 bits, sums of 16", {26, 16}},
    {"25 bits, sums of 8", {25, 8}},   {"24 bits, sums of 8", {24, 8}},   {"23 bits, sums of 8", {23, 8}},
};

bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

// One mma instruction: the accumulator, then sums of products_per_sum products in ascending order.
float one_instruction(const uint16_t* a, const uint16_t* b, float c, OperandType type,
                      const probe::DotModel& model) {
  for (int i = 0; i < 16; i += model.products_per_sum)
    c = probe::fused_dot_add(a + i, b + i, model.products_per_sum, c, type, model.fraction_bits);
  return c;
}

void compare_instructions(OperandType type, Kind kind, const probe::Stream& stream, probe::Results& results) {
  constexpr int kProducts = 2048;
  const bool bf16 = type == OperandType::kBf16;
  std::vector<uint16_t> a(size_t{kProducts} * 256), b(size_t{kProducts} * 128);
  std::vector<float> c(size_t{kProducts} * 128);
  for (size_t i = 0; i < a.size(); ++i) a[i] = operands::element(kSeedX, i, kind, bf16);
  for (size_t i = 0; i < b.size(); ++i) b[i] = operands::element(kSeedW, i, kind, bf16);
  for (size_t i = 0; i < c.size(); ++i) {
    const uint32_t bits = operands::accumulator_bits(kSeedC, i, kind, bf16);
    std::memcpy(&c[i], &bits, sizeof(bits));
  }
  const Memory device_a(a.size() * 2, MemoryKind::kDevice), device_b(b.size() * 2, MemoryKind::kDevice);
  const Memory device_c(c.size() * 4, MemoryKind::kDevice), device_d(c.size() * 4, MemoryKind::kDevice);
  probe::check(cudaMemcpy(device_a.as<void>(), a.data(), a.size() * 2, cudaMemcpyHostToDevice),
               "copying operands");
  probe::check(cudaMemcpy(device_b.as<void>(), b.data(), b.size() * 2, cudaMemcpyHostToDevice),
               "copying operands");
  probe::check(cudaMemcpy(device_c.as<void>(), c.data(), c.size() * 4, cudaMemcpyHostToDevice),
               "copying operands");
  if (bf16) {
    mma_once::run(device_d.as<float>(), device_a.as<__nv_bfloat16>(), device_b.as<__nv_bfloat16>(),
                  device_c.as<float>(), kProducts, stream);
  } else {
    mma_once::run(device_d.as<float>(), device_a.as<__half>(), device_b.as<__half>(), device_c.as<float>(),
                  kProducts, stream);
  }
  stream.synchronize("running single instructions");
  const auto d = probe::to_host(device_d.as<float>(), c.size());
  for (const NamedModel& candidate : kModels) {
    size_t equal = 0;
    for (size_t i = 0; i < d.size(); ++i) {
      const size_t product = i / 128, row = i % 128 / 8, column = i % 8;
      equal += same_bits(d[i], one_instruction(&a[product * 256 + row * 16], &b[product * 128 + column * 16],
                                               c[i], type, candidate.model))
                   ? 1
                   : 0;
    }
    const probe::Labels labels{{"", name_of(type)}, {"operands", name_of(kind)}, {"model", candidate.name}};
    results.add("single mma.sync equal to the model", labels, static_cast<double>(equal),
                "of " + std::to_string(d.size()));
  }
}

// Whole sums over kDepth, in the model's order, for a few tokens.
void compare_sums(OperandType type, const probe::Device& device, const probe::Stream& stream,
                  probe::Results& results) {
  constexpr int kTokens = 4;
  const bool bf16 = type == OperandType::kBf16;
  const Problem problem(type, Kind::kUniform, stream);
  const probe::DotModel model = device.major >= 9 ? probe::DotModel{25, 16} : probe::DotModel{24, 8};
  std::vector<uint16_t> x(size_t{kTokens} * kDepth), w(size_t{kFeatures} * kDepth);
  for (size_t i = 0; i < x.size(); ++i) x[i] = operands::element(kSeedX, i, Kind::kUniform, bf16);
  for (size_t i = 0; i < w.size(); ++i) w[i] = operands::element(kSeedW, i, Kind::kUniform, bf16);
  std::vector<float> expected;
  for (size_t token = 0; token < kTokens; ++token) {
    for (size_t feature = 0; feature < kFeatures; ++feature)
      expected.push_back(probe::dot_chain(&x[token * kDepth], &w[feature * kDepth], kDepth, type, model));
  }
  const auto report = [&](const char* kernel, const float* y) {
    const auto sums = probe::to_host(y, expected.size());
    size_t equal = 0;
    for (size_t i = 0; i < sums.size(); ++i) equal += same_bits(sums[i], expected[i]) ? 1 : 0;
    results.add("sums over 4096 equal to the model", {{"", kernel}, {"", name_of(type)}},
                static_cast<double>(equal), "of " + std::to_string(expected.size()));
  };
  report("mma.sync", problem.expected.as<float>());
  if (device.major != 9) return;
  probe::run_gemm_wgmma(
      type, {128, 64},
      {problem.y.as<float>(), problem.x.as<void>(), problem.w.as<void>(), kTokens, kFeatures, kDepth},
      stream);
  stream.synchronize("running wgmma");
  report("wgmma", problem.y.as<float>());
}

void measure_model(const probe::Device& device, const probe::Stream& stream, probe::Results& results) {
  for (const OperandType type : kTypes) {
    for (const Kind kind : {Kind::kUniform, Kind::kWide, Kind::kTiny})
      compare_instructions(type, kind, stream, results);
    compare_sums(type, device, stream, results);
  }
}

void measure(const probe::Arguments& arguments, const probe::Device& device, probe::Results& results) {
  const probe::Stream stream;
  const std::string part = arguments.names.empty() ? "" : arguments.names[0];
  if (part == "bits") {
    measure_bits(device, stream, results);
  } else if (part == "model") {
    measure_model(device, stream, results);
  } else if (part == "cublaslt_bits") {
    measure_cublaslt(arguments.cublaslt, stream, results);
  } else {
    throw probe::Error(probe::kUsage, "the first argument is bits, model or cublaslt_bits");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return probe::run_program(argc, argv, measure);
}
