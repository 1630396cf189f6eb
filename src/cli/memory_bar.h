// The memory that a model needs, as a bar.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/strings.h"

namespace quire::cli {

// Parts of the free memory in bytes: "[######====......]" with # for weights, = for the KV cache and . for
// the rest. Each part that is not 0 has a column. Without room for weights and KV cache, the bar ends with
// "!".
inline std::string memory_bar(int64_t weights, int64_t kv_cache, int64_t free_bytes) {
  constexpr int kColumns = 50;
  const int64_t needed = weights + kv_cache;
  const auto whole = static_cast<double>(std::max<int64_t>({needed, free_bytes, 1}));
  const auto columns_of = [&](int64_t bytes) {
    const auto columns = static_cast<int>(std::lround(kColumns * static_cast<double>(bytes) / whole));
    return static_cast<size_t>(bytes > 0 ? std::max(1, columns) : 0);
  };
  std::string bar(columns_of(weights), '#');
  bar.append(columns_of(kv_cache), '=');
  bar.resize(kColumns, '.');
  return cat("[", bar, needed > free_bytes ? "!" : "]");
}

// "# 1.0 GiB weights, = 3.0 GiB KV cache, . 4.0 GiB free", or by how much they exceed the free memory.
inline std::string memory_legend(int64_t weights, int64_t kv_cache, int64_t free_bytes) {
  std::string text = cat("# ", format_bytes(weights), " weights, ");
  if (kv_cache > 0) text += cat("= ", format_bytes(kv_cache), " KV cache, ");
  const int64_t left = free_bytes - weights - kv_cache;
  return text + (left >= 0 ? cat(". ", format_bytes(left), " free")
                           : cat(format_bytes(-left), " more than the free memory"));
}

}  // namespace quire::cli
