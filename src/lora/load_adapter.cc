#include "lora/load_adapter.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <set>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "lora/adapter_file.h"
#include "lora/adapter_plan.h"
#include "lora/load_biases.h"
#include "lora/load_derived.h"
#include "lora/load_norms.h"
#include "lora/stacked_experts.h"
#include "lora/tensor_values.h"

namespace quire::lora {
namespace {

std::string title(const AdapterSource& source) {
  const std::string path = shown(source.path.string());
  return source.name.empty() ? cat("adapter ", path, ":")
                             : cat("adapter '", shown(source.name), "' (", path, "):");
}

Failure refused(const AdapterSource& source, const AdapterPlan& plan) {
  const std::string& base = plan.config.base_model;
  return invalid_argument(title(source) +
                          plan.problems.text(base.empty() ? "" : cat("it was made for '", shown(base), "'")));
}

// The last part of a path or of a name on the hub, in lower case.
std::string short_name(std::string_view name) {
  while (name.ends_with('/')) name.remove_suffix(1);
  return lowercase(name.substr(name.rfind('/') + 1));
}

void compare_base(const AdapterTargets* targets, const AdapterLimits& limits, AdapterPlan& plan) {
  const std::string& made_for = plan.config.base_model;
  const bool same = short_name(made_for) == short_name(limits.base_name);
  if (targets != nullptr && targets->scaled_inputs && !same) {
    plan.warnings.emplace_back(
        "the model's weights were scaled by channel when it was quantized (AWQ): an adapter that was trained "
        "on the original model has another effect");
  }
  if (limits.base_name.empty() || made_for.empty() || same) return;
  plan.warnings.push_back(
      cat("the adapter was made for '", shown(made_for), "', the model is '", shown(limits.base_name), "'"));
}

// The header of an adapter, checked against the model if there is one.
struct Examined {
  AdapterFile file;
  AdapterPlan plan;
  std::vector<SitePlan> sites;  // refer to modules of the plan
};
Examined examine(const AdapterSource& source, const AdapterTargets* targets, const AdapterLimits& limits) {
  Examined out{.file = read_adapter_file(source.path, targets)};
  if (limits.identity && *limits.identity != out.file.identity)
    throw Error(cat(out.file.identity.name, " has changed on disk; load the adapter again"));
  out.plan = plan_adapter(out.file, targets, limits.max_rank);
  compare_base(targets, limits, out.plan);
  out.sites = plan_sites(out.plan.modules, out.plan.problems);
  return out;
}

// Adds the trained biases to the description.
void describe_biases(const Examined& found, AdapterInfo& info) {
  std::set<int32_t> counted;
  for (const SitePlan& site : found.sites) {
    if (site.has_bias) counted.insert(site.site);
  }
  for (const PlannedBias& bias : found.plan.biases) {
    if (bias.ranges.empty()) info.bytes += static_cast<int64_t>(bias.bias.bytes);
    for (const AdapterRange& range : bias.ranges) {
      if (counted.insert(range.site).second)
        info.bytes += range.site_rows * static_cast<int64_t>(sizeof(float));
    }
    const auto own = std::ranges::find(info.modules, bias.name, &AdapterModuleInfo::name);
    if (own != info.modules.end()) {
      own->bias = true;
      continue;
    }
    info.modules.push_back({.name = bias.name,
                            .pattern = without_numbers(bias.name),
                            .change = "bias",
                            .out = bias.bias.shape[0],
                            .dtype = std::string(dtype_name(bias.bias.dtype)),
                            .bias = true});
  }
}

AdapterInfo describe(const Examined& found) {
  const AdapterPlan& plan = found.plan;
  AdapterInfo info{.identity = found.file.identity,
                   .base_model = plan.config.base_model,
                   .peft_version = plan.config.peft_version};
  for (const PlannedModule& module : plan.modules) {
    info.max_rank = std::max(info.max_rank, module.rank);
    info.modules.push_back({.name = module.name,
                            .pattern = without_numbers(module.name),
                            .rank = module.rank,
                            .experts = module.experts,
                            .scale = module.scale,
                            .in = module.in,
                            .out = module.out,
                            .dtype = std::string(dtype_name(module.a.dtype)),
                            .bias = module.bias.has_value()});
    if (module.ranges.empty()) info.bytes += static_cast<int64_t>(module.a.bytes + module.b.bytes);
  }
  for (const PlannedEmbedding& embedding : plan.embeddings) {
    info.max_rank = std::max(info.max_rank, embedding.rank);
    info.bytes += embedding.bytes();
    info.modules.push_back({.name = embedding.name,
                            .pattern = without_numbers(embedding.name),
                            .rank = embedding.rank,
                            .scale = embedding.scale,
                            .in = embedding.a.shape[1],
                            .out = embedding.b.shape[0],
                            .dtype = std::string(dtype_name(embedding.a.dtype))});
  }
  for (const PlannedMatrix& saved : plan.saved) {
    info.bytes += saved.bytes();
    info.modules.push_back({.name = saved.name,
                            .pattern = without_numbers(saved.name),
                            .change = "replaced",
                            .in = saved.weight.shape[1],
                            .out = saved.weight.shape[0],
                            .dtype = std::string(dtype_name(saved.weight.dtype)),
                            .bias = saved.bias.has_value()});
  }
  for (const PlannedNorm& norm : plan.norms) {
    const TensorInfo& tensor = norm.weight ? *norm.weight : *norm.bias;
    info.bytes += norm.bytes();
    info.modules.push_back({.name = norm.name,
                            .pattern = without_numbers(norm.name),
                            .change = norm.weight ? "replaced" : "bias",
                            .out = norm.size(),
                            .dtype = std::string(dtype_name(tensor.dtype)),
                            .bias = norm.bias.has_value()});
  }
  for (const PlannedTokens& tokens : plan.tokens) {
    info.bytes += tokens.bytes();
    info.modules.push_back({.name = tokens.name,
                            .pattern = without_numbers(tokens.name),
                            .change = "tokens",
                            .in = tokens.values.shape[0],
                            .out = tokens.values.shape[1],
                            .dtype = std::string(dtype_name(tokens.values.dtype))});
  }
  describe_biases(found, info);
  std::ranges::stable_sort(info.modules, {}, &AdapterModuleInfo::name);
  for (const SitePlan& site : found.sites) info.bytes += site.bytes();
  info.warnings = plan.warnings;
  info.without_effect = plan.without_effect;
  std::ranges::sort(info.without_effect);
  return info;
}

// Calls make() and turns what it throws into a Failure.
template <typename T, typename Make>
Result<T> guarded(const AdapterSource& source, const Make& make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return Failure{ErrorKind::kOverloaded, title(source) + " there is not enough memory to load it", ""};
  } catch (const std::exception& error) {
    std::error_code ignored;
    const bool missing = !std::filesystem::exists(source.path, ignored);
    return Failure{missing ? ErrorKind::kNotFound : ErrorKind::kInvalidArgument,
                   cat(title(source), " ", error.what()), ""};
  }
}

// out = b [rows, rank] with its rows in the model's order, as LowRank stores it.
template <typename Element>
void order_b(const Element* b, const LowRank::Piece& piece, const std::optional<RowLayout>& layout,
             Element* out) {
  int64_t output = 0;
  const auto take = [&](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row, ++output) {
      // The distance between the elements of an output does not depend on j.
      Element* first_of_row = out + b_index(piece, output, 0);
      const int64_t step = b_index(piece, output, 1) - b_index(piece, output, 0);
      for (int64_t j = 0; j < piece.rank; ++j) first_of_row[j * step] = b[row * piece.rank + j];
    }
  };
  if (layout) {
    for_each_run(*layout, take);
  } else {
    take(0, piece.n);
  }
}

std::unique_ptr<const EmbeddingChange> load_embedding(const PlannedEmbedding& planned, TensorValues& values) {
  auto out = std::make_unique<EmbeddingChange>();
  out->vocab_size = planned.a.shape[1];
  out->size = planned.b.shape[0];
  out->rank = planned.rank;
  out->scale = planned.scale;
  out->dtype = planned.dtype();
  out->a = values.read_transposed(planned.a, out->dtype);
  out->b = values.read_transposed(planned.b, out->dtype);
  return out;
}

// The tokens in ascending order.
std::shared_ptr<const TrainedTokens> load_tokens(const PlannedTokens& planned, TensorValues& values) {
  auto out = std::make_shared<TrainedTokens>();
  out->size = planned.values.shape[1];
  out->dtype = planned.values.dtype;
  std::map<int64_t, size_t> order;
  for (size_t i = 0; i < planned.ids.size(); ++i) order[planned.ids[i]] = i;
  const std::byte* stored = values.read(planned.values, out->dtype);
  out->values = Buffer(planned.values.bytes);
  const size_t row = static_cast<size_t>(out->size) * dtype_size(out->dtype);
  for (const auto& [id, index] : order) {
    std::memcpy(out->values.data() + out->ids.size() * row, stored + index * row, row);
    out->ids.push_back(static_cast<int32_t>(id));
  }
  return out;
}

// Loads the sites of one adapter, one after another.
class SiteLoader {
 public:
  explicit SiteLoader(TensorValues& values) : values_(values), derived_(values) {}

  std::unique_ptr<LowRank> load(const SitePlan& site) {
    if (site.pieces.front().range->part) return derived_.load(site);
    auto out = std::make_unique<LowRank>();
    out->k = site.pieces.front().range->in;
    out->dtype = site.dtype;
    out->a = Buffer(static_cast<size_t>(site.a_bytes()));
    out->b = Buffer(static_cast<size_t>(site.b_bytes()));
    if (site.has_bias) out->bias = Buffer(static_cast<size_t>(site.bias_bytes()));
    std::byte* a = out->a.data();
    std::byte* b = out->b.data();
    for (const SitePlan::Piece& piece : site.pieces) {
      const PlannedModule& module = *piece.module;
      const AdapterRange& range = *piece.range;
      const LowRank::Piece to{range.out_begin, range.rows, module.rank, module.scale};
      out->pieces.push_back(to);
      const std::byte* stored =
          module.experts > 0 ? read_expert(piece, site.dtype, a) : read(module.a, module.b, site.dtype, a);
      a += module.rank * bytes_of(range.in, site.dtype);
      if (site.dtype == DType::kF32) {
        order_b(reinterpret_cast<const float*>(stored), to, range.layout, reinterpret_cast<float*>(b));
      } else {
        order_b(reinterpret_cast<const uint16_t*>(stored), to, range.layout, reinterpret_cast<uint16_t*>(b));
      }
      b += module.rank * bytes_of(range.rows, site.dtype);
      if (!module.bias) continue;
      std::vector<float> bias(static_cast<size_t>(range.rows));
      values_.read(*module.bias, DType::kF32, reinterpret_cast<std::byte*>(bias.data()));
      bias = in_order(std::move(bias), range.layout);
      for (size_t i = 0; i < bias.size(); ++i)
        out->bias.as<float>()[static_cast<size_t>(range.out_begin) + i] = module.scale * bias[i];
    }
    return out;
  }

 private:
  static int64_t bytes_of(int64_t elements, DType dtype) {
    return elements * static_cast<int64_t>(dtype_size(dtype));
  }

  static size_t bytes_as(const TensorInfo& tensor, DType dtype) {
    return tensor.bytes / dtype_size(tensor.dtype) * dtype_size(dtype);
  }
  // Reads A, and returns B, which is valid until the next call.
  const std::byte* read(const TensorInfo& a, const TensorInfo& b, DType dtype, std::byte* out) {
    values_.read(a, dtype, out);
    return values_.read(b, dtype);
  }

  // The same for one expert of a parameter. The tensors of all experts are kept until the last one has been
  // read.
  const std::byte* read_expert(const SitePlan::Piece& piece, DType dtype, std::byte* a) {
    const PlannedModule& module = *piece.module;
    Stacked& stacked = stacked_[&module];
    if (stacked.a.empty() || stacked.dtype != dtype) {
      stacked.dtype = dtype;
      stacked.a.resize(bytes_as(module.a, dtype));
      stacked.b.resize(bytes_as(module.b, dtype));
      values_.read(module.a, dtype, stacked.a.data());
      values_.read(module.b, dtype, stacked.b.data());
    }
    const auto bytes = static_cast<size_t>(module.rank * bytes_of(module.out, dtype));
    expert_b_.resize(std::max(expert_b_.size(), bytes));
    take_expert({.a = stacked.a.data(),
                 .b = stacked.b.data(),
                 .size = dtype_size(dtype),
                 .experts = module.experts,
                 .rank = module.rank,
                 .in = module.in,
                 .out = module.out,
                 .transposed = module.transposed},
                piece.number, a, expert_b_.data());
    if (piece.number + 1 == module.experts) stacked_.erase(&module);
    return expert_b_.data();
  }

  struct Stacked {
    DType dtype = DType::kF32;
    std::vector<std::byte> a;
    std::vector<std::byte> b;
  };

  TensorValues& values_;
  DerivedLoader derived_;
  std::map<const PlannedModule*, Stacked> stacked_;
  std::vector<std::byte> expert_b_;  // memory for the B of one expert, kept from one to the next
};

}  // namespace

Result<AdapterInfo> examine_adapter(const AdapterSource& source, const AdapterTargets* targets,
                                    const AdapterLimits& limits) {
  return guarded<AdapterInfo>(source, [&]() -> Result<AdapterInfo> {
    const Examined found = examine(source, targets, limits);
    if (!found.plan.problems.empty()) return refused(source, found.plan);
    return describe(found);
  });
}

Result<LoadedAdapter> load_adapter(const AdapterSource& source, const AdapterTargets& targets,
                                   const AdapterLimits& limits, const AdapterBase& base) {
  return guarded<LoadedAdapter>(source, [&]() -> Result<LoadedAdapter> {
    Examined found = examine(source, &targets, limits);
    Problems& problems = found.plan.problems;
    if (!problems.empty()) return refused(source, found.plan);
    auto adapter = std::make_shared<AdapterWeights>();
    std::vector<std::unique_ptr<LowRank>> sites(static_cast<size_t>(targets.num_sites));
    TensorValues values(found.file, problems);
    SiteLoader loader(values);
    for (const SitePlan& site : found.sites) sites[static_cast<size_t>(site.site)] = loader.load(site);
    for (const PlannedEmbedding& embedding : found.plan.embeddings)
      adapter->embeddings[embedding.site] = load_embedding(embedding, values);
    AdapterPlan& plan = found.plan;
    for (std::string& tensor : load_saved(plan.saved, base, values, problems, *adapter))
      plan.without_effect.push_back(std::move(tensor));
    for (std::string& tensor : load_biases(plan.biases, base, values, problems, sites))
      plan.without_effect.push_back(std::move(tensor));
    for (std::string& tensor : load_norms(plan.norms, base, values, problems, *adapter))
      plan.without_effect.push_back(std::move(tensor));
    adapter->sites.assign(std::make_move_iterator(sites.begin()), std::make_move_iterator(sites.end()));
    for (const PlannedTokens& tokens : plan.tokens) {
      const auto loaded = load_tokens(tokens, values);
      if (tokens.embedding) adapter->input_tokens[tokens.site] = loaded;
      if (tokens.output) adapter->output_tokens[tokens.site] = loaded;
    }
    if (plan.empty()) problems.add("no tensor has an effect on this model");
    if (!problems.empty()) return refused(source, found.plan);
    return LoadedAdapter{std::move(adapter), describe(found)};
  });
}

}  // namespace quire::lora
