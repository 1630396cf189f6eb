#include "lora/load_adapter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <new>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "lora/adapter_file.h"
#include "lora/adapter_plan.h"
#include "lora/stacked_experts.h"
#include "quant/codec.h"

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
  Examined out{.file = read_adapter_file(source.path)};
  if (limits.identity && *limits.identity != out.file.identity)
    throw Error(cat(out.file.identity.name, " has changed on disk; load the adapter again"));
  out.plan = plan_adapter(out.file, targets, limits.max_rank);
  compare_base(targets, limits, out.plan);
  out.sites = plan_sites(out.plan.modules, out.plan.problems);
  return out;
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
  for (const SitePlan& site : found.sites) info.bytes += site.a_bytes() + site.b_bytes() + site.bias_bytes();
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

// Elements of an array of float32, bfloat16 or float16 as bits: the index of the first one that is not
// finite, or -1.
template <typename Bits>
int64_t first_not_finite(const std::byte* data, int64_t count, Bits exponent) {
  const auto* bits = reinterpret_cast<const Bits*>(data);
  bool found = false;
  for (int64_t i = 0; i < count; ++i) found |= (bits[i] & exponent) == exponent;
  if (!found) return -1;
  return std::find_if(bits, bits + count, [&](Bits b) { return (b & exponent) == exponent; }) - bits;
}

int64_t first_not_finite(DType dtype, const std::byte* data, int64_t count) {
  if (dtype == DType::kF32) return first_not_finite<uint32_t>(data, count, 0x7f800000U);
  return first_not_finite<uint16_t>(data, count, dtype == DType::kBF16 ? 0x7f80 : 0x7c00);
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

// Loads the sites of one adapter, one after another.
class SiteLoader {
 public:
  SiteLoader(const AdapterFile& file, Problems& problems) : reader_(file), problems_(problems) {}

  std::unique_ptr<const LowRank> load(const SitePlan& site) {
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
      read(*module.bias, DType::kF32, reinterpret_cast<std::byte*>(bias.data()));
      for (float& value : bias) value *= module.scale;
      const LowRank::Piece column{range.out_begin, range.rows, 1};
      order_b(bias.data(), column, range.layout, out->bias.as<float>() + range.out_begin);
    }
    return out;
  }

 private:
  static int64_t bytes_of(int64_t elements, DType dtype) {
    return elements * static_cast<int64_t>(dtype_size(dtype));
  }

  // out = the tensor as `dtype`, either its own type or float32.
  void read(const TensorInfo& tensor, DType dtype, std::byte* out) {
    const auto count = static_cast<int64_t>(tensor.bytes / dtype_size(tensor.dtype));
    const bool same = tensor.dtype == dtype;
    if (!same) raw_.resize(std::max(raw_.size(), tensor.bytes));
    std::byte* stored = same ? out : raw_.data();
    reader_.read(tensor, {stored, tensor.bytes});
    if (const int64_t at = first_not_finite(tensor.dtype, stored, count); at >= 0)
      problems_.add(cat(shown(tensor.name), ": element ", at, " is not a finite number"));
    if (!same) decode_f32(tensor.dtype, stored, reinterpret_cast<float*>(out), count);
  }
  static size_t bytes_as(const TensorInfo& tensor, DType dtype) {
    return tensor.bytes / dtype_size(tensor.dtype) * dtype_size(dtype);
  }
  // Reads A, and returns B, which is valid until the next call.
  const std::byte* read(const TensorInfo& a, const TensorInfo& b, DType dtype, std::byte* out) {
    read(a, dtype, out);
    converted_.resize(std::max(converted_.size(), bytes_as(b, dtype)));
    read(b, dtype, converted_.data());
    return converted_.data();
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
      read(module.a, dtype, stacked.a.data());
      read(module.b, dtype, stacked.b.data());
    }
    const auto bytes = static_cast<size_t>(module.rank * bytes_of(module.out, dtype));
    converted_.resize(std::max(converted_.size(), bytes));
    take_expert({.a = stacked.a.data(),
                 .b = stacked.b.data(),
                 .size = dtype_size(dtype),
                 .experts = module.experts,
                 .rank = module.rank,
                 .in = module.in,
                 .out = module.out,
                 .transposed = module.transposed},
                piece.expert, a, converted_.data());
    if (piece.expert + 1 == module.experts) stacked_.erase(&module);
    return converted_.data();
  }

  struct Stacked {
    DType dtype = DType::kF32;
    std::vector<std::byte> a;
    std::vector<std::byte> b;
  };

  TensorReader reader_;
  Problems& problems_;
  // Memory for one tensor, kept from one to the next.
  std::vector<std::byte> raw_;
  std::vector<std::byte> converted_;
  std::map<const PlannedModule*, Stacked> stacked_;
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
                                   const AdapterLimits& limits) {
  return guarded<LoadedAdapter>(source, [&]() -> Result<LoadedAdapter> {
    Examined found = examine(source, &targets, limits);
    Problems& problems = found.plan.problems;
    if (!problems.empty()) return refused(source, found.plan);
    auto adapter = std::make_shared<AdapterWeights>();
    adapter->sites.resize(static_cast<size_t>(targets.num_sites));
    SiteLoader loader(found.file, problems);
    for (const SitePlan& site : found.sites)
      adapter->sites[static_cast<size_t>(site.site)] = loader.load(site);
    if (!problems.empty()) return refused(source, found.plan);
    return LoadedAdapter{std::move(adapter), describe(found)};
  });
}

}  // namespace quire::lora
