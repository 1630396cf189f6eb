#include "quantize/target.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"
#include "quantize/float4.h"

namespace quire {
namespace {

using nlohmann::ordered_json;

constexpr std::array<TargetFormat, 11> kFormats = {{
    {.name = "gptq",
     .summary = "GPTQ packing: 4 bits (also 8, 3, 2), groups of 128",
     .packing = Packing::kGptq,
     .bits = 4,
     .other_bits = {8, 3, 2},
     .group_size = 128,
     .allows_group_size = true,
     .allows_zero_points = true},
    {.name = "awq",
     .summary = "AWQ packing: 4 bits with zero points, groups of 128",
     .packing = Packing::kAwq,
     .bits = 4,
     .group_size = 128,
     .allows_group_size = true,
     .zero_points = true},
    {.name = "w4a16",
     .summary = "compressed-tensors: 4 bits, groups of 128",
     .packing = Packing::kPackedInts,
     .bits = 4,
     .group_size = 128,
     .allows_group_size = true,
     .allows_zero_points = true},
    {.name = "w8a16",
     .summary = "compressed-tensors: 8 bits, one scale per row",
     .packing = Packing::kPackedInts,
     .bits = 8,
     .allows_group_size = true,
     .allows_zero_points = true},
    {.name = "w8a8",
     .summary = "compressed-tensors: 8-bit weights and activations",
     .packing = Packing::kInt8,
     .bits = 8,
     .int8_activations = true},
    {.name = "fp8",
     .summary = "compressed-tensors: 8-bit floats, one scale per row",
     .packing = Packing::kFloat8Rows,
     .bits = 8},
    {.name = "fp8-block",
     .summary = "8-bit floats, one scale per 128 x 128 block",
     .packing = Packing::kFloat8Blocks,
     .bits = 8,
     .group_size = 128},
    {.name = "nvfp4",
     .summary = "compressed-tensors: 4-bit floats, e4m3 scales per group of 16",
     .packing = Packing::kNvFp4,
     .bits = 4,
     .group_size = kNvFp4Group},
    {.name = "mxfp4",
     .summary = "compressed-tensors: 4-bit floats, power-of-two scales per group of 32",
     .packing = Packing::kMxFp4,
     .bits = 4,
     .group_size = kMxFp4Group},
    {.name = "bnb-nf4",
     .summary = "bitsandbytes: NF4, blocks of 64",
     .packing = Packing::kTable,
     .bits = 4,
     .group_size = 64,
     .table = "nf4"},
    {.name = "bnb-fp4",
     .summary = "bitsandbytes: FP4, blocks of 64",
     .packing = Packing::kTable,
     .bits = 4,
     .group_size = 64,
     .table = "fp4"},
}};

[[noreturn]] void refuse(const TargetFormat& format, std::string_view option, const std::string& why) {
  throw Error(cat(option, ": the format ", format.name, " ", why));
}

}  // namespace

std::span<const TargetFormat> target_formats() {
  return kFormats;
}

bool Target::is_integer() const {
  switch (format->packing) {
    case Packing::kGptq:
    case Packing::kAwq:
    case Packing::kPackedInts:
    case Packing::kInt8:
      return true;
    default:
      return false;
  }
}

IntRounding Target::rounding() const {
  DType scales = DType::kF16;
  if (format->packing == Packing::kPackedInts) scales = float_type;
  if (format->packing == Packing::kInt8) scales = DType::kF32;
  return {.bits = bits, .zero_points = zero_points, .scales = scales};
}

Target make_target(std::string_view name, const TargetOptions& options) {
  const auto at = std::ranges::find(kFormats, name, &TargetFormat::name);
  if (at == kFormats.end()) {
    std::vector<std::string> names;
    for (const TargetFormat& format : kFormats) names.emplace_back(format.name);
    throw Error(cat("--format: '", name, "' is not known; use ", join(names, ", "),
                    " or gguf-TYPE, for example gguf-q4_k"));
  }
  const TargetFormat& format = *at;
  Target target{.format = &format,
                .bits = format.bits,
                .group_size = format.group_size,
                .zero_points = format.zero_points};
  target.nested_scales = format.packing == Packing::kTable && options.nested_scales;
  if (options.bits && *options.bits != format.bits) {
    if (std::ranges::find(format.other_bits, *options.bits) == format.other_bits.end() || *options.bits == 0)
      refuse(format, "--bits", cat("does not support ", *options.bits, " bits"));
    target.bits = *options.bits;
  }
  if (options.group_size && *options.group_size != format.group_size) {
    if (!format.allows_group_size) refuse(format, "--group-size", "has a fixed group size");
    if (*options.group_size != 0 && (*options.group_size < 16 || *options.group_size % 16 != 0))
      refuse(format, "--group-size", "needs a multiple of 16, or 0 for one group per row");
    target.group_size = *options.group_size;
  }
  if (options.zero_points && *options.zero_points != format.zero_points) {
    if (!format.allows_zero_points)
      refuse(format, format.zero_points ? "--symmetric" : "--asymmetric",
             format.zero_points ? "always has zero points" : "has no zero points");
    target.zero_points = *options.zero_points;
  }
  return target;
}

bool Target::compressed_tensors() const {
  switch (format->packing) {
    case Packing::kPackedInts:
    case Packing::kInt8:
    case Packing::kFloat8Rows:
    case Packing::kNvFp4:
    case Packing::kMxFp4:
      return true;
    default:
      return false;
  }
}

ordered_json quantization_config(const Target& target, const std::vector<std::string>& ignored,
                                 bool kv_scales) {
  const TargetFormat& format = *target.format;
  const int64_t group = target.group_size == 0 ? -1 : target.group_size;
  switch (format.packing) {
    case Packing::kGptq:
      // The first version of the format cannot represent zero points of 0.
      return {{"quant_method", "gptq"},
              {"bits", target.bits},
              {"group_size", group},
              {"desc_act", target.act_order},
              {"sym", !target.zero_points},
              {"lm_head", false},
              {"checkpoint_format", target.zero_points ? "gptq_v2" : "gptq"},
              {"pack_dtype", "int32"}};
    case Packing::kAwq:
      return {{"quant_method", "awq"}, {"bits", target.bits}, {"group_size", group},
              {"zero_point", true},    {"version", "gemm"},   {"modules_to_not_convert", ignored}};
    case Packing::kTable:
      return {{"quant_method", "bitsandbytes"},
              {"load_in_4bit", true},
              {"load_in_8bit", false},
              {"bnb_4bit_quant_type", format.table},
              {"bnb_4bit_use_double_quant", target.nested_scales},
              {"bnb_4bit_compute_dtype", dtype_name(target.float_type)},
              {"bnb_4bit_quant_storage", "uint8"},
              {"llm_int8_skip_modules", ignored}};
    case Packing::kFloat8Blocks:
      return {{"quant_method", "fp8"},
              {"fmt", "e4m3"},
              {"activation_scheme", "dynamic"},
              {"weight_block_size", {target.group_size, target.group_size}},
              {"modules_to_not_convert", ignored}};
    default:
      break;
  }
  const bool nvfp4 = format.packing == Packing::kNvFp4;
  const bool float4 = nvfp4 || format.packing == Packing::kMxFp4;
  const bool floats = float4 || format.packing == Packing::kFloat8Rows;
  const bool packed = format.packing == Packing::kPackedInts || float4;
  ordered_json weights = {{"num_bits", target.bits},
                          {"type", floats ? "float" : "int"},
                          {"symmetric", !target.zero_points},
                          {"strategy", target.group_size == 0 ? "channel" : "group"},
                          {"group_size", nullptr},
                          {"dynamic", false},
                          {"actorder", nullptr},
                          {"observer", "minmax"}};
  if (target.group_size != 0) weights["group_size"] = target.group_size;
  if (target.act_order) weights["actorder"] = "group";
  if (nvfp4) weights["strategy"] = "tensor_group";
  if (float4) weights["scale_dtype"] = nvfp4 ? "torch.float8_e4m3fn" : "torch.uint8";
  ordered_json activations;
  if (!packed) {
    activations = {{"num_bits", 8},     {"type", floats ? "float" : "int"},
                   {"symmetric", true}, {"strategy", "token"},
                   {"dynamic", true},   {"group_size", nullptr}};
  }
  const char* layout = nvfp4    ? "nvfp4-pack-quantized"
                       : float4 ? "mxfp4-pack-quantized"
                       : packed ? "pack-quantized"
                       : floats ? "float-quantized"
                                : "int-quantized";
  ordered_json kv_scheme;
  if (kv_scales)
    kv_scheme = {
        {"num_bits", 8}, {"type", "float"}, {"strategy", "tensor"}, {"symmetric", true}, {"dynamic", false}};
  return {{"quant_method", "compressed-tensors"},
          {"format", layout},
          {"quantization_status", "compressed"},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", weights},
              {"input_activations", activations},
              {"output_activations", nullptr}}}}},
          {"ignore", ignored},
          {"kv_cache_scheme", kv_scheme}};
}

}  // namespace quire
