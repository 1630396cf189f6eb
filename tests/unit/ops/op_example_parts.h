// Building blocks of the examples of ops.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "ops/op_table.h"

namespace quire::test {

// A change that makes a valid call invalid, and a part of the error that must follow.
template <class Args>
struct Fault {
  std::string message;
  std::function<void(Args&)> make;
};

// example(Type<Args>{}) and faults(Type<Args>{}) are overloads for each op. The memory that examples refer to
// is zeroed and lives as long as the program.
template <class Args>
struct Type {};

inline TensorView floats(Shape shape) {
  static std::array<float, 65536> storage{};
  static size_t used = 0;
  float* begin = storage.data() + used;
  used += static_cast<size_t>(shape.numel()) + 16;
  if (used > storage.size())
    used = 0, begin = storage.data();  // views of earlier examples are not read again
  return make_view(begin, DType::kF32, shape);
}

template <size_t N>
std::span<const int32_t> ids(const int32_t (&values)[N]) {
  static std::vector<std::vector<int32_t>> kept;
  return kept.emplace_back(values, values + N);
}

inline const PackedLinear& matrix(int64_t n, int64_t k) {
  static std::vector<PackedLinear> kept = [] {
    std::vector<PackedLinear> all;
    all.reserve(4096);
    return all;
  }();
  PackedLinear& w = kept.emplace_back();
  w.n = n;
  w.k = k;
  w.data = Buffer(static_cast<size_t>((n + 31) / 32 * 32 * k) * sizeof(float));
  return w;
}

}  // namespace quire::test
