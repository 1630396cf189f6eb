#include "nn/mla.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "nn/attention_spec.h"
#include "nn/scratch.h"

namespace quire {
namespace {

// The cache as keys [rotary part, latent vector], of which the latent vector is also the value.
KvCacheView latent_cache(const KvCacheView& cache, const MlaSizes& sizes) {
  KvCacheView vectors = cache;
  vectors.value_dim = sizes.kv_lora_rank;
  vectors.values_in_keys = true;
  return vectors;
}

struct MlaScratch {
  TensorView query_down;  // [rows, q_lora_rank]
  TensorView query;       // [rows, num_heads query_dim]
  TensorView latent;      // [rows, cached]
  TensorView absorbed;    // [rows, num_heads cached]
  TensorView heads;       // [rows, num_heads kv_lora_rank]
  TensorView values;      // [rows, num_heads v_head_dim]
  TensorView gates;       // [rows, num_heads]
  IndexerScratch indexer;
};

MlaScratch make_scratch(const Mla& mla, ScratchLayout& layout) {
  const MlaSizes& sizes = mla.sizes;
  const int64_t num_heads = mla.num_heads();
  MlaScratch out;
  out.query_down = layout.matrix(sizes.q_lora_rank);
  out.query = layout.matrix(num_heads * sizes.query_dim());
  out.latent = layout.matrix(sizes.cache_dim());
  out.absorbed = layout.matrix(num_heads * sizes.cache_dim());
  out.heads = layout.matrix(num_heads * sizes.kv_lora_rank);
  out.values = layout.matrix(num_heads * sizes.v_head_dim);
  out.gates = layout.matrix(sizes.gated ? num_heads : 0);
  out.indexer = quire::make_scratch(mla.index, layout);
  return out;
}

// queries = the query projection of x, with low rank if the model has it. Stores the keys of the indexer,
// which reads the low-rank queries.
void project_queries(const OpRunner& run, const Mla& mla, const MixerArgs& args, const MlaScratch& at) {
  const int64_t heads = mla.num_heads();
  if (mla.q_a_proj) {
    apply(run, *mla.q_a_proj, at.query_down, args.x);
    apply(run, *mla.q_a_norm, at.query_down, at.query_down);
    apply(run, mla.q_proj, at.query, at.query_down);
    if (mla.indexer) {
      const KvCacheView& cache = args.kv;
      const int64_t latent_bytes = kv_part_bytes(cache.dtype, cache.block_size, 1, cache.head_dim);
      choose(run, *mla.indexer, args.x, at.query_down, args.batch,
             index_cache(cache, latent_bytes, mla.index), at.indexer);
    }
  } else {
    apply(run, mla.q_proj, at.query, args.x);
  }
  if (mla.attn_scale != nullptr)
    apply_to_queries(run, *mla.attn_scale, head_view(at.query, heads), args.batch.positions);
}

}  // namespace

KvShape kv_shape(const MlaSpec& spec) {
  return {1, spec.sizes.cache_dim(), spec.sizes.cache_dim(), spec.num_heads};
}

int64_t kv_bytes(const MlaSpec& spec, DType dtype, int32_t block_size) {
  const int64_t own = kv_part_bytes(dtype, block_size, 1, spec.sizes.cache_dim());
  return spec.has_indexer ? own + kv_part_bytes(dtype, block_size, 1, spec.index.dim) : own;
}

void count_scratch(const Mla& mla, ScratchLayout& layout) {
  make_scratch(mla, layout);
}

void apply(const OpRunner& run, const Mla& mla, const MixerArgs& args) {
  ScratchLayout layout = args.layout();
  MlaScratch at = make_scratch(mla, layout);
  at.indexer.chosen = args.chosen;
  const MlaSizes& sizes = mla.sizes;
  const int64_t heads = mla.num_heads();
  const auto part_of_head = [](const TensorView& all, int64_t head, int64_t size) {
    return column_slice(all, head * size, (head + 1) * size);
  };
  project_queries(run, mla, args, at);
  apply(run, mla.kv_a_proj, at.latent, args.x);
  const TensorView vector = column_slice(at.latent, sizes.qk_rope_head_dim, sizes.cache_dim());
  apply(run, mla.kv_a_norm, vector, vector);
  for (int64_t h = 0; h < heads; ++h) {
    apply(run, mla.w_uk[static_cast<size_t>(h)], part_of_head(at.absorbed, h, sizes.cache_dim()),
          part_of_head(at.query, h, sizes.query_dim()));
  }
  const TensorView q = head_view(at.absorbed, heads);
  const TensorView k = head_view(at.latent, 1);
  if (args.rope != nullptr) apply(run, *args.rope, q, k, args.batch.positions);
  const KvCacheView cache = latent_cache(args.kv, sizes);
  run(ops::KvWrite{.cache = cache, .k = k, .slot_mapping = args.batch.slot_mapping});
  AttentionParams params = mla.params;
  if (has_choice(mla.index, args.batch.attention)) params.chosen = at.indexer.chosen;
  run(ops::PagedAttention{.out = head_view(at.heads, heads),
                          .q = q,
                          .cache = cache,
                          .batch = args.batch.attention,
                          .params = params});
  for (int64_t h = 0; h < heads; ++h) {
    apply(run, mla.w_uv[static_cast<size_t>(h)], part_of_head(at.values, h, sizes.v_head_dim),
          part_of_head(at.heads, h, sizes.kv_lora_rank));
  }
  if (mla.gate) {
    apply(run, *mla.gate, at.gates, args.x);
    run(ops::Gate{.out = at.values, .x = at.values, .gate = at.gates, .activation = Activation::kSigmoid});
  }
  apply(run, mla.o_proj, args.out, at.values, args.residual);
}

namespace {

// W_UK and W_UV of head h: kv_b_proj has for each head the rows of its keys, then those of its values.
class LatentHeads {
 public:
  LatentHeads(ParamReader& reader, const MlaSizes& sizes, const ParamSpec& kv_b, const ParamSpec& k_b,
              const ParamSpec& v_b)
      : sizes_(sizes), together_(reader.has(kv_b)) {
    if (together_) {
      keys_ = reader.read(kv_b);
    } else {
      keys_ = reader.read(k_b);
      values_ = reader.read(v_b);
    }
  }

  // Element of W_UK [nope, latent].
  float key(int64_t head, int64_t i, int64_t j) const {
    const int64_t nope = sizes_.qk_nope_head_dim;
    const int64_t latent = sizes_.kv_lora_rank;
    if (together_) return keys_[static_cast<size_t>((head * (nope + sizes_.v_head_dim) + i) * latent + j)];
    return keys_[static_cast<size_t>((head * latent + j) * nope + i)];
  }
  // W_UV [value, latent].
  const float* values(int64_t head) const {
    const int64_t size = int64_t{sizes_.v_head_dim} * sizes_.kv_lora_rank;
    if (!together_) return values_.data() + head * size;
    return keys_.data() + (head * (sizes_.qk_nope_head_dim + sizes_.v_head_dim) + sizes_.qk_nope_head_dim) *
                              int64_t{sizes_.kv_lora_rank};
  }

 private:
  MlaSizes sizes_;
  bool together_;
  std::vector<float> keys_;
  std::vector<float> values_;
};

// A query is multiplied by W_UKᵀ before attention, its rotary dimensions are copied; the result by W_UV.
void visit_heads(const MlaSpec& spec, ParamVisitor& visitor, Mla& mla) {
  const MlaSizes& sizes = spec.sizes;
  const int64_t heads = spec.num_heads;
  const int64_t latent = sizes.kv_lora_rank;
  const ParamSpec kv_b = column_parallel(mla::kKvBProj, heads * (sizes.qk_nope_head_dim + sizes.v_head_dim),
                                         latent, sizes.qk_nope_head_dim + sizes.v_head_dim);
  const ParamSpec k_b = column_parallel(mla::kKBProj, heads * latent, sizes.qk_nope_head_dim, latent);
  const ParamSpec v_b = column_parallel(mla::kVBProj, heads * sizes.v_head_dim, latent, sizes.v_head_dim);
  DerivedSpec derived{.label = "latent heads", .sources = {{kv_b}, {k_b, v_b}}};
  for (int64_t h = 0; h < heads; ++h) {
    derived.matrices.push_back({"absorb." + std::to_string(h), sizes.cache_dim(), sizes.query_dim()});
    derived.matrices.push_back({"expand." + std::to_string(h), sizes.v_head_dim, latent});
  }
  auto stored = std::make_shared<std::optional<LatentHeads>>();  // read only if a matrix has to be made
  derived.compute = [=](ParamReader& reader, size_t index, std::span<float> out) {
    if (!*stored) stored->emplace(reader, sizes, kv_b, k_b, v_b);
    const auto head = static_cast<int64_t>(index / 2);
    if (index % 2 == 1) {
      std::copy_n((*stored)->values(head), out.size(), out.begin());
      return;
    }
    const auto row = [&](int64_t r) { return out.data() + r * sizes.query_dim(); };
    for (int64_t i = 0; i < sizes.qk_rope_head_dim; ++i) row(i)[sizes.qk_nope_head_dim + i] = 1.0F;
    for (int64_t j = 0; j < latent; ++j) {
      for (int64_t i = 0; i < sizes.qk_nope_head_dim; ++i)
        row(sizes.qk_rope_head_dim + j)[i] = (*stored)->key(head, i, j);
    }
  };
  std::vector<Linear> made(derived.matrices.size());
  visitor.derived(derived, made);
  for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
    mla.w_uk.push_back(std::move(made[2 * h]));
    mla.w_uv.push_back(std::move(made[2 * h + 1]));
  }
}

}  // namespace

void visit(const MlaSpec& spec, const InputSpec& x, ParamVisitor& visitor, Mla& mla) {
  const MlaSizes& sizes = spec.sizes;
  const int64_t heads = spec.num_heads;
  mla.sizes = sizes;
  mla.params.scale = spec.attention_scale;
  const auto visit_one = [&](ParamId id, int64_t size, Norm& norm, Transform scale) {
    norm = make_norm(spec.norm, size);
    norm.eps = spec.norm_eps;
    visitor.vector({.fused = {{.id = id, .out = size, .fill = 1.0F}}, .transform = std::move(scale)},
                   norm.weight, nullptr);
  };
  InputSpec queries = x;
  if (sizes.q_lora_rank > 0) {
    const ParamSpec down = after_norm(replicated(mla::kQAProj, sizes.q_lora_rank, x.size), x.norm);
    visit_matrix(visitor, "linear", with_bias(down, spec.qkv_bias), mla.q_a_proj.emplace());
    visit_one(mla::kQANorm, sizes.q_lora_rank, mla.q_a_norm.emplace(), nullptr);
    queries = {sizes.q_lora_rank, {}};
  }
  const ParamSpec q =
      column_parallel(attention::kQProj, heads * sizes.query_dim(), queries.size, sizes.query_dim());
  visit_matrix(visitor, "qkv", with_bias(after_norm(q, queries.norm), spec.qkv_bias), mla.q_proj);
  const ParamSpec kv_a = after_norm(replicated(mla::kKvAProj, sizes.cache_dim(), x.size), x.norm);
  visit_matrix(visitor, "linear", with_bias(kv_a, spec.qkv_bias), mla.kv_a_proj);
  visit_one(mla::kKvANorm, sizes.kv_lora_rank, mla.kv_a_norm,
            [factor = spec.latent_multiplier](Buffer stored) {
              const auto count = static_cast<int64_t>(stored.size() / sizeof(float));
              for (int64_t i = 0; i < count; ++i) stored.as<float>()[i] *= factor;
              return stored;
            });
  visit_heads(spec, visitor, mla);
  if (sizes.gated) {
    const ParamSpec gate = after_norm(column_parallel(attention::kOutputGate, heads, x.size), x.norm);
    visit_matrix(visitor, "linear", gate, mla.gate.emplace());
  }
  const ParamSpec o =
      row_parallel(attention::kOProj, spec.hidden_size, heads * sizes.v_head_dim, sizes.v_head_dim);
  visit_matrix(visitor, "attention out", with_bias(o, spec.o_bias), mla.o_proj);
  mla.index = spec.index;
}

}  // namespace quire
