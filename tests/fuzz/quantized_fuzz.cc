// A quantized checkpoint: the readers of all methods accept it or throw Error, and the weights of accepted
// checkpoints can be read. The input selects the method, the shapes and types of its tensors, and the tensors
// that differ from them.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "fuzz/fuzz.h"
#include "io/checkpoint.h"
#include "quant/quant_layout.h"

namespace quire {
namespace {

using nlohmann::json;

// Returns the bytes of the input one by one, then zeros.
class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  uint8_t byte() { return at_ < bytes_.size() ? bytes_[at_++] : 0; }
  template <class T, size_t kCount>
  const T& one_of(const std::array<T, kCount>& all) {
    return all[byte() % kCount];
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

struct Part {
  std::string suffix;
  std::string dtype;
  std::vector<int64_t> shape;
};

struct Sizes {
  int64_t n;
  int64_t k;
  int64_t group;
  int64_t bits;

  int64_t groups() const { return (k + group - 1) / group; }
  int64_t words(int64_t codes) const { return (codes * bits + 31) / 32; }
};

struct Method {
  const char* name;
  std::vector<Part> (*parts)(const Sizes&);
};

const std::array<Method, 21> kMethods = {{
    {"gptq",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".qweight", "I32", {s.words(s.k), s.n}},
               {".scales", "F16", {s.groups(), s.n}},
               {".qzeros", "I32", {s.groups(), s.words(s.n)}},
               {".g_idx", "I32", {s.k}}};
     }},
    {"awq",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".qweight", "I32", {s.k, s.n / 8}},
               {".scales", "F16", {s.groups(), s.n}},
               {".qzeros", "I32", {s.groups(), s.n / 8}}};
     }},
    {"compressed-tensors",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight_packed", "I32", {s.n, s.words(s.k)}},
               {".weight_shape", "I64", {2}},
               {".weight_scale", "BF16", {s.n, s.groups()}},
               {".weight_zero_point", "I32", {s.words(s.n), s.groups()}},
               {".weight_g_idx", "I32", {s.k}}};
     }},
    {"compressed-tensors",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight", "I8", {s.n, s.k}},
               {".weight_scale", "F32", {s.n, s.groups()}},
               {".weight_zero_point", "I8", {s.n, s.groups()}}};
     }},
    {"compressed-tensors",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight_packed", "U8", {s.n, s.k / 2}},
               {".weight_scale", "F8_E4M3", {s.n, s.k / 16}},
               {".weight_global_scale", "F32", {1}}};
     }},
    {"fp8",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight", "F8_E4M3", {s.n, s.k}},
               {".weight_scale_inv", "F32", {(s.n + s.group - 1) / s.group, s.groups()}}};
     }},
    {"modelopt",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight", "U8", {s.n, s.k / 2}},
               {".weight_scale", "F8_E4M3", {s.n, s.k / 16}},
               {".weight_scale_2", "F32", {}}};
     }},
    {"bitsandbytes",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight", "U8", {s.n * s.k / 2, 1}},
               {".weight.absmax", "U8", {s.n * s.groups()}},
               {".weight.quant_map", "F32", {16}},
               {".weight.nested_absmax", "F32", {(s.n * s.groups() + 255) / 256}},
               {".weight.nested_quant_map", "F32", {256}},
               {".weight.quant_state.bitsandbytes__nf4", "U8", {0}}};
     }},
    {"bitsandbytes",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight", "I8", {s.n, s.k}}, {".SCB", "F32", {s.n}}};
     }},
    {"bitnet",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight", "U8", {s.n / 4, s.k}}, {".weight_scale", "F32", {1}}};
     }},
    {"squeezellm",
     [](const Sizes& s) -> std::vector<Part> {
       const int64_t bits = s.bits % 2 == 0 ? 4 : 3;
       return {{".qweight", "I32", {s.k * bits / 32, s.n}},
               {".lookup_table", "F16", {s.n, int64_t{1} << bits}},
               {".rows", "I32", {s.n + 1}},
               {".cols", "I32", {s.group}},
               {".vals", "F32", {s.group}}};
     }},
    {"squeezellm",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".qweight", "I32", {s.k / 8, s.n}},
               {".lookup_table", "F32", {s.n, 16}},
               {".full_rows", "F16", {s.k, 2}},
               {".full_row_indices", "I32", {2}}};
     }},
    {"mxfp4",
     [](const Sizes& s) -> std::vector<Part> {
       return {{"_blocks", "U8", {2, s.n, s.k / 32, 16}}, {"_scales", "U8", {2, s.n, s.k / 32}}};
     }},
    {"compressed-tensors",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight", "F8_E4M3", {s.n, s.k}}, {".weight_scale", "F32", {s.n, 1}}};
     }},
    {"compressed-tensors",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".compressed", "F16", {s.n * s.k / 2}},
               {".bitmask", "U8", {s.n, (s.k + 7) / 8}},
               {".shape", "I64", {2}}};
     }},
    {"quark",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight", "U8", {s.n, s.k * (s.bits % 2 == 0 ? 4 : 6) / 8}},
               {".weight_scale", "U8", {s.n, s.k / 32}}};
     }},
    {"quark",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight", "I8", {s.k, s.n}},
               {".weight_scale", "F32", {s.groups(), s.n}},
               {".weight_zero_point", "I8", {s.groups(), s.n}}};
     }},
    {"quark",
     [](const Sizes& s) -> std::vector<Part> {
       return {{".weight", "I32", {s.k, s.n / 8}},
               {".weight_scale", "F16", {s.groups(), s.n}},
               {".weight_zero_point", "I32", {s.groups(), s.n / 8}}};
     }},
    {"torchao",
     [](const Sizes& s) -> std::vector<Part> {
       return {{"._weight_qdata", "I8", {s.n, s.k}},
               {"._weight_scale", "F32", {s.n, s.groups()}},
               {"._weight_zero_point", "I8", {s.n, s.groups()}}};
     }},
    {"torchao",
     [](const Sizes& s) -> std::vector<Part> {
       return {{"._weight_qdata", "I8", {s.n, s.k / 2}},
               {"._weight_scale", "BF16", {s.groups(), s.n}},
               {"._weight_zero_point", "BF16", {s.groups(), s.n}}};
     }},
    {"torchao",
     [](const Sizes& s) -> std::vector<Part> {
       return {{"._weight_qdata", "I32", {s.n / 8, s.k / 128, 32, 4}},
               {"._weight_scale_and_zero", "BF16", {s.groups(), s.n, 2}}};
     }},
}};

constexpr std::array<int64_t, 16> kSizes = {0, 1, 2, 3, 8, 16, 31, 32, 33, 40, 64, 72, 96, 128, 256, 300};

json quark_weight(const Sizes& sizes, Input& input) {
  static constexpr std::array<const char*, 8> kTypes = {"fp4",  "fp6_e2m3", "fp6_e3m2", "fp8_e4m3",
                                                        "int8", "uint8",    "int4",     "uint4"};
  static constexpr std::array<const char*, 3> kScales = {"per_group", "per_channel", "per_block"};
  return {{"dtype", input.one_of(kTypes)},
          {"qscheme", input.one_of(kScales)},
          {"group_size", sizes.group},
          {"block_size", {sizes.group, sizes.bits}},
          {"symmetric", input.byte() % 2 == 0}};
}

// torchao's description of a weight in the header.
json torchao_weight(const Sizes& sizes, Input& input) {
  static constexpr std::array<const char*, 5> kTypes = {
      "Int8Tensor", "IntxUnpackedToInt8Tensor", "Float8Tensor", "Int4Tensor", "Int4TilePackedTo4dTensor"};
  json fields = {{"block_size", {1, sizes.group}}, {"shape", {sizes.n, sizes.k}}};
  const uint8_t how = input.byte();
  if ((how & 1) != 0) fields["block_size"] = {sizes.n, sizes.k};
  if ((how & 2) != 0) fields["target_dtype"] = {{"_data", "int" + std::to_string(sizes.bits)}};
  if ((how & 4) != 0) fields["shape"][how / 8 % 2] = input.one_of(kSizes);
  return {{"_type", input.one_of(kTypes)}, {"_data", fields}};
}

json config_of(const Method& method, const Sizes& sizes, Input& input) {
  json config = {{"quant_method", method.name}, {"bits", sizes.bits}, {"group_size", sizes.group}};
  const uint8_t flags = input.byte();
  if ((flags & 1) != 0) config["sym"] = false;
  if ((flags & 2) != 0) config["checkpoint_format"] = "gptq_v2";
  if ((flags & 4) != 0) config["zero_point"] = false;
  if ((flags & 8) != 0) config["linear_class"] = "autobitlinear";
  if ((flags & 16) != 0) config["weight_block_size"] = {sizes.group, sizes.group};
  if ((flags & 32) != 0) config["group_size"] = static_cast<int8_t>(input.byte());
  if ((flags & 128) != 0) config["sparsity_config"] = {{"format", "sparse-bitmask"}};
  json weights = {{"group_size", config["group_size"]}, {"num_bits", sizes.bits}};
  if ((flags & 64) != 0) {
    weights["strategy"] = "block";
    weights["block_structure"] = {sizes.group, static_cast<int8_t>(input.byte())};
  }
  config["config_groups"] = {{"group_0", {{"weights", weights}}}};
  if (config["quant_method"] == "quark")
    config["global_quant_config"] = {{"weight", quark_weight(sizes, input)}};
  return {{"quantization_config", config}};
}

// Changes or removes some of the method's tensors.
void damage(std::vector<Part>& parts, Input& input) {
  static constexpr std::array<const char*, 9> kTypes = {"I32", "I64", "F32",     "F16", "BF16",
                                                        "U8",  "I8",  "F8_E4M3", "BOOL"};
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint8_t how = input.byte();
    if (how < 160) continue;
    if (how < 180) {
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i--));
    } else if (how < 200) {
      parts[i].dtype = input.one_of(kTypes);
    } else if (how < 240 && !parts[i].shape.empty()) {
      parts[i].shape[input.byte() % parts[i].shape.size()] = input.one_of(kSizes);
    } else {
      parts[i].shape.resize(input.byte() % 4, input.one_of(kSizes));
    }
  }
}

// Contents of a tensor of the module: arbitrary bytes for most tensors, valid values for some.
std::string content_of(const Part& part, size_t bytes, const Sizes& sizes, Input& input) {
  std::string data(bytes, '\0');
  const auto put = [&](const auto& values) {
    const auto from = std::as_bytes(std::span(values));
    std::ranges::copy(from.first(std::min(bytes, from.size())),
                      std::as_writable_bytes(std::span(data)).begin());
  };
  const uint8_t how = input.byte();
  if (how < 64) {
    for (char& c : data) c = static_cast<char>(input.byte());
  } else if (part.suffix.ends_with("g_idx")) {
    std::vector<int32_t> groups(static_cast<size_t>(sizes.k));
    for (size_t i = 0; i < groups.size(); ++i)
      groups[i] = static_cast<int32_t>(how % 2 == 0 ? static_cast<int64_t>(i) / sizes.group
                                                    : static_cast<int64_t>(i) % sizes.groups());
    put(groups);
  } else if (part.suffix == ".rows") {
    // The first rows have one outlier each.
    std::vector<int32_t> bounds(static_cast<size_t>(sizes.n + 1));
    for (size_t i = 0; i < bounds.size(); ++i)
      bounds[i] = static_cast<int32_t>(how % 2 == 0 && i == bounds.size() - 1
                                           ? sizes.group
                                           : std::min<int64_t>(static_cast<int64_t>(i), sizes.group));
    put(bounds);
  } else if (part.suffix == ".bitmask") {
    std::ranges::fill(data, '\x0f');
  } else if (part.suffix == ".weight_shape" || part.suffix == ".shape") {
    put(std::array<int64_t, 2>{sizes.n, sizes.k});
  } else if (part.suffix == ".weight.quant_map") {
    put(std::array<float, 16>{-1.0F, -0.6961928F, -0.52507305F, -0.3949175F, -0.28444138F, -0.18477343F,
                              -0.09105004F, 0.0F, 0.0795803F, 0.1609302F, 0.2461123F, 0.33791524F,
                              0.44070983F, 0.562617F, 0.72295684F, 1.0F});
  } else {
    std::ranges::fill(data, static_cast<char>(how));
  }
  return data;
}

std::string state_of(const Sizes& sizes, Input& input) {
  json state = {{"quant_type", "nf4"}, {"blocksize", sizes.group}, {"shape", {sizes.n, sizes.k}}};
  const uint8_t how = input.byte();
  if ((how & 1) != 0) state["nested_blocksize"] = 256;
  if ((how & 2) != 0) state["nested_offset"] = 0.5;
  if ((how & 4) != 0) state["shape"][how % 2] = static_cast<int64_t>(input.byte()) << (how / 8);
  if ((how & 128) != 0) state["blocksize"] = input.byte();
  return state.dump();
}

std::string file_of(std::vector<Part> parts, const Sizes& sizes, Input& input) {
  constexpr int64_t kMost = 1 << 20;
  json header = json::object();
  std::string data;
  for (Part& part : parts) {
    const bool is_state = part.suffix.find("quant_state") != std::string::npos;
    const std::string state = is_state ? state_of(sizes, input) : "";
    if (is_state) part.shape = {static_cast<int64_t>(state.size())};
    int64_t bytes = part.dtype == "I64"                           ? 8
                    : part.dtype == "I32" || part.dtype == "F32"  ? 4
                    : part.dtype == "F16" || part.dtype == "BF16" ? 2
                                                                  : 1;
    for (const int64_t dim : part.shape) bytes = std::min(bytes * dim, kMost + 1);
    if (bytes > kMost) continue;
    const std::string content = is_state ? state.substr(0, static_cast<size_t>(bytes))
                                         : content_of(part, static_cast<size_t>(bytes), sizes, input);
    header["m" + part.suffix] = {{"dtype", part.dtype},
                                 {"shape", part.shape},
                                 {"data_offsets", {data.size(), data.size() + content.size()}}};
    data += content;
  }
  if (const bool torchao = !parts.empty() && parts.front().suffix.starts_with("._weight_"); torchao)
    header["__metadata__"] = {{"m.weight", torchao_weight(sizes, input).dump()}};
  const std::string text = header.dump();
  const uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text + data;
}

void read_codes(const QuantizedMatrix& matrix) {
  const QuantLayout at(matrix.format(), matrix.cols());
  std::vector<std::byte> panel(static_cast<size_t>(at.panel_bytes));
  const QuantizedMatrix* const parts[] = {&matrix};
  QuantizedPacker(at).pack(parts, 0, panel.data());
  QuantizedPacker(at).pack(parts, (matrix.rows() - 1) / QuantLayout::kPanel * QuantLayout::kPanel,
                           panel.data());
  std::vector<Outlier> outliers;
  for (int64_t row = 0; row < matrix.rows(); ++row) matrix.read_outliers(row, outliers);
  fuzz::require(static_cast<int64_t>(outliers.size()) == matrix.num_outliers(), "outliers are as many");
  for (const Outlier& outlier : outliers)
    fuzz::require(outlier.feature >= 0 && outlier.feature < matrix.cols(), "an outlier is inside the matrix");
  std::vector<int32_t> order(matrix.column_order().begin(), matrix.column_order().end());
  fuzz::require(order.empty() || static_cast<int64_t>(order.size()) == matrix.cols(), "an order is whole");
  std::ranges::sort(order);
  for (size_t i = 0; i < order.size(); ++i)
    fuzz::require(order[i] == static_cast<int32_t>(i), "an order has each column once");
}

void check(Input& input) {
  const Method& method = input.one_of(kMethods);
  Sizes sizes = {input.one_of(kSizes), input.one_of(kSizes), std::max<int64_t>(1, input.one_of(kSizes)),
                 input.byte() % 10};
  const std::string config = config_of(method, sizes, input).dump();
  std::vector<Part> parts = method.parts(sizes);
  damage(parts, input);
  const std::string file = file_of(std::move(parts), sizes, input);
  const auto checkpoint =
      Checkpoint::from_memory({"fuzz", config, "", std::as_bytes(std::span(file.data(), file.size()))});
  for (const std::string& name : checkpoint->names()) {
    const TensorInfo* info = checkpoint->find(name);
    fuzz::require(info != nullptr && info->quantized == (checkpoint->quantized(name) != nullptr),
                  "each name is found");
    if (info->quantized) {
      read_codes(*checkpoint->quantized(name));
    } else {
      fuzz::require(checkpoint->bytes(name).size() == info->bytes, "a tensor has its bytes");
    }
    checkpoint->release(name);
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::Input input(std::span(data, size));
  try {
    quire::check(input);
  } catch (const quire::Error&) {
  }
  return 0;
}
