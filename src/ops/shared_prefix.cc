#include "ops/shared_prefix.h"

#include <algorithm>
#include <numeric>

namespace quire {
namespace {

std::span<const int32_t> table_of(const AttentionBatch& batch, int32_t s) {
  const auto at = static_cast<size_t>(s);
  const auto begin = static_cast<size_t>(batch.block_table_indptr[at]);
  return batch.block_table.subspan(begin, static_cast<size_t>(batch.block_table_indptr[at + 1]) - begin);
}

int32_t first_block(const AttentionBatch& batch, int32_t s) {
  const auto table = table_of(batch, s);
  return table.empty() ? -1 : table[0];
}

int32_t common_blocks(std::span<const int32_t> a, std::span<const int32_t> b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<int32_t>(end.first - a.begin());
}

}  // namespace

void SharedPrefixes::find(const AttentionBatch& batch) {
  const auto num_seqs = static_cast<size_t>(batch.num_seqs);
  order_.resize(num_seqs);
  blocks_.assign(num_seqs, 0);
  std::iota(order_.begin(), order_.end(), 0);
  // Most sequences share nothing. Only those with the same first block are compared further.
  const auto first = [&batch](int32_t s) { return first_block(batch, s); };
  std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) { return first(a) < first(b); });
  bool any = false;
  for (size_t begin = 0; begin < num_seqs;) {
    size_t end = begin + 1;
    while (end < num_seqs && first(order_[begin]) >= 0 && first(order_[end]) == first(order_[begin])) ++end;
    const auto run = std::span(order_).subspan(begin, end - begin);
    if (run.size() > 1) {
      any = true;
      std::sort(run.begin(), run.end(), [&batch](int32_t a, int32_t b) {
        const auto x = table_of(batch, a);
        const auto y = table_of(batch, b);
        return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
      });
      for (size_t i = begin; i + 1 < end; ++i)
        blocks_[i] = common_blocks(table_of(batch, order_[i]), table_of(batch, order_[i + 1]));
    }
    begin = end;
  }
  if (!any) {
    order_.clear();
    blocks_.clear();
  }
}

}  // namespace quire
