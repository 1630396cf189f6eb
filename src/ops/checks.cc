#include "ops/checks.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/error.h"
#include "ops/outliers.h"
#include "quant/codec.h"
#include "quant/coded_layout.h"

namespace quire {
namespace {

std::string describe(const char* name, const TensorView& t) {
  return std::string(name) + " " + t.shape.to_string() + " " + std::string(dtype_name(t.dtype));
}

void require(bool ok, const char* op, const char* rule, const std::string& shapes) {
  if (!ok) throw Error(std::string(op) + ": " + rule + "; got " + shapes);
}

// one_row: an input whose rows may all be the same one.
void require_f32(const char* op, const char* name, const TensorView& t, bool one_row = false) {
  require(t.data != nullptr && t.dtype == DType::kF32, op, "a float32 tensor is needed", describe(name, t));
  const bool repeated = one_row && t.row_stride == 0;
  require(t.rows() <= 1 || repeated || t.row_stride >= t.row_size(), op, "rows must not overlap",
          describe(name, t) + " with a row stride of " + std::to_string(t.row_stride));
}

void require_ids(const char* op, std::span<const int32_t> ids, int64_t rows) {
  for (const int32_t id : ids) {
    require(id >= 0 && id < rows, op, "an index must lie inside the table",
            std::to_string(id) + " of " + std::to_string(rows));
  }
}

}  // namespace

bool can_gate(const PackedLinear& w) {
  constexpr int64_t kColumns = 32;  // of a panel of any table
  return w.n % (2 * kColumns) == 0 && w.outliers.size() == 0 && w.format.outlier_threshold == 0.0F;
}

void check_linear(const TensorView& out, const TensorView& x, const PackedLinear& w,
                  const TensorView& residual) {
  const std::string shapes = describe("out", out) + ", " + describe("x", x) + ", w [" + std::to_string(w.n) +
                             ", " + std::to_string(w.k) + "]";
  require_f32("linear", "out", out);
  require_f32("linear", "x", x);
  require(x.row_size() == w.k, "linear", "x must have w's k columns", shapes);
  require(out.row_size() == w.out_columns() && out.rows() == x.rows(), "linear",
          w.gate ? "out must be [rows of x, half of n of w]" : "out must be [rows of x, n of w]", shapes);
  require(!w.gate || (can_gate(w) && residual.data == nullptr), "linear",
          "a gated w has whole panels of gates, no outliers and no residual", shapes);
  require(w.bias.size() == 0 || w.bias.size() == static_cast<size_t>(w.n) * sizeof(float), "linear",
          "the bias must have n elements", shapes + ", bias of " + std::to_string(w.bias.size()) + " bytes");
  if (residual.data == nullptr) return;
  require_f32("linear", "residual", residual);
  require(residual.rows() == out.rows() && residual.row_size() == out.row_size(), "linear",
          "the residual must have out's shape", shapes + ", " + describe("residual", residual));
}

void check_embedding(const TensorView& out, const TensorView& table, std::span<const int32_t> ids) {
  const std::string shapes =
      describe("out", out) + ", " + describe("table", table) + ", ids [" + std::to_string(ids.size()) + "]";
  require_f32("embedding", "out", out);
  require(is_storage_dtype(table.dtype), "embedding", "the table must be float32, bfloat16 or float16",
          shapes);
  require(table.shape.rank() == 2 && out.row_size() == table.shape[1] &&
              out.rows() == static_cast<int64_t>(ids.size()),
          "embedding", "out must be [ids, columns of the table]", shapes);
  require_ids("embedding", ids, table.rows());
}

void check_embedding_packed(const TensorView& out, const PackedLinear& table, std::span<const int32_t> ids) {
  require_f32("embedding", "out", out);
  require(!table.format.two_of_four, "embedding", "the table must have all its weights", "two of four");
  require(out.row_size() == table.k && out.rows() == static_cast<int64_t>(ids.size()), "embedding",
          "out must be [ids, columns of the table]",
          describe("out", out) + ", table [" + std::to_string(table.n) + ", " + std::to_string(table.k) +
              "], ids [" + std::to_string(ids.size()) + "]");
  require_ids("embedding", ids, table.n);
}

void check_norm(const TensorView& out, const TensorView& x, const TensorView& weight,
                const TensorView& bias) {
  require_f32("norm", "out", out);
  require_f32("norm", "x", x);
  require_f32("norm", "weight", weight);
  const std::string shapes =
      describe("out", out) + ", " + describe("x", x) + ", " + describe("weight", weight);
  require(weight.shape.rank() == 1 && weight.shape[0] > 0 && x.shape.rank() > 1 &&
              x.shape[x.shape.rank() - 1] == weight.shape[0],
          "norm", "the weight must have x's last dimension", shapes);
  require(out.shape == x.shape, "norm", "out must have x's shape", shapes);
  if (bias.data == nullptr) return;
  require_f32("norm", "bias", bias);
  require(bias.shape == weight.shape, "norm", "the bias must have the weight's shape",
          shapes + ", " + describe("bias", bias));
}

void check_rope(const TensorView& x, std::span<const int32_t> positions, const TensorView& cos_sin) {
  require_f32("rope", "x", x);
  require_f32("rope", "cos_sin", cos_sin);
  const std::string shapes = describe("x", x) + ", " + describe("cos_sin", cos_sin);
  require(x.shape.rank() == 3 && cos_sin.shape.rank() == 2, "rope",
          "x [rows, heads, head_dim] and cos_sin [positions, "
          "rotary_dim] are needed",
          shapes);
  require(cos_sin.shape[1] % 2 == 0 && cos_sin.shape[1] <= x.shape[2], "rope",
          "rotary_dim must be even and at most head_dim", shapes);
  require(static_cast<int64_t>(positions.size()) == x.rows(), "rope", "each row needs one position",
          shapes + ", positions [" + std::to_string(positions.size()) + "]");
  require_ids("rope", positions, cos_sin.rows());
}

namespace {

void check_cache(const char* op, const KvCacheView& cache) {
  require(
      cache.base != nullptr && is_kv_dtype(cache.dtype) && cache.block_size > 0 && cache.num_kv_heads > 0 &&
          cache.head_dim > 0 && cache.value_dim >= 0 && cache.value_dim <= cache.head_dim,
      op,
      "the KV cache needs memory, one of its number formats, positive sizes and values no larger than keys",
      "block_size " + std::to_string(cache.block_size) + ", num_kv_heads " +
          std::to_string(cache.num_kv_heads) + ", head_dim " + std::to_string(cache.head_dim) +
          ", value_dim " + std::to_string(cache.value_dim));
}

void check_shared(const AttentionBatch& batch) {
  if (batch.shared_order.empty() && batch.shared_blocks.empty()) return;
  const auto seqs = static_cast<size_t>(batch.num_seqs);
  require(batch.shared_order.size() == seqs && batch.shared_blocks.size() == seqs, "paged_attention",
          "shared prefixes must be given for all sequences or none",
          std::to_string(batch.shared_order.size()) + " of " + std::to_string(seqs));
  int64_t sum = 0;
  for (const int32_t s : batch.shared_order) {
    require_ids("paged_attention", {&s, 1}, batch.num_seqs);
    sum += s;
  }
  require(sum == int64_t{batch.num_seqs} * (batch.num_seqs - 1) / 2, "paged_attention",
          "the order of shared prefixes must name each sequence once", "a sum of " + std::to_string(sum));
  for (size_t i = 0; i < seqs; ++i) {
    const int32_t blocks = batch.shared_blocks[i];
    bool same = blocks >= 0 && (blocks == 0 || i + 1 < seqs);
    for (int32_t b = 0; same && b < blocks; ++b) {
      const auto a =
          static_cast<size_t>(batch.block_table_indptr[static_cast<size_t>(batch.shared_order[i])] + b);
      const auto c =
          static_cast<size_t>(batch.block_table_indptr[static_cast<size_t>(batch.shared_order[i + 1])] + b);
      same = a < batch.block_table.size() && c < batch.block_table.size() &&
             batch.block_table[a] == batch.block_table[c];
    }
    require(same, "paged_attention", "blocks said to be shared must be the same",
            std::to_string(blocks) + " blocks of sequence " + std::to_string(batch.shared_order[i]));
  }
}

}  // namespace

void check_kv_write(const KvCacheView& cache, const TensorView& k, const TensorView& v,
                    std::span<const int64_t> slot_mapping) {
  check_cache("kv_write", cache);
  require_f32("kv_write", "k", k);
  const bool values = v.data != nullptr;
  if (values) require_f32("kv_write", "v", v);
  const std::string shapes =
      describe("k", k) + ", " + describe("v", v) + ", slots [" + std::to_string(slot_mapping.size()) + "]";
  require(k.row_size() == int64_t{cache.num_kv_heads} * cache.head_dim &&
              (!values || v.row_size() == int64_t{cache.num_kv_heads} * cache.value_size()),
          "kv_write", "k must be [rows, num_kv_heads, head_dim], v [rows, num_kv_heads, value_dim]", shapes);
  require(!values || !cache.values_in_keys, "kv_write",
          "where values lie in keys there is no other place for them", shapes);
  require((!values || v.rows() == k.rows()) && static_cast<int64_t>(slot_mapping.size()) == k.rows(),
          "kv_write", "k, v and the slots must have the same number of rows", shapes);
}

namespace {

// Of ops that choose keys by queries q.
void check_choice(const char* op, const KeyMask& chosen, const TensorView& q, const KvCacheView& keys,
                  const AttentionBatch& batch, int32_t count, int32_t tokens = 1) {
  check_cache(op, keys);
  require_f32(op, "q", q);
  require(keys.num_kv_heads == 1 && q.shape.rank() == 3 && q.shape[2] == keys.head_dim &&
              keys.head_dim <= kMaxChoosingHead,
          op, "q must be [rows, heads, head_dim of the one key head]", describe("q", q));
  require(tokens > 0, op, "a key must stand for some tokens", std::to_string(tokens));
  const int32_t longest =
      batch.num_seqs == 0 ? 0 : *std::max_element(batch.seq_lens.begin(), batch.seq_lens.end()) / tokens;
  require(count > 0 && chosen.words != nullptr && chosen.stride * 64 >= longest, op,
          "a row's bits must reach the last key, and some are to be set",
          std::to_string(chosen.stride) + " words, " + std::to_string(longest) + " keys, count " +
              std::to_string(count));
}

}  // namespace

void check_choose_keys(const KeyMask& chosen, const TensorView& q, const TensorView& weights,
                       const KvCacheView& keys, const AttentionBatch& batch, int32_t count, int32_t tokens) {
  check_choice("choose_keys", chosen, q, keys, batch, count, tokens);
  require_f32("choose_keys", "weights", weights);
  require(weights.rows() == q.rows() && weights.row_size() == q.shape[1], "choose_keys",
          "weights must be [rows, heads]", describe("q", q) + ", " + describe("weights", weights));
}

void check_choose_blocks(const KeyMask& chosen, const TensorView& q, const KvCacheView& keys,
                         const AttentionBatch& batch, const KeyBlocks& blocks) {
  check_choice("choose_blocks", chosen, q, keys, batch, blocks.count);
  require(blocks.size > 0 && blocks.size % 16 == 0 && blocks.local >= 0 && blocks.local <= blocks.count,
          "choose_blocks", "blocks are of a multiple of 16 positions, and no more are local than are chosen",
          std::to_string(blocks.size) + " positions, " + std::to_string(blocks.local) + " of " +
              std::to_string(blocks.count));
  require(chosen.heads == q.shape[1], "choose_blocks", "each head has bits of its own",
          std::to_string(chosen.heads) + " of " + std::to_string(q.shape[1]));
}

void check_paged_attention(const TensorView& out, const TensorView& q, const KvCacheView& cache,
                           const AttentionBatch& batch) {
  check_cache("paged_attention", cache);
  require_f32("paged_attention", "out", out);
  require_f32("paged_attention", "q", q);
  const std::string shapes = describe("out", out) + ", " + describe("q", q) + ", num_kv_heads " +
                             std::to_string(cache.num_kv_heads) + ", head_dim " +
                             std::to_string(cache.head_dim);
  require(q.shape.rank() == 3 && q.shape[2] == cache.head_dim && q.shape[1] % cache.num_kv_heads == 0,
          "paged_attention", "q must be [rows, a multiple of num_kv_heads, head_dim]", shapes);
  require(out.rows() == q.rows() && out.row_size() == q.shape[1] * cache.value_size(), "paged_attention",
          "out must be [rows, num_heads, value_dim]", shapes);
  const auto seqs = static_cast<size_t>(batch.num_seqs);
  require(batch.num_seqs >= 0 && batch.cu_seqlens_q.size() == seqs + 1 && batch.seq_lens.size() == seqs &&
              batch.block_table_indptr.size() == seqs + 1 && batch.cu_seqlens_q[0] == 0 &&
              batch.cu_seqlens_q[seqs] == q.rows(),
          "paged_attention", "the batch's arrays must fit its number of sequences and q's rows",
          shapes + ", num_seqs " + std::to_string(batch.num_seqs));
  for (size_t s = 0; s < seqs; ++s) {
    const int64_t rows = int64_t{batch.cu_seqlens_q[s + 1]} - batch.cu_seqlens_q[s];
    const int64_t blocks = int64_t{batch.block_table_indptr[s + 1]} - batch.block_table_indptr[s];
    require(rows >= 0 && rows <= batch.seq_lens[s] && blocks * cache.block_size >= batch.seq_lens[s] &&
                batch.block_table_indptr[s] >= 0 &&
                static_cast<size_t>(batch.block_table_indptr[s + 1]) <= batch.block_table.size(),
            "paged_attention", "a sequence's blocks must hold its tokens, and its rows be among them",
            "sequence " + std::to_string(s) + " of " + std::to_string(batch.seq_lens[s]) + " tokens, " +
                std::to_string(rows) + " rows, " + std::to_string(blocks) + " blocks of " +
                std::to_string(cache.block_size));
  }
  check_shared(batch);
}

void check_relative_attention(const TensorView& out, const TensorView& q, const TensorView& k,
                              const TensorView& v, const AttentionBatch& batch,
                              const RelativeParams& params) {
  const std::string shapes =
      describe("out", out) + ", " + describe("q", q) + ", " + describe("k", k) + ", " + describe("v", v);
  for (const auto& [name, view] : {std::pair{"out", &out}, {"q", &q}, {"k", &k}, {"v", &v}})
    require_f32("relative_attention", name, *view);
  require(q.shape.rank() == 3 && q.shape[2] <= kMaxRelativeHead && out.shape == q.shape &&
              k.shape == q.shape && v.shape == q.shape,
          "relative_attention", "out, q, k and v must be [rows, num_heads, head_dim]", shapes);
  const auto seqs = static_cast<size_t>(batch.num_seqs);
  require(batch.cu_seqlens_q.size() == seqs + 1 && batch.cu_seqlens_q.front() == 0 &&
              batch.cu_seqlens_q.back() == q.rows() &&
              std::is_sorted(batch.cu_seqlens_q.begin(), batch.cu_seqlens_q.end()),
          "relative_attention", "the sequences' rows must follow each other up to the last row", shapes);
  require(params.buckets.size() % 2 == 1, "relative_attention",
          "there must be a bucket for each distance from -reach to reach",
          std::to_string(params.buckets.size()) + " buckets");
  for (const int32_t bucket : params.buckets) {
    require(bucket >= 0 && bucket < params.num_buckets, "relative_attention", "there must be such a bucket",
            std::to_string(bucket) + " of " + std::to_string(params.num_buckets));
  }
}

void check_gated_activation(const TensorView& out, const TensorView& gate_up) {
  require_f32("gated_activation", "out", out);
  require_f32("gated_activation", "gate_up", gate_up);
  require(out.rows() == gate_up.rows() && gate_up.row_size() == 2 * out.row_size(), "gated_activation",
          "gate_up must have twice out's columns",
          describe("out", out) + ", " + describe("gate_up", gate_up));
}

void check_route_experts(std::span<const int32_t> ids, const TensorView& weights, const TensorView& logits,
                         const RouterParams& params) {
  const std::string shapes = describe("weights", weights) + ", " + describe("logits", logits) + ", ids [" +
                             std::to_string(ids.size()) + "], " + std::to_string(params.num_chosen) +
                             " chosen of " + std::to_string(params.chosen_groups) + " of " +
                             std::to_string(params.num_groups) + " groups";
  require_f32("route_experts", "weights", weights);
  require_f32("route_experts", "logits", logits);
  const int64_t experts = logits.row_size();
  require(experts > 0 && experts <= kMaxExperts && params.num_groups > 0 && params.chosen_groups > 0 &&
              params.chosen_groups <= params.num_groups && experts % params.num_groups == 0,
          "route_experts", "experts must be whole groups, and not too many", shapes);
  require(params.num_chosen > 0 && params.num_chosen <= experts / params.num_groups * params.chosen_groups,
          "route_experts", "the groups must hold the experts to choose", shapes);
  require(weights.rows() == logits.rows() && weights.row_size() == params.num_chosen &&
              static_cast<int64_t>(ids.size()) == logits.rows() * params.num_chosen,
          "route_experts", "each row needs a place for each expert it chooses", shapes);
}

void check_combine_rows(const TensorView& out, const TensorView& y, std::span<const int32_t> places,
                        const TensorView& weights, const TensorView& residual) {
  const std::string shapes = describe("out", out) + ", " + describe("y", y) + ", " +
                             describe("weights", weights) + ", places [" + std::to_string(places.size()) +
                             "]";
  require_f32("combine_rows", "out", out);
  require_f32("combine_rows", "y", y);
  require_f32("combine_rows", "weights", weights);
  require(out.row_size() == y.row_size() && weights.rows() == out.rows() &&
              static_cast<int64_t>(places.size()) == weights.rows() * weights.row_size(),
          "combine_rows", "out must have y's columns, and weights and places a row for each of its rows",
          shapes);
  require_ids("combine_rows", places, y.rows());
  if (residual.data == nullptr) return;
  require_f32("combine_rows", "residual", residual);
  require(residual.rows() == out.rows() && residual.row_size() == out.row_size(), "combine_rows",
          "the residual must have out's shape", shapes + ", " + describe("residual", residual));
}

namespace {

// The sequences' rows are `rows` rows, and each has its part of the pool.
void require_states(const char* op, const StateBatch& batch, const StateView& state, int64_t rows,
                    int64_t parts) {
  const auto seqs = static_cast<size_t>(batch.num_seqs);
  const std::string sizes = std::to_string(seqs) + " sequences, " + std::to_string(batch.cu_rows.size()) +
                            " bounds, " + std::to_string(batch.positions.size()) + " positions, " +
                            std::to_string(batch.blocks.size()) + " blocks";
  require(batch.cu_rows.size() == seqs + 1 && batch.positions.size() == seqs &&
              batch.blocks.size() == seqs * static_cast<size_t>(batch.blocks_each),
          op, "the arrays of the sequences must fit their number", sizes);
  require(batch.cu_rows.front() == 0 && batch.cu_rows.back() == rows &&
              std::is_sorted(batch.cu_rows.begin(), batch.cu_rows.end()),
          op, "the sequences' rows must follow each other up to the last row", sizes);
  require(state.base != nullptr && static_cast<int64_t>(state.places.size()) == parts, op,
          "the state must have the parts that are needed",
          std::to_string(state.places.size()) + " of " + std::to_string(parts));
  for (const StatePlace& place : state.places) {
    require(
        place.block >= 0 && place.block < batch.blocks_each && place.offset >= 0 && place.offset % 64 == 0,
        op, "a part must lie in one of a sequence's blocks",
        "block " + std::to_string(place.block) + " of " + std::to_string(batch.blocks_each) + ", byte " +
            std::to_string(place.offset));
  }
}

}  // namespace

void check_stream_shares(const TensorView& in, const TensorView& out, const TensorView& scores,
                         const TensorView& base, const TensorView& scale) {
  const std::string shapes = describe("in", in) + ", " + describe("out", out) + ", " +
                             describe("scores", scores) + ", " + describe("base", base) + ", " +
                             describe("scale", scale);
  require_f32("stream_shares", "in", in);
  require_f32("stream_shares", "scores", scores);
  const bool mixes = out.data != nullptr;
  const int64_t s = in.row_size();
  require(s >= 1 && s <= kMaxStreams && scores.row_size() == (mixes ? s * (s + 2) : s) &&
              base.shape.numel() == scores.row_size() && scale.shape.numel() == (mixes ? 3 : 1),
          "stream_shares", "there must be a score and a base for each number that is made of them", shapes);
  require(
      scores.rows() == in.rows() && (!mixes || (out.rows() == in.rows() && out.row_size() == s * (s + 1))),
      "stream_shares", "all must have a row for each row of in", shapes);
}

void check_compress(const TensorView& out, const TensorView& values, const TensorView& gates,
                    const TensorView& bias, const StateBatch& batch, const StateView& state) {
  const std::string shapes = describe("out", out) + ", " + describe("values", values) + ", " +
                             describe("gates", gates) + ", " + describe("bias", bias);
  for (const TensorView& x : {out, values, gates, bias}) require_f32("compress", "what is given", x);
  const int64_t d = out.row_size();
  require((values.row_size() == d || values.row_size() == 2 * d) && gates.row_size() == values.row_size() &&
              bias.row_size() == values.row_size() && bias.rows() >= 1,
          "compress", "values, gates and bias must have out's columns, or twice as many", shapes);
  require(values.rows() == out.rows() && gates.rows() == out.rows(), "compress",
          "out, values and gates must have the same number of rows", shapes);
  require_states("compress", batch, state, out.rows(), 1);
}

void check_causal_conv(const TensorView& x, const TensorView& weight, const TensorView& bias,
                       const StateBatch& batch, const StateView& state) {
  const std::string shapes =
      describe("x", x) + ", " + describe("weight", weight) + ", " + describe("bias", bias);
  require_f32("causal_conv", "x", x);
  require_f32("causal_conv", "weight", weight);
  require(weight.row_size() == x.row_size() && weight.rows() >= 1 && weight.rows() <= kMaxConvTaps,
          "causal_conv", "the weight must be [1 to 8 taps, columns of x]", shapes);
  require(bias.data == nullptr || bias.shape.numel() == x.row_size(), "causal_conv",
          "the bias must have x's columns", shapes);
  require_states("causal_conv", batch, state, x.rows(), 1);
}

void check_ssm_scan(const TensorView& out, const TensorView& x, const TensorView& b, const TensorView& c,
                    const TensorView& decay, const TensorView& step, const TensorView& skip,
                    const StateBatch& batch, const StateView& state) {
  const std::string shapes = describe("out", out) + ", " + describe("x", x) + ", " + describe("b", b) + ", " +
                             describe("c", c) + ", " + describe("decay", decay) + ", " +
                             describe("step", step) + ", " + describe("skip", skip);
  for (const auto& [name, view] : {std::pair{"out", &out}, {"x", &x}, {"b", &b}, {"c", &c}, {"skip", &skip}})
    require_f32("ssm_scan", name, *view);
  require_f32("ssm_scan", "decay", decay, true);
  require_f32("ssm_scan", "step", step, true);
  require(x.shape.rank() == 3 && out.shape == x.shape, "ssm_scan", "x and out must be [rows, heads, p]",
          shapes);
  require(b.shape.rank() == 3 && c.shape == b.shape && b.rows() == x.rows() && b.shape[1] > 0 &&
              x.shape[1] % b.shape[1] == 0,
          "ssm_scan", "b and c must be [rows, groups that divide the heads, n]", shapes);
  require(decay.rows() == x.rows() && decay.row_size() == x.shape[1] && step.shape == decay.shape &&
              skip.shape.numel() == x.shape[1],
          "ssm_scan", "decay and step must be [rows, heads], skip [heads]", shapes);
  require_states("ssm_scan", batch, state, x.rows(), x.shape[1]);
}

void check_selective_scan(const TensorView& out, const TensorView& x, const TensorView& step,
                          const TensorView& b, const TensorView& c, const TensorView& rate,
                          const TensorView& skip, const StateBatch& batch, const StateView& state) {
  const std::string shapes = describe("out", out) + ", " + describe("x", x) + ", " + describe("step", step) +
                             ", " + describe("b", b) + ", " + describe("c", c) + ", " +
                             describe("rate", rate) + ", " + describe("skip", skip);
  for (const auto& [name, view] : {std::pair{"out", &out},
                                   {"x", &x},
                                   {"step", &step},
                                   {"b", &b},
                                   {"c", &c},
                                   {"rate", &rate},
                                   {"skip", &skip}})
    require_f32("selective_scan", name, *view);
  require(x.shape.rank() == 2 && out.shape == x.shape && step.shape == x.shape, "selective_scan",
          "x, step and out must be [rows, channels]", shapes);
  require(b.shape.rank() == 2 && c.shape == b.shape && b.rows() == x.rows(), "selective_scan",
          "b and c must be [rows, n]", shapes);
  require(
      rate.rows() == b.row_size() && rate.row_size() == x.row_size() && skip.shape.numel() == x.row_size(),
      "selective_scan", "rate must be [n, channels], skip [channels]", shapes);
  require_states("selective_scan", batch, state, x.rows(), (x.row_size() + kScanPanel - 1) / kScanPanel);
}

void check_delta_rule(const TensorView& out, const TensorView& q, const TensorView& k, const TensorView& v,
                      const TensorView& decay, const TensorView& beta, const StateBatch& batch,
                      const StateView& state) {
  const std::string shapes = describe("out", out) + ", " + describe("q", q) + ", " + describe("k", k) + ", " +
                             describe("v", v) + ", " + describe("decay", decay) + ", " +
                             describe("beta", beta);
  for (const auto& [name, view] :
       {std::pair{"out", &out}, {"q", &q}, {"k", &k}, {"v", &v}, {"decay", &decay}, {"beta", &beta}})
    require_f32("delta_rule", name, *view);
  require(v.shape.rank() == 3 && out.shape == v.shape, "delta_rule", "v and out must be [rows, heads, v]",
          shapes);
  require(q.shape.rank() == 3 && k.shape == q.shape && k.rows() == v.rows() && k.shape[1] > 0 &&
              v.shape[1] % k.shape[1] == 0,
          "delta_rule", "q and k must be [rows, key heads that divide the heads, k]", shapes);
  require(beta.rows() == v.rows() && beta.row_size() == v.shape[1] && decay.rows() == v.rows() &&
              (decay.row_size() == v.shape[1] || decay.row_size() == v.shape[1] * k.shape[2]),
          "delta_rule", "beta must be [rows, heads], decay too or [rows, heads * k]", shapes);
  require_states("delta_rule", batch, state, v.rows(), v.shape[1]);
}

PackedLinear make_packed(std::span<const TensorView> parts, WeightFormat format,
                         decltype(OpTable::packed_bytes) packed_bytes) {
  require(!parts.empty(), "pack_linear", "a matrix is needed", "none");
  check_weight_format(format);
  PackedLinear packed;
  packed.format = format;
  packed.k = parts[0].row_size();
  for (const TensorView& part : parts) {
    require(part.shape.rank() == 2 && part.rows() > 0 && part.row_size() == packed.k && packed.k > 0,
            "pack_linear", "the parts must be matrices with the same number of columns",
            describe("first", parts[0]) + ", " + describe("part", part));
    require(part.data != nullptr && is_storage_dtype(part.dtype), "pack_linear",
            "weights are read as float32, bfloat16 or float16", describe("part", part));
    packed.n += part.rows();
  }
  // Floats, and whole numbers with their scales, take less than eight bytes each, short rows aside.
  require(packed.n <= std::numeric_limits<int64_t>::max() / 16 / (packed.k + 64), "pack_linear",
          "the matrix is too large", std::to_string(packed.n) + " x " + std::to_string(packed.k));
  packed.data = Buffer(static_cast<size_t>(packed_bytes(format, packed.n, packed.k)));
  return packed;
}

PackedLinear make_packed_coded(std::span<const CodedMatrix* const> parts) {
  require(!parts.empty(), "pack_coded", "a matrix is needed", "none");
  const CodedMatrix& first = *parts[0];
  check_coded_format(first.format());
  PackedLinear packed;
  packed.format = {.dtype = DType::kU8, .coded = first.format()};
  packed.k = first.cols();
  const auto order = first.column_order();
  for (const CodedMatrix* part : parts) {
    const auto own = part->column_order();
    require(part->rows() > 0 && packed.k > 0 && part->cols() == packed.k &&
                part->format() == first.format() && std::ranges::equal(own, order),
            "pack_coded", "the parts must have one format, number of columns and order of columns",
            "[" + std::to_string(first.rows()) + ", " + std::to_string(packed.k) + "] and [" +
                std::to_string(part->rows()) + ", " + std::to_string(part->cols()) + "]");
    packed.n += part->rows();
  }
  // A code takes a byte at most, and a group of eight of them less than twelve bytes more.
  require(packed.n <= std::numeric_limits<int64_t>::max() / 8 / (packed.k + 64), "pack_coded",
          "the matrix is too large", std::to_string(packed.n) + " x " + std::to_string(packed.k));
  if (!order.empty()) {
    require(static_cast<int64_t>(order.size()) == packed.k, "pack_coded", "each column needs its place",
            std::to_string(order.size()) + " of " + std::to_string(packed.k));
    require_ids("pack_coded", order, packed.k);
    packed.column_order = Buffer(order.size_bytes());
    std::memcpy(packed.column_order.data(), order.data(), order.size_bytes());
  }
  pack_outliers(parts, packed);
  const CodedLayout at(first.format(), packed.k);
  packed.data = Buffer(static_cast<size_t>(at.num_panels(packed.n) * at.panel_bytes));
  return packed;
}

}  // namespace quire
