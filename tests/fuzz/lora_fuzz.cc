// A LoRA adapter: adapter_config.json, a zero byte, and a safetensors file; or a GGUF file. The reader
// refuses it with a message or accepts it, and the pieces of an accepted one are disjoint and as large as
// their buffers.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/error.h"
#include "fuzz/fuzz.h"
#include "io/gguf/gguf_file.h"
#include "lora/adapter_plan.h"
#include "lora/gguf_adapter.h"
#include "lora/load_adapter.h"
#include "support/temp_dir.h"

namespace quire {
namespace {

// Two layers with a fused site, a module in two ranges, interleaved rows, and modules of every other kind.
AdapterTargets make_targets() {
  AdapterTargets out;
  out.architecture = "MixtralForCausalLM";
  out.model_type = "mixtral";
  out.prefixes = {"model.language_model.", "model.", ""};
  out.num_layers = 2;
  for (int32_t layer = 0; layer < 2; ++layer) {
    const auto add = [&](const std::string& name, int64_t begin, int64_t rows,
                         std::optional<RowLayout> layout) {
      out.modules["layers.{}." + name].ranges.push_back({.numbers = {layer, -1, -1, -1},
                                                         .site = layer,
                                                         .out_begin = begin,
                                                         .rows = rows,
                                                         .in = 4,
                                                         .site_rows = 8,
                                                         .unit = name == "self_attn.q_proj" ? 4 : 2,
                                                         .layout = std::move(layout)});
    };
    add("q_proj", 0, 4, {});
    add("k_proj", 4, 2, {});
    add("k_proj", 6, 2, {});
    add("qkv_proj", 0, 8, RowLayout{2, {2, 1, 1}, {0, 1, 2}});
    // With the names of GGUF files.
    add("self_attn.q_proj", 0, 4, {});
    add("self_attn.k_proj", 4, 2, {});
    add("self_attn.v_proj", 6, 2, {});
  }
  out.num_sites = 7;
  out.modules["embed_tokens"] = {.kind = AdapterModuleKind::kEmbedding,
                                 .ranges = {{.site = 6, .rows = 10, .in = 4, .site_rows = 10}}};
  out.modules["layers.{}.experts"] = {.kind = AdapterModuleKind::kStack,
                                      .parameters = {"up_proj", "down_proj"}};
  for (const std::string name : {"up_proj", "down_proj"}) {
    AdapterModule& stacked = out.modules["layers.{}.experts." + name];
    stacked.kind = AdapterModuleKind::kStacked;
    for (int32_t expert = 0; expert < 2; ++expert) {
      const int32_t site = name == "up_proj" ? 2 + expert : 4 + expert;
      stacked.ranges.push_back({.numbers = {0, -1, -1, -1},
                                .site = site,
                                .rows = name == "up_proj" ? 8 : 4,
                                .in = name == "up_proj" ? 4 : 6,
                                .site_rows = name == "up_proj" ? 8 : 4});
    }
  }
  for (int32_t expert = 0; expert < 2; ++expert) {
    out.modules["layers.{}.block_sparse_moe.experts.{}.w1"].ranges.push_back(
        {.numbers = {0, expert, -1, -1}, .site = 2 + expert, .rows = 8, .in = 4, .site_rows = 8});
  }
  out.unused = {"layers.{}.unused", "mtp.*"};
  out.own_components = {"layers", "embed_tokens"};
  return out;
}

void check_site(const LowRank& site) {
  const size_t size = dtype_size(site.dtype);
  int64_t end = 0;
  size_t outputs = 0;
  for (const LowRank::Piece& piece : site.pieces) {
    fuzz::require(piece.out_begin >= end && piece.rank > 0, "pieces are disjoint");
    end = piece.out_begin + piece.n;
    outputs += static_cast<size_t>(piece.n * piece.rank);
  }
  fuzz::require(end <= 8, "pieces are inside of the site");
  fuzz::require(site.a.size() == static_cast<size_t>(site.ranks() * site.k) * size, "A has all ranks");
  fuzz::require(site.b.size() == outputs * size, "B has all outputs");
  fuzz::require(site.bias.size() == 0 || site.bias.size() == 8 * sizeof(float), "the bias has all rows");
}

void load(const std::filesystem::path& path, const AdapterTargets& targets) {
  const auto loaded = lora::load_adapter({"fuzz", path}, targets, {.max_rank = 64});
  if (!loaded.ok()) return fuzz::require(!loaded.failure().message.empty(), "a refusal has a reason");
  fuzz::require(!loaded->info.modules.empty(), "an adapter has an effect");
  for (const auto& site : loaded->adapter->sites) {
    if (site != nullptr) check_site(*site);
  }
}

// Writing files takes most of the time, so only valid headers are loaded.
bool has_valid_header(const lora::AdapterFile& file, const AdapterTargets& targets) {
  lora::AdapterPlan plan = lora::plan_adapter(file, &targets, 64);
  lora::plan_sites(plan.modules, plan.problems);
  return plan.problems.empty();
}

lora::AdapterFile file_of(lora::GgufAdapter adapter) {
  lora::AdapterFile file;
  file.tensors = std::move(adapter.tensors);
  file.gguf = std::move(adapter);
  return file;
}

void check_gguf(std::string_view input, const AdapterTargets& targets) {
  static const test::TempDir dir;
  const GgufFile gguf(std::as_bytes(std::span(input)), "fuzz");
  lora::plan_adapter(file_of(lora::read_gguf_adapter(gguf, nullptr)), nullptr, 0);
  const lora::AdapterFile file = file_of(lora::read_gguf_adapter(gguf, &targets));
  for (const TensorInfo& tensor : file.tensors) {
    const lora::GgufForm& form = file.gguf->forms.at(tensor.name);
    fuzz::require(tensor.offset <= input.size() && form.bytes <= input.size() - tensor.offset,
                  "a part of a tensor is inside");
  }
  if (!has_valid_header(file, targets)) return;
  dir.write("adapter.gguf", input);
  load(dir.path() / "adapter.gguf", targets);
}

void check(std::string_view input) {
  static const AdapterTargets targets = make_targets();
  static const test::TempDir dir;
  if (is_gguf(std::as_bytes(std::span(input)))) return check_gguf(input, targets);
  const size_t zero = std::min(input.find('\0'), input.size());
  const std::string_view weights = input.substr(std::min(input.size(), zero + 1));
  lora::AdapterFile file;
  file.config = input.substr(0, zero);
  file.tensors = parse_safetensors_header(std::as_bytes(std::span(weights)), weights.size(), "fuzz").tensors;
  lora::plan_adapter(file, nullptr, 0);
  if (!has_valid_header(file, targets)) return;
  dir.write("adapter_config.json", file.config);
  dir.write("adapter_model.safetensors", weights);
  load(dir.path(), targets);
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    quire::check(quire::fuzz::text_of(data, size));
  } catch (const quire::Error&) {
  }
  return 0;
}
