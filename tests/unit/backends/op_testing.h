// Shared by the kernel tests: random tensors in guarded, strided memory, contexts with a pool and a
// workspace, and paged caches.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "base/thread_pool.h"
#include "ops/op_table.h"
#include "quant/codec.h"
#include "support/sanitizers.h"

namespace quire::test {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The levels above generic that this machine supports. All levels divide work among threads in the same way,
// so the thread sanitizer checks only the best one.
inline std::vector<CpuIsa> fast_isas() {
  std::vector<CpuIsa> found;
  for (const CpuIsa& isa : cpu_isas()) {
    if (isa.supported && isa.name != "generic") found.push_back(isa);
  }
  if (test::kThreadSanitizer && found.size() > 1) found.erase(found.begin(), found.end() - 1);
  return found;
}

// The same and generic. With sanitizers, the loops of generic would take most of the time; tests that compare
// levels with them run them anyway.
inline std::vector<CpuIsa> usable_isas() {
  std::vector<CpuIsa> found = fast_isas();
  if (!test::kSanitizer || found.empty()) found.insert(found.begin(), cpu_isas()[0]);
  return found;
}

// Whether the level rounds activations to bfloat16 for products with bfloat16 weights.
inline bool multiplies_bf16(const CpuIsa& isa) {
  return isa.name.ends_with("_bf16");
}

// A tensor with its own memory. Elements between rows and after the last one are NaN, so that reading them
// changes results.
class TestTensor {
 public:
  TestTensor(DType dtype, Shape shape, int64_t padding = 0) {
    view_ = make_view(nullptr, dtype, shape);
    view_.row_stride += padding;
    bytes_.assign(static_cast<size_t>(view_.rows() * view_.row_stride + 1) * dtype_size(dtype),
                  std::byte{0xff});
    view_.data = bytes_.data();
  }
  TestTensor(const TestTensor& other) : view_(other.view_), bytes_(other.bytes_) {
    view_.data = bytes_.data();
  }
  TestTensor(TestTensor&&) = default;
  TestTensor& operator=(const TestTensor&) = delete;

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }  // NOLINT: tests pass it as the view
  float get(int64_t row, int64_t i) const {
    return load_f32(view_.dtype, view_.data, row * view_.row_stride + i);
  }
  void set(int64_t row, int64_t i, float v) {
    store_f32(view_.dtype, view_.data, row * view_.row_stride + i, v);
  }

 private:
  TensorView view_;
  std::vector<std::byte> bytes_;
};

// Elements of a normal distribution with mean 0 and the standard deviation `scale`.
TestTensor random_tensor(DType dtype, Shape shape, uint32_t seed, int64_t padding = 0, float scale = 1.0F);
// The values of random_tensor(dtype, {1, count}, seed). count may be 0.
Buffer random_buffer(DType dtype, int64_t count, uint32_t seed);

// Compares bits, including those of NaN.
inline bool same_row(const TensorView& a, int64_t row_a, const TensorView& b, int64_t row_b) {
  return std::memcmp(a.row<float>(row_a), b.row<float>(row_b),
                     static_cast<size_t>(a.row_size()) * sizeof(float)) == 0;
}

inline bool same_rows(const TensorView& a, const TensorView& b) {
  for (int64_t r = 0; r < a.rows(); ++r) {
    if (!same_row(a, r, b, r)) return false;
  }
  return a.rows() == b.rows();
}

// Expects |got - want| <= absolute + relative * |want| for each element.
void expect_near(const TensorView& got, const TensorView& want, float absolute, float relative,
                 const char* what);

// A context with `threads` threads and a workspace for the ops of a step.
class TestContext {
 public:
  explicit TestContext(const OpTable& table, int threads = 1, int64_t max_tokens = 4096,
                       int64_t max_seq_len = 8192, int32_t num_heads = 64, int32_t head_dim = 256) {
    if (threads > 1) pool_ = std::make_unique<ThreadPool>(threads);
    ctx_ = {pool_.get(),
            workspace(table.workspace_bytes(max_tokens, max_seq_len, num_heads, head_dim, threads))};
  }
  const OpContext& ctx() const { return ctx_; }
  operator const OpContext&() const { return ctx_; }  // NOLINT: tests pass it as the context

 private:
  // Shared by all contexts, with the contents left by the last op. Initializing a new one would take longer
  // than the ops.
  static std::span<std::byte> workspace(size_t size) {
    // Smaller ones are kept: existing contexts may still use them.
    static std::list<std::vector<std::byte>> junk;
    if (junk.empty() || junk.back().size() < size) junk.emplace_back(size, std::byte{0xff});
    return {junk.back().data(), size};
  }

  std::unique_ptr<ThreadPool> pool_;
  OpContext ctx_;
};

}  // namespace quire::test
