#include "nn/layers.h"

#include <algorithm>

#include "nn/adapter.h"
#include "nn/matrix_runs.h"

namespace quire {
namespace {

// out = W x (+ bias) (+ residual), without adapters.
void multiply(const OpRunner& run, const Linear& linear, const TensorView& out, const TensorView& x,
              const TensorView& residual) {
  if (linear.more.empty())
    return run(ops::Linear{.out = out, .x = x, .w = linear.weight, .residual = residual});
  int64_t begin = 0;
  const auto piece = [&](const PackedLinear& w) {
    const TensorView added = residual.data == nullptr ? residual : column_slice(residual, begin, begin + w.n);
    run(ops::Linear{.out = column_slice(out, begin, begin + w.n), .x = x, .w = w, .residual = added});
    begin += w.n;
  };
  piece(linear.weight);
  for (const PackedLinear& w : linear.more) piece(w);
}

template <typename Weight>
TensorView rows_of(const TensorView& view, const RowRun<Weight>& rows) {
  return view.data == nullptr ? view : row_slice(view, rows.begin, rows.end);
}

// The same with the matrices that adapters have instead.
void multiply_runs(const OpRunner& run, const MatrixRuns& runs, const Linear& linear, const TensorView& out,
                   const TensorView& x, const TensorView& residual) {
  for (MatrixRun rows; runs.next(rows);) {
    if (rows.own == nullptr) {
      multiply(run, linear, rows_of(out, rows), rows_of(x, rows), rows_of(residual, rows));
    } else {
      run(ops::Linear{.out = rows_of(out, rows),
                      .x = rows_of(x, rows),
                      .w = rows.own->weight,
                      .residual = rows_of(residual, rows)});
    }
  }
}

void look_up(const OpRunner& run, const Embedding& embedding, const PackedLinear* packed,
             const TensorView& out, std::span<const int32_t> ids) {
  if (packed != nullptr) {
    run(ops::PackedEmbedding{.out = out, .table = *packed, .ids = ids});
  } else {
    run(ops::Embedding{.out = out, .table = embedding.table, .ids = ids});
  }
}

std::span<const LowRankGroup> changes_of(const OpRunner& run, const Linear& linear, int64_t rows) {
  if (run.adapters == nullptr || linear.site < 0) return {};
  return groups_at(*run.adapters, linear.site, rows);
}

void add_changes(const OpRunner& run, std::span<const LowRankGroup> changes, const TensorView& out,
                 const TensorView& x) {
  if (changes.empty()) return;
  run(ops::AddLowRank{.out = out, .x = x, .groups = changes, .first_row = run.adapters->first_row});
}

void normalize(const OpRunner& run, const Norm& norm, const Buffer& weights, const Buffer& bias,
               const TensorView& out, const TensorView& x) {
  const TensorView weight = vector_view(weights, norm.size);
  if (norm.kind == NormKind::kRms) {
    run(ops::RmsNorm{
        .out = out, .x = x, .weight = weight, .eps = norm.eps, .weight_offset = norm.weight_offset});
  } else {
    run(ops::LayerNorm{
        .out = out, .x = x, .weight = weight, .bias = vector_view(bias, norm.size), .eps = norm.eps});
  }
}

}  // namespace

TensorView head_view(const TensorView& x, int64_t heads) {
  TensorView view = x;
  view.shape = Shape{x.rows(), heads, x.row_size() / heads};
  return view;
}

TensorView vector_view(const Buffer& buffer, int64_t size) {
  if (buffer.size() == 0) return {};
  // Ops only read the view.
  return make_view(const_cast<std::byte*>(buffer.data()), DType::kF32, Shape{size});
}

TensorView same_rows(const Buffer& buffer, int64_t rows, int64_t size) {
  TensorView view = vector_view(buffer, size);
  view.shape = Shape{rows, size};
  view.row_stride = 0;
  return view;
}

Buffer filled(int64_t count, float value) {
  Buffer buffer(static_cast<size_t>(count) * sizeof(float));
  std::fill_n(buffer.as<float>(), count, value);
  return buffer;
}

int64_t Linear::out_features() const {
  int64_t n = weight.n;
  for (const PackedLinear& piece : more) n += piece.n;
  return n;
}

void apply(const OpRunner& run, const Linear& linear, const TensorView& out, const TensorView& x,
           const TensorView& residual) {
  const MatrixRuns runs(run.adapters, &AdapterWeights::matrices, linear.site, x.rows());
  if (runs.any()) {
    multiply_runs(run, runs, linear, out, x, residual);
  } else {
    multiply(run, linear, out, x, residual);
  }
  add_changes(run, changes_of(run, linear, x.rows()), out, x);
  if (run.adapters == nullptr || linear.site < 0) return;
  const auto tokens = token_groups_at(*run.adapters, &AdapterWeights::output_tokens, linear.site, x.rows());
  if (tokens.empty()) return;
  run(ops::ReplaceOutputs{.out = out, .x = x, .groups = tokens, .first_row = run.adapters->first_row});
}

bool apply_changed(const OpRunner& run, const Linear& linear, const TensorView& out, const TensorView& x) {
  const std::span<const LowRankGroup> changes = changes_of(run, linear, x.rows());
  if (changes.empty()) return false;
  run(ops::Linear{.out = out, .x = x, .w = without_gate(linear.weight)});
  add_changes(run, changes, out, x);
  return true;
}

LinearGroup::Piece& LinearGroup::piece_for(std::vector<Piece>& pieces, int64_t begin, const PackedLinear& w) {
  for (Piece& piece : pieces) {
    const PackedLinear& other = *first_matrix(piece.matrices);
    if (piece.begin == begin && other.n == w.n && other.k == w.k && other.gate == w.gate) return piece;
  }
  return pieces.emplace_back(Piece{.begin = begin, .matrices = {}});
}

void LinearGroup::place(std::vector<Piece>& pieces, int64_t begin, const PackedLinear& w) {
  Piece& piece = piece_for(pieces, begin, w);
  piece.matrices.resize(static_cast<size_t>(size_));
  piece.matrices.push_back(&w);
}

void LinearGroup::add(const Linear& linear) {
  int64_t begin = 0;
  const auto add_matrix = [&](const PackedLinear& w) {
    place(pieces_, begin, w);
    if (w.gate) place(plain_pieces_, begin, plain_.emplace_back(without_gate(w)));
    begin += w.out_columns();
  };
  add_matrix(linear.weight);
  for (const PackedLinear& w : linear.more) add_matrix(w);
  sites_.push_back(linear.site);
  ++size_;
  for (auto* pieces : {&pieces_, &plain_pieces_}) {
    for (Piece& piece : *pieces) piece.matrices.resize(static_cast<size_t>(size_));
  }
}

void LinearGroup::multiply_grouped(const OpRunner& run, std::span<const Piece> pieces, const TensorView& out,
                                   const TensorView& x, const GroupedTerms& terms) const {
  for (const Piece& piece : pieces) {
    const int64_t end = piece.begin + first_matrix(piece.matrices)->out_columns();
    run(ops::GroupedLinear{.out = column_slice(out, piece.begin, end),
                           .x = x,
                           .matrices = piece.matrices,
                           .offsets = terms.offsets,
                           .rows = terms.by_row ? terms.rows : std::span<const int32_t>()});
  }
}

std::span<const LowRankExpertsGroup> LinearGroup::changes_of(const OpRunner& run,
                                                             const GroupedTerms& terms) const {
  if (run.adapters == nullptr) return {};
  return groups_at(*run.adapters, sites_, terms.num_rows);
}

void LinearGroup::add_changes(const OpRunner& run, std::span<const LowRankExpertsGroup> changes,
                              const TensorView& out, const TensorView& x, const GroupedTerms& terms) const {
  if (changes.empty()) return;
  run(ops::AddLowRankExperts{.out = out,
                             .x = x,
                             .groups = changes,
                             .sites = sites_,
                             .offsets = terms.offsets,
                             .rows = terms.rows,
                             .num_rows = terms.num_rows,
                             .first_row = run.adapters->first_row,
                             .by_row = terms.by_row});
}

void LinearGroup::apply_grouped(const OpRunner& run, const TensorView& out, const TensorView& x,
                                const GroupedTerms& terms) const {
  multiply_grouped(run, pieces_, out, x, terms);
  add_changes(run, changes_of(run, terms), out, x, terms);
}

bool LinearGroup::apply_changed_grouped(const OpRunner& run, const TensorView& out, const TensorView& x,
                                        const GroupedTerms& terms) const {
  const std::span<const LowRankExpertsGroup> changes = changes_of(run, terms);
  if (changes.empty()) return false;
  multiply_grouped(run, plain_pieces_.empty() ? pieces_ : plain_pieces_, out, x, terms);
  add_changes(run, changes, out, x, terms);
  return true;
}

void LinearGroup::apply_batched(const OpRunner& run, const TensorView& out, const TensorView& x) const {
  const Piece& all = pieces_.front();
  run(ops::BatchedLinear{.out = out, .x = x, .matrices = all.matrices});
  if (run.adapters == nullptr) return;
  const PackedLinear& w = *first_matrix(all.matrices);
  for (size_t i = 0; i < sites_.size(); ++i) {
    if (sites_[i] < 0) continue;
    const auto part = static_cast<int64_t>(i);
    quire::add_changes(run, groups_at(*run.adapters, sites_[i], x.rows()),
                       column_slice(out, part * w.n, (part + 1) * w.n),
                       column_slice(x, part * w.k, (part + 1) * w.k));
  }
}

void apply(const OpRunner& run, const Embedding& embedding, const TensorView& out,
           std::span<const int32_t> ids) {
  const MatrixRuns runs(run.adapters, &AdapterWeights::tables, embedding.site, out.rows());
  if (runs.any()) {
    for (MatrixRun rows; runs.next(rows);) {
      const auto own =
          ids.subspan(static_cast<size_t>(rows.begin), static_cast<size_t>(rows.end - rows.begin));
      look_up(run, embedding, rows.own == nullptr ? embedding.packed : &rows.own->weight, rows_of(out, rows),
              own);
    }
  } else {
    look_up(run, embedding, embedding.packed, out, ids);
  }
  if (run.adapters == nullptr || embedding.site < 0) return;
  const std::span<const EmbeddingGroup> changes =
      embedding_groups_at(*run.adapters, embedding.site, out.rows());
  if (!changes.empty())
    run(ops::AddEmbeddingChanges{
        .out = out, .ids = ids, .groups = changes, .first_row = run.adapters->first_row});
  const auto tokens =
      token_groups_at(*run.adapters, &AdapterWeights::input_tokens, embedding.site, out.rows());
  if (!tokens.empty())
    run(ops::ReplaceEmbeddings{
        .out = out, .ids = ids, .groups = tokens, .first_row = run.adapters->first_row});
}

void apply(const OpRunner& run, const Norm& norm, const TensorView& out, const TensorView& x) {
  const NormRuns runs(run.adapters, &AdapterWeights::norms, norm.site, x.rows());
  if (!runs.any()) return normalize(run, norm, norm.weight, norm.bias, out, x);
  for (NormRun rows; runs.next(rows);) {
    const bool own_weight = rows.own != nullptr && rows.own->weight.size() > 0;
    const bool own_bias = rows.own != nullptr && rows.own->bias.size() > 0;
    normalize(run, norm, own_weight ? rows.own->weight : norm.weight, own_bias ? rows.own->bias : norm.bias,
              rows_of(out, rows), rows_of(x, rows));
  }
}

void apply_each(const OpRunner& run, const Norm& norm, const TensorView& x) {
  if (x.row_size() == norm.size) return apply(run, norm, x, x);
  for (int64_t begin = 0; begin < x.row_size(); begin += norm.size) {
    const TensorView head = column_slice(x, begin, begin + norm.size);
    auto* weights = const_cast<float*>(norm.weight.as<float>()) + begin;
    const TensorView weight = make_view(weights, DType::kF32, Shape{norm.size});
    if (norm.kind == NormKind::kRms) {
      run(ops::RmsNorm{
          .out = head, .x = head, .weight = weight, .eps = norm.eps, .weight_offset = norm.weight_offset});
    } else {
      run(ops::LayerNorm{.out = head, .x = head, .weight = weight, .eps = norm.eps});
    }
  }
}

void apply(const OpRunner& run, const ResidualAdd& join, const TensorView& hidden, const TensorView& branch) {
  if (join.norm && !join.norm_sum) apply(run, *join.norm, branch, branch);
  if (join.multiplier != 1.0F) run(ops::ScaleSoftcap{.x = branch, .scale = join.multiplier});
  if (join.residual != 1.0F) run(ops::ScaleSoftcap{.x = hidden, .scale = join.residual});
  run(ops::Add{.x = hidden, .y = branch});
  finish(run, join, hidden);
}

void finish(const OpRunner& run, const ResidualAdd& join, const TensorView& hidden) {
  if (join.norm_sum) apply(run, *join.norm, hidden, hidden);
}

}  // namespace quire
