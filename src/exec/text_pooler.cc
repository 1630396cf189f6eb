#include "exec/text_pooler.h"
#include "nn/pooler.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

// Vectors that go through the layers together.
constexpr int64_t kVectorsAtOnce = 64;

size_t scratch_bytes(const Pooler& pooler) {
  return 2 * static_cast<size_t>(kVectorsAtOnce * pooler.widest()) * sizeof(float);
}

// into = into and row `position`, of `size` numbers.
void add_row(PoolKind kind, int32_t position, bool last, const float* row, float* into, int64_t size) {
  switch (kind) {
    case PoolKind::kFirst:
      if (position == 0) std::copy_n(row, size, into);
      break;
    case PoolKind::kLast:
      if (last) std::copy_n(row, size, into);
      break;
    case PoolKind::kMax:
      for (int64_t i = 0; i < size; ++i) into[i] = position == 0 ? row[i] : std::max(into[i], row[i]);
      break;
    case PoolKind::kMean:
    case PoolKind::kMeanSqrt:
      for (int64_t i = 0; i < size; ++i) into[i] += row[i];
      break;
    case PoolKind::kWeightedMean:
      for (int64_t i = 0; i < size; ++i) into[i] += static_cast<float>(position + 1) * row[i];
      break;
  }
}

// The divisor of a sum over `count` rows.
double divisor(PoolKind kind, int32_t count) {
  const double n = count;
  if (kind == PoolKind::kMean) return n;
  if (kind == PoolKind::kMeanSqrt) return std::sqrt(n);
  return kind == PoolKind::kWeightedMean ? n * (n + 1.0) / 2.0 : 1.0;
}

void softmax(std::vector<float>& values) {
  const double highest = *std::max_element(values.begin(), values.end());
  double sum = 0.0;
  for (const float v : values) sum += std::exp(v - highest);
  for (float& v : values) v = static_cast<float>(std::exp(v - highest) / sum);
}

void to_length_one(std::vector<float>& values) {
  double sum = 0.0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  const double length = std::max(std::sqrt(sum), 1e-12);
  for (float& v : values) v = static_cast<float>(v / length);
}

}  // namespace

TextPooler::TextPooler(const Model& model, Device& device, const OpTable& ops, int64_t max_tokens)
    : pooler_(*model.pooler()), ops_(ops), vectors_(device, scratch_bytes(pooler_)) {
  if (!device.shares_host_memory()) {
    const int64_t row = std::max(pooler_.hidden_size, model.spec().hidden_size);  // distance, at most
    copied_ = device.allocate(static_cast<size_t>(max_tokens * row) * sizeof(float), MemoryKind::kPinned);
  }
}

int64_t TextPooler::workspace_bytes(const Model& model) {
  return static_cast<int64_t>(scratch_bytes(*model.pooler()));
}

void TextPooler::submit_copy(const TensorView& hidden, DeviceStream& stream) {
  hidden_ = hidden;
  if (copied_.size() == 0) return;
  hidden_.data = copied_.data();
  // With the space between the rows, if there is any.
  const int64_t floats = (hidden.rows() - 1) * hidden.row_stride + hidden.row_size();
  stream.copy(hidden_.data, hidden.data, static_cast<size_t>(floats) * sizeof(float));
}

void TextPooler::take(const OpContext& ctx, ThreadPool& pool, DeviceStream& stream, const StepPlan& plan,
                      std::span<const PooledPart> parts, SequenceStore& sequences, StepAdapters& adapters,
                      StepResult& result) {
  ended_.clear();
  for (const PooledPart& part : parts) {
    if (part.last) ended_.push_back(part);
  }
  const auto record_of = [&](const PooledPart& part) -> SequenceRecord& {
    return sequences.at(plan.scheduled[static_cast<size_t>(part.scheduled)].seq);
  };
  pool.parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const PooledPart& part = parts[static_cast<size_t>(i)];
      add_rows(part, record_of(part));
    }
  });
  const std::span<const PooledPart> ended(ended_);
  for (size_t i = 0; i < ended.size(); i += kVectorsAtOnce)
    finish(ctx, stream, plan, ended.subspan(i, std::min<size_t>(kVectorsAtOnce, ended.size() - i)), sequences,
           adapters, result);
}

void TextPooler::add_rows(const PooledPart& part, SequenceRecord& record) const {
  const int64_t size = pooler_.hidden_size;
  // After a preemption the sum starts again.
  if (part.begin == 0 || record.pooled.empty())
    record.pooled.assign(static_cast<size_t>(pooler_.pooled_size()), 0.0F);
  for (size_t k = 0; k < pooler_.kinds.size(); ++k) {
    float* into = record.pooled.data() + static_cast<int64_t>(k) * size;
    for (int32_t p = part.begin; p < part.end; ++p) {
      const bool last = part.last && p + 1 == part.end;
      add_row(pooler_.kinds[k], p, last, hidden_.row<float>(part.first_row + p - part.begin), into, size);
    }
  }
}

void TextPooler::finish(const OpContext& ctx, DeviceStream& stream, const StepPlan& plan,
                        std::span<const PooledPart> ended, SequenceStore& sequences, StepAdapters& adapters,
                        StepResult& result) {
  const auto count = static_cast<int64_t>(ended.size());
  const Shape shape{count, pooler_.widest()};
  const size_t bytes = static_cast<size_t>(shape.numel()) * sizeof(float);
  const TensorView x = make_view(vectors_.device(), DType::kF32, shape);
  const TensorView other = make_view(vectors_.device() + bytes, DType::kF32, shape);
  auto* sums = reinterpret_cast<float*>(vectors_.host());
  const auto seq_of = [&](int64_t i) {
    return plan.scheduled[static_cast<size_t>(ended[static_cast<size_t>(i)].scheduled)].seq;
  };
  const int64_t size = pooler_.hidden_size;
  for (int64_t i = 0; i < count; ++i) {
    const SequenceRecord& record = sequences.at(seq_of(i));
    for (size_t k = 0; k < pooler_.kinds.size(); ++k) {
      const double by = divisor(pooler_.kinds[k], ended[static_cast<size_t>(i)].end);
      const float* from = record.pooled.data() + static_cast<int64_t>(k) * size;
      float* to = sums + i * pooler_.widest() + static_cast<int64_t>(k) * size;
      for (int64_t d = 0; d < size; ++d) to[d] = static_cast<float>(from[d] / by);
    }
  }
  vectors_.copy_to_device(stream, bytes);
  last_rows_.clear();
  for (const PooledPart& part : ended) last_rows_.push_back(part.first_row + part.end - part.begin - 1);
  TensorView out = apply(OpRunner{ops_, ctx, adapters.select(last_rows_)}, pooler_, x, other);
  vectors_.copy_to_host(stream, 2 * bytes);
  stream.synchronize(stream.record());
  out.data = vectors_.host() + (out.as<std::byte>() - vectors_.device());
  for (int64_t i = 0; i < count; ++i) {
    PooledVector vector;
    vector.seq = seq_of(i);
    vector.values.assign(out.row<float>(i), out.row<float>(i) + pooler_.output_size());
    finish_vector(pooler_, sequences.at(vector.seq).pooling->params, vector.values);
    if (std::ranges::all_of(vector.values, [](float v) { return std::isfinite(v); })) {
      result.pooled.push_back(std::move(vector));
    } else {
      result.failures.push_back({vector.seq, "the vector of the text contains a value that is not a number"});
    }
  }
}

void finish_vector(const Pooler& pooler, const PoolingParams& params, std::vector<float>& values) {
  if (!pooler.scores) {
    if (params.dimensions > 0) values.resize(std::min(values.size(), static_cast<size_t>(params.dimensions)));
    if (params.normalize.value_or(pooler.normalize)) to_length_one(values);
    return;
  }
  if (!params.activation) return;
  if (pooler.activation == ScoreActivation::kSoftmax) softmax(values);
  if (pooler.activation == ScoreActivation::kSigmoid) {
    for (float& v : values) v = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(v))));
  }
}

}  // namespace quire
