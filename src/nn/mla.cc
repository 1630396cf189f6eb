// Multi-head latent attention (MLA; DeepSeek-V2, arXiv 2405.04434). The cache holds one latent vector per
// token and one rotary key, from which the keys and values of all heads are projected. Instead of these
// projections, W_UK is applied to the queries and W_UV to the result (absorbed weights).
#include "nn/mla_spec.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/indexer.h"
#include "nn/mixer.h"

namespace quire {
namespace {

// The cache has one key head of cache_dim() dimensions, the last kv_lora_rank of which are also its value. If
// the layer has an indexer, the indexer's keys follow.
struct Mla final : Mixer {
  MlaSpec spec;
  std::optional<Linear> q_a_proj;  // [q_lora_rank, hidden]
  std::optional<Norm> q_a_norm;
  Linear q_proj;                   // [num_heads query_dim, q_lora_rank or hidden]
  Linear kv_a_proj;                // [cached, hidden]: kv_a_proj_with_mqa with the rotary dimensions first
  Norm kv_a_norm;                  // over the latent vector
  std::vector<Linear> w_uk;        // [num_heads] of [cached, query_dim]: W_UK and, for rotary dimensions, 1
  std::vector<Linear> w_uv;        // [num_heads] of [v_head_dim, kv_lora_rank]: W_UV
  LinearGroup w_uk_group;          // w_uk
  LinearGroup w_uv_group;          // w_uv
  std::optional<Linear> gate;      // [num_heads, hidden]: each head is multiplied by the sigmoid of its gate
  Linear o_proj;                   // [hidden, num_heads v_head_dim]
  std::optional<Indexer> indexer;  // nullopt = the keys that an earlier layer selected

  explicit Mla(const MlaSpec& settings) : spec(settings) {}
  void visit(const InputSpec& x, ParamVisitor& visitor) override;
  void forward(const OpRunner& run, const MixerArgs& args) const override;
  void count_scratch(ScratchLayout& layout) const override;
  void visit_heads(ParamVisitor& visitor);
};

struct MlaScratch {
  const MlaSpec& spec;
  ScratchLayout layout;
  int64_t num_heads = spec.num_heads;
  TensorView query_down = layout.matrix(spec.q_lora_rank);
  TensorView query = layout.matrix(num_heads * spec.query_dim());
  TensorView latent = layout.matrix(spec.cache_dim());
  TensorView absorbed = layout.matrix(num_heads * spec.cache_dim());
  TensorView heads = layout.matrix(num_heads * spec.kv_lora_rank);
  TensorView values = layout.matrix(num_heads * spec.v_head_dim);
  TensorView gates = layout.matrix(spec.gated ? num_heads : 0);
  IndexerScratch indexer{spec.index, layout};
};

void Mla::count_scratch(ScratchLayout& layout) const {
  layout = MlaScratch{spec, layout}.layout;
}

// Sets at.query to the query projection of x, with low rank if the model has it. Stores the keys of the
// indexer, which reads the low-rank queries.
void project_queries(const OpRunner& run, const Mla& mla, const MixerArgs& args, const MlaScratch& at) {
  if (mla.q_a_proj) {
    apply(run, *mla.q_a_proj, at.query_down, args.x);
    apply(run, *mla.q_a_norm, at.query_down, at.query_down);
    apply(run, mla.q_proj, at.query, at.query_down);
    if (mla.indexer) {
      const KvCacheView& cache = args.kv;
      const int64_t latent_bytes = kv_part_bytes(cache.dtype, cache.block_size, 1, cache.head_dim);
      choose(run, *mla.indexer, *args.tables.rope(mla.spec.index_rope), args.x, at.query_down, args.batch,
             index_cache(cache, latent_bytes, mla.spec.index), at.indexer);
    }
  } else {
    apply(run, mla.q_proj, at.query, args.x);
  }
  if (const Rope* scale = args.tables.rope(mla.spec.query_scale_rope))
    apply_to_queries(run, *scale, head_view(at.query, at.num_heads), args.batch.positions);
}

void Mla::forward(const OpRunner& run, const MixerArgs& args) const {
  MlaScratch at{spec, args.layout()};
  at.indexer.chosen = args.chosen;
  const int64_t heads = spec.num_heads;
  project_queries(run, *this, args, at);
  apply(run, kv_a_proj, at.latent, args.x);
  const TensorView vector = column_slice(at.latent, spec.qk_rope_head_dim, spec.cache_dim());
  apply(run, kv_a_norm, vector, vector);
  w_uk_group.apply_batched(run, at.absorbed, at.query);
  const TensorView q = head_view(at.absorbed, heads);
  const TensorView k = head_view(at.latent, 1);
  if (args.rope != nullptr) apply(run, *args.rope, q, k, args.batch.positions);
  // Keys are [rotary part, latent vector], of which the latent vector is also the value.
  KvCacheView cache = args.kv;
  cache.value_dim = spec.kv_lora_rank;
  cache.values_in_keys = true;
  run(ops::KvWrite{.cache = cache, .k = k, .slot_mapping = args.batch.slot_mapping});
  AttentionParams params{.scale = spec.attention_scale};
  if (has_choice(spec.index, args.batch)) params.chosen = at.indexer.chosen;
  run(ops::PagedAttention{.out = head_view(at.heads, heads),
                          .q = q,
                          .cache = cache,
                          .batch = args.batch.attention,
                          .params = params});
  w_uv_group.apply_batched(run, at.values, at.heads);
  if (gate) {
    apply(run, *gate, at.gates, args.x);
    run(ops::Gate{.out = at.values, .x = at.values, .gate = at.gates, .activation = Activation::kSigmoid});
  }
  apply(run, o_proj, args.out, at.values, args.residual);
}

// W_UK and W_UV of head h: kv_b_proj has for each head the rows of its keys, then those of its values.
class LatentHeads {
 public:
  LatentHeads(ParamReader& reader, const MlaSpec& spec, const ParamSpec& kv_b, const ParamSpec& k_b,
              const ParamSpec& v_b)
      : spec_(spec), together_(reader.has(kv_b)) {
    if (together_) {
      keys_ = reader.read(kv_b);
    } else {
      keys_ = reader.read(k_b);
      values_ = reader.read(v_b);
    }
  }

  // Element of W_UK [nope, latent].
  float key(int64_t head, int64_t i, int64_t j) const {
    const int64_t nope = spec_.qk_nope_head_dim;
    const int64_t latent = spec_.kv_lora_rank;
    if (together_) return keys_[static_cast<size_t>((head * (nope + spec_.v_head_dim) + i) * latent + j)];
    return keys_[static_cast<size_t>((head * latent + j) * nope + i)];
  }
  // W_UV [value, latent].
  const float* values(int64_t head) const {
    const int64_t size = int64_t{spec_.v_head_dim} * spec_.kv_lora_rank;
    if (!together_) return values_.data() + head * size;
    return keys_.data() + (head * (spec_.qk_nope_head_dim + spec_.v_head_dim) + spec_.qk_nope_head_dim) *
                              int64_t{spec_.kv_lora_rank};
  }

 private:
  MlaSpec spec_;
  bool together_;
  std::vector<float> keys_;
  std::vector<float> values_;
};

// A query is multiplied by W_UKᵀ before attention, its rotary dimensions are copied; the result by W_UV.
void Mla::visit_heads(ParamVisitor& visitor) {
  const int64_t heads = spec.num_heads;
  const int64_t latent = spec.kv_lora_rank;
  const int64_t nope = spec.qk_nope_head_dim;
  const int64_t value = spec.v_head_dim;
  const ParamSpec kv_b = column_parallel(mla::kKvBProj, heads * (nope + value), latent, nope + value);
  const ParamSpec k_b = column_parallel(mla::kKBProj, heads * latent, nope, latent);
  const ParamSpec v_b = column_parallel(mla::kVBProj, heads * value, latent, value);
  DerivedSpec derived{.label = "latent heads", .sources = {{kv_b}, {k_b, v_b}}, .adapted = mla::kKvBProj};
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t first = h * (nope + value);
    derived.matrices.push_back(
        {.name = "absorb." + std::to_string(h),
         .out = spec.cache_dim(),
         .in = spec.query_dim(),
         .adapted = SourceRows{
             .begin = first, .count = nope, .transposed = true, .out_begin = spec.qk_rope_head_dim}});
    derived.matrices.push_back({.name = "expand." + std::to_string(h),
                                .out = value,
                                .in = latent,
                                .adapted = SourceRows{.begin = first + nope, .count = value}});
  }
  auto stored = std::make_shared<std::optional<LatentHeads>>();  // read only if a matrix has to be made
  derived.compute = [=, own = spec](ParamReader& reader, size_t index, std::span<float> out) {
    if (!*stored) stored->emplace(reader, own, kv_b, k_b, v_b);
    const auto head = static_cast<int64_t>(index / 2);
    if (index % 2 == 1) {
      std::copy_n((*stored)->values(head), out.size(), out.begin());
      return;
    }
    const auto row = [&](int64_t r) { return out.data() + r * own.query_dim(); };
    for (int64_t i = 0; i < own.qk_rope_head_dim; ++i) row(i)[nope + i] = 1.0F;
    for (int64_t j = 0; j < latent; ++j) {
      for (int64_t i = 0; i < nope; ++i) row(own.qk_rope_head_dim + j)[i] = (*stored)->key(head, i, j);
    }
  };
  std::vector<Linear> made(derived.matrices.size());
  visitor.derived(derived, made);
  for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
    w_uk.push_back(std::move(made[2 * h]));
    w_uv.push_back(std::move(made[2 * h + 1]));
  }
  for (const Linear& head : w_uk) w_uk_group.add(head);
  for (const Linear& head : w_uv) w_uv_group.add(head);
}

void Mla::visit(const InputSpec& x, ParamVisitor& visitor) {
  const int64_t heads = spec.num_heads;
  const auto visit_one = [&](ParamId id, int64_t size, Norm& norm, Transform transform) {
    constexpr float kEps = 1e-6F;  // as in transformers, regardless of the model's eps
    norm = make_norm(spec.norm, size);
    norm.eps = kEps;
    visit_vector(visitor, {.id = id, .out = size, .fill = 1.0F}, norm.weight, std::move(transform));
  };
  InputSpec queries = x;
  if (spec.q_lora_rank > 0) {
    const ParamSpec down = after_norm(replicated(mla::kQAProj, spec.q_lora_rank, x.size), x.norm);
    visit_matrix(visitor, "linear", with_bias(down, spec.qkv_bias), q_a_proj.emplace());
    visit_one(mla::kQANorm, spec.q_lora_rank, q_a_norm.emplace(), nullptr);
    queries = {spec.q_lora_rank, {}};
  }
  const ParamSpec q = column_parallel(mla::kQProj, heads * spec.query_dim(), queries.size, spec.query_dim());
  visit_matrix(visitor, "qkv", with_bias(after_norm(q, queries.norm), spec.qkv_bias), q_proj);
  const ParamSpec kv_a = after_norm(replicated(mla::kKvAProj, spec.cache_dim(), x.size), x.norm);
  visit_matrix(visitor, "linear", with_bias(kv_a, spec.qkv_bias), kv_a_proj);
  visit_one(mla::kKvANorm, spec.kv_lora_rank, kv_a_norm,
            each([factor = spec.latent_multiplier](float weight) { return weight * factor; }));
  visit_heads(visitor);
  if (spec.gated) {
    const ParamSpec head_gates = after_norm(column_parallel(mla::kOutputGate, heads, x.size), x.norm);
    visit_matrix(visitor, "linear", head_gates, gate.emplace());
  }
  const ParamSpec o = row_parallel(mla::kOProj, spec.hidden_size, heads * spec.v_head_dim, spec.v_head_dim);
  visit_matrix(visitor, "attention out", with_bias(o, spec.o_bias), o_proj);
  if (spec.has_indexer) quire::visit(spec.index, spec.norm, x, queries, visitor, indexer.emplace());
}

}  // namespace

KvShape kv_shape(const MlaSpec& spec) {
  return {1, spec.cache_dim(), spec.cache_dim(), spec.num_heads};
}

int64_t kv_bytes(const MlaSpec& spec, DType dtype, int32_t block_size) {
  const int64_t own = kv_part_bytes(dtype, block_size, 1, spec.cache_dim());
  return spec.has_indexer ? own + kv_part_bytes(dtype, block_size, 1, spec.index.dim) : own;
}

// The heads of a report are those before compression.
MixerTraits mixer_traits(const MlaSpec& spec) {
  const bool sparse = spec.index.heads > 0;
  return {.masks = sparse ? spec.index.masks() : 0,
          .shares_selection = sparse && !spec.has_indexer,
          .input_scales_move = false,
          .reported_heads = {spec.num_heads, spec.query_dim(), spec.v_head_dim, spec.num_heads}};
}

std::unique_ptr<Mixer> make_mixer(const MlaSpec& spec) {
  return std::make_unique<Mla>(spec);
}

}  // namespace quire
