#include "quantize/edited_tensor.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/error.h"
#include "base/strings.h"
#include "models/stored_values.h"
#include "quant/codec.h"

namespace quire {
namespace {

constexpr int64_t kRowsOfARange = 16;

}  // namespace

EditedTensor::Layout EditedTensor::layout_of(const SiteTensor& at) {
  const StoredTensor& tensor = at.weight;
  Layout layout{.rows = out_features(tensor)};
  layout.columns = elements(tensor) / layout.rows;
  layout.order = stored_rows(tensor, layout.rows);
  layout.begin = tensor.stacked ? at.part * elements(tensor) : 0;
  layout.row_step = tensor.transposed ? 1 : layout.columns;
  layout.column_step = tensor.transposed ? layout.rows : 1;
  return layout;
}

bool EditedTensor::store(int64_t element, float value) {
  store_f32(dtype_, bytes_.data(), element, value);
  return std::isfinite(load_f32(dtype_, bytes_.data(), element));
}

void EditedTensor::refuse(int64_t row) const {
  throw Error(cat(name_, ": a value in row ", row, " is not finite in ", dtype_name(dtype_),
                  "; the base was not merged"));
}

void EditedTensor::edit_rows(const Layout& layout, int64_t begin, int64_t count,
                             const std::function<bool(int64_t, std::span<float>)>& edit) {
  std::atomic<int64_t> too_large = -1;
  pool_.parallel_for(count, kRowsOfARange, [&](int64_t first, int64_t end, int) {
    std::vector<float> w(static_cast<size_t>(layout.columns));
    for (int64_t row = begin + first; row < begin + end; ++row) {
      const int64_t at = layout.at(row);
      load_strided_f32(dtype_, bytes_.data(), at, layout.column_step, layout.columns, w.data());
      if (!edit(row, w)) continue;
      for (int64_t k = 0; k < layout.columns; ++k) {
        if (!store(at + k * layout.column_step, w[static_cast<size_t>(k)])) too_large = row;
      }
    }
  });
  if (too_large >= 0) refuse(too_large);
}

void EditedTensor::add(const SiteTensor& at, const LowRankRows& change) {
  if (at.source && at.source->transposed) return add_transposed(at, change);
  const Layout layout = layout_of(at);
  const int64_t begin = at.source ? at.source->begin : 0;
  edit_rows(layout, begin, at.source ? at.source->count : layout.rows, [&](int64_t row, std::span<float> w) {
    const int64_t site_row = at.out_begin + row - begin;
    if (!change.changes(site_row, site_row + 1)) return false;
    std::vector<float> sum(w.size());
    change.add_to(site_row, w, sum);
    return true;
  });
}

// Row at.out_begin + j of the site is column j of the source's rows.
void EditedTensor::add_transposed(const SiteTensor& at, const LowRankRows& change) {
  const Layout layout = layout_of(at);
  const SourceRows& part = *at.source;
  std::atomic<int64_t> too_large = -1;
  pool_.parallel_for(layout.columns, kRowsOfARange, [&](int64_t first, int64_t end, int) {
    std::vector<float> added(static_cast<size_t>(change.columns()));
    std::vector<float> sum(added.size());
    for (int64_t j = first; j < end; ++j) {
      std::ranges::fill(added, 0.0F);
      change.add_to(at.out_begin + j, added, sum);
      for (int64_t i = 0; i < part.count; ++i) {
        const int64_t element = layout.at(part.begin + i) + j * layout.column_step;
        const float w = load_f32(dtype_, bytes_.data(), element);
        if (!store(element, w + added[static_cast<size_t>(i)])) too_large = part.begin + i;
      }
    }
  });
  if (too_large >= 0) refuse(too_large);
}

void EditedTensor::add_bias(const SiteTensor& at, const LowRankRows& change) {
  const StoredTensor& tensor = *at.bias;
  const int64_t count = elements(tensor);
  const std::vector<int64_t> order = stored_rows(tensor, count);
  const int64_t begin = tensor.stacked ? at.part * count : 0;
  for (int64_t row = 0; row < count; ++row) {
    const int64_t element = begin + order[static_cast<size_t>(row)];
    const float sum = load_f32(dtype_, bytes_.data(), element) + change.bias(at.out_begin + row);
    if (!store(element, sum)) refuse(row);
  }
}

void EditedTensor::add(const SiteTensor& at, const EmbeddingChange& change) {
  const Layout layout = layout_of(at);
  edit_rows(layout, 0, layout.rows, [&](int64_t row, std::span<float> w) {
    std::vector<float> sum(w.size());
    for (int64_t j = 0; j < change.rank; ++j) {
      const float a = change.scale * load_f32(change.dtype, change.a.data(), row * change.rank + j);
      for (size_t n = 0; n < w.size(); ++n) {
        const int64_t element = j * change.size + static_cast<int64_t>(n);
        sum[n] += a * load_f32(change.dtype, change.b.data(), element);
      }
    }
    for (size_t n = 0; n < w.size(); ++n) w[n] += sum[n];
    return true;
  });
}

void EditedTensor::replace(const SiteTensor& at, std::span<const float> values) {
  const Layout layout = layout_of(at);
  edit_rows(layout, 0, layout.rows, [&](int64_t row, std::span<float> w) {
    std::ranges::copy(values.subspan(static_cast<size_t>(row) * w.size(), w.size()), w.begin());
    return true;
  });
}

void EditedTensor::replace(const SiteTensor& at, const TrainedTokens& tokens) {
  const Layout layout = layout_of(at);
  edit_rows(layout, 0, layout.rows, [&](int64_t row, std::span<float> w) {
    const auto found = std::ranges::lower_bound(tokens.ids, row);
    if (found == tokens.ids.end() || *found != row) return false;
    const int64_t begin = (found - tokens.ids.begin()) * tokens.size;
    for (int64_t n = 0; n < tokens.size; ++n)
      w[static_cast<size_t>(n)] = load_f32(tokens.dtype, tokens.values.data(), begin + n);
    return true;
  });
}

void EditedTensor::replace_vector(std::span<const float> values, float offset) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!store(static_cast<int64_t>(i), values[i] - offset)) refuse(static_cast<int64_t>(i));
  }
}

}  // namespace quire
