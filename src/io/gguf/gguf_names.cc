// The supported architectures and the names of their tensors.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "base/strings.h"
#include "io/gguf/gguf_arch.h"
#include "io/gguf/gguf_configs.h"
#include "io/gguf/gguf_fields.h"
#include "io/gguf/gguf_name_tables.h"

namespace quire {
namespace {

using namespace gguf_names;

// If two rows have the same name, the first one whose `when` is true is used.
struct Row {
  GgufArch arch;
  bool (*when)(const GgufModel&) = nullptr;
};

bool has_experts(const GgufModel& model) {
  return gguf_integer(model, "expert_count").value_or(0) > 0;
}
bool has_no_experts(const GgufModel& model) {
  return !has_experts(model);
}
bool has_window(const GgufModel& model) {
  return gguf_integer(model, "attention.sliding_window").value_or(0) > 0;
}
bool has_sigmoid_scores(const GgufModel& model) {
  constexpr int64_t kSigmoid = 2;
  const auto function = gguf_integer(model, "expert_gating_func");
  const int64_t first = gguf_integer(model, "leading_dense_block_count").value_or(0);
  return function ? *function == kSigmoid : has_tensor(model, first, "exp_probs_b.bias");
}
bool has_classifier(const GgufModel& model) {
  return has_tensor(model, "cls.output.weight");
}
bool has_granite_factors(const GgufModel& model) {
  return gguf_number(model, "embedding_scale").has_value();
}
bool has_two_norms(const GgufModel& model) {
  return has_tensor(model, 0, "attn_norm_2.weight");
}

const std::array<Row, 90> kRows = {{
    {{"afmoe", "AfmoeForCausalLM", "afmoe", kAfmoe, configure_afmoe}},
    {{"apertus", "ApertusForCausalLM", "apertus", kApertus, configure_llama, GgufStyle::kPlain, kXielu}},
    {{"arcee", "ArceeForCausalLM", "arcee", kLlama, configure_llama, GgufStyle::kPairs}},
    {{"bert", "BertForSequenceClassification", "bert", kBert, configure_bert}, has_classifier},
    {{"bert", "BertModel", "bert", kBert, configure_bert}},
    {{"bloom", "BloomForCausalLM", "bloom", kBloom, configure_bloom}},
    {{"chatglm", "GlmForCausalLM", "glm", kGlm, configure_glm}},
    {{"cohere2", "Cohere2ForCausalLM", "cohere2", kQwen3, configure_cohere}},
    {{"cohere2moe", "Cohere2MoeForCausalLM", "cohere2_moe", kDots1, configure_cohere2_moe}},
    {{"command-r", "CohereForCausalLM", "cohere", kQwen3, configure_cohere}},
    {{"deepseek2", "DeepseekV3ForCausalLM", "deepseek_v3", kDeepseek, configure_deepseek},
     has_sigmoid_scores},
    {{"deepseek2", "YoutuForCausalLM", "youtu", kDeepseek, configure_deepseek}, has_no_experts},
    {{"deepseek2", "DeepseekV2ForCausalLM", "deepseek_v2", kDeepseek, configure_deepseek}},
    {{"deepseek32", "DeepseekV32ForCausalLM", "deepseek_v32", kDeepseekIndexed, configure_indexed}},
    {{"dots1", "Dots1ForCausalLM", "dots1", kDots1, configure_deepseek_moe}},
    {{"ernie4_5", "Ernie4_5ForCausalLM", "ernie4_5", kLlama, configure_llama}},
    {{"ernie4_5-moe", "Ernie4_5_MoeForCausalLM", "ernie4_5_moe", kErnieMoe, configure_ernie_moe}},
    {{"eurobert", "EuroBertModel", "eurobert", kLlama, configure_llama}},
    {{"exaone-moe", "ExaoneMoeForCausalLM", "exaone_moe", kDots1, configure_exaone_moe}},
    {{"exaone4", "Exaone4ForCausalLM", "exaone4", kOlmo2, configure_windows}},
    {{"falcon", "FalconForCausalLM", "falcon", kFalconTwoNorms, configure_falcon}, has_two_norms},
    {{"falcon", "FalconForCausalLM", "falcon", kBloom, configure_falcon}},
    {{"falcon-h1", "FalconH1ForCausalLM", "falcon_h1", kFalconH1, configure_falcon_h1}},
    {{"gemma", "GemmaForCausalLM", "gemma", kLlama, configure_llama, GgufStyle::kNormsPlusOne}},
    {{"gemma-embedding", "Gemma3TextModel", "gemma3_text", kGemma3, configure_gemma_embedding,
      GgufStyle::kNormsPlusOne}},
    {{"gemma2", "Gemma2ForCausalLM", "gemma2", kGemma3, configure_gemma2, GgufStyle::kNormsPlusOne}},
    {{"gemma3", "Gemma3ForCausalLM", "gemma3_text", kGemma3, configure_gemma3, GgufStyle::kNormsPlusOne}},
    {{"gemma3n", "Gemma3nForCausalLM", "gemma3n_text", kGemma3n, configure_gemma3n}},
    {{"gemma4", "Gemma4ForCausalLM", "gemma4_text", kGemma4, configure_gemma4}},
    {{"glm-dsa", "GlmMoeDsaForCausalLM", "glm_moe_dsa", kDeepseekIndexed, configure_indexed}},
    {{"glm4", "Glm4ForCausalLM", "glm4", kGlm, configure_glm}},
    {{"glm4moe", "Glm4MoeForCausalLM", "glm4_moe", kGlm4Moe, configure_deepseek_moe}},
    {{"gpt-oss", "GptOssForCausalLM", "gpt_oss", kGptOss, configure_gpt_oss}},
    {{"gpt2", "GPT2LMHeadModel", "gpt2", kGpt2, configure_gpt2}},
    {{"gptneox", "GPTNeoXForCausalLM", "gpt_neox", kNeox, configure_neox}},
    {{"granite", "GraniteForCausalLM", "granite", kLlama, configure_granite, GgufStyle::kPairs}},
    {{"granite_swa", "GraniteSWAForCausalLM", "granite_swa", kGraniteSwa, configure_granite_swa,
      GgufStyle::kPairs}},
    {{"granitehybrid", "GraniteMoeHybridForCausalLM", "granitemoehybrid", kGraniteHybrid,
      configure_granite_hybrid, GgufStyle::kPairs},
     has_granite_factors},
    {{"granitehybrid", "BambaForCausalLM", "bamba", kBamba, configure_bamba, GgufStyle::kPairs}},
    {{"granitemoe", "GraniteMoeForCausalLM", "granitemoe", kGraniteMoe, configure_granite_moe,
      GgufStyle::kPairs}},
    {{"hunyuan-dense", "HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", kHunyuan, configure_llama}},
    {{"hunyuan-moe", "HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", kHunyuanMoe, configure_hunyuan_moe}},
    {{"hy_v3", "HYV3ForCausalLM", "hy_v3", kHy3, configure_hy_v3}},
    {{"jais2", "Jais2ForCausalLM", "jais2", kLlama, configure_llama}},
    {{"jamba", "JambaForCausalLM", "jamba", kJamba, configure_jamba}},
    {{"kimi-linear", "KimiLinearForCausalLM", "kimi_linear", kKimiLinear, configure_kimi_linear}},
    {{"lfm2", "Lfm2ForCausalLM", "lfm2", kLfm2, configure_lfm2}},
    {{"lfm2moe", "Lfm2MoeForCausalLM", "lfm2_moe", kLfm2, configure_lfm2}},
    {{"llama", "MixtralForCausalLM", "mixtral", kMixtral, configure_mixtral, GgufStyle::kPairs}, has_experts},
    {{"llama", "MistralForCausalLM", "mistral", kLlama, configure_windows, GgufStyle::kPairs}, has_window},
    {{"llama", "LlamaForCausalLM", "llama", kLlama, configure_llama, GgufStyle::kPairs}},
    {{"llama4", "Llama4ForCausalLM", "llama4_text", kLlama4, configure_llama4}},
    {{"mamba2", "Mamba2ForCausalLM", "mamba2", kMamba2, configure_mamba2}},
    {{"mellum", "MellumForCausalLM", "mellum", kQwenMoe, configure_mellum}},
    {{"mimo2", "MiMoV2FlashForCausalLM", "mimo_v2_flash", kMimo2, configure_mimo2}},
    {{"minicpm", "GraniteForCausalLM", "granite", kLlama, configure_minicpm, GgufStyle::kPairs}},
    {{"minicpm3", "MiniCPM3ForCausalLM", "minicpm3", kDeepseek, configure_minicpm3}},
    {{"minimax-m2", "MiniMaxM2ForCausalLM", "minimax_m2", kMinimax, configure_minimax}},
    {{"mistral3", "Ministral3ForCausalLM", "ministral3", kLlama, configure_ministral3, GgufStyle::kPairs}},
    {{"mistral4", "Mistral4ForCausalLM", "mistral4", kDeepseek, configure_mistral4}},
    {{"modern-bert", "ModernBertForSequenceClassification", "modernbert", kModernBert, configure_modern_bert},
     has_classifier},
    {{"modern-bert", "ModernBertModel", "modernbert", kModernBert, configure_modern_bert}},
    {{"mpt", "MPTForCausalLM", "mpt", kMpt, configure_mpt}},
    {{"nemotron", "NemotronForCausalLM", "nemotron", kLlama, configure_nemotron, GgufStyle::kNormsPlusOne}},
    {{"nemotron_h", "NemotronHForCausalLM", "nemotron_h", kNemotronH, configure_nemotron_h,
      GgufStyle::kPairs}},
    {{"nemotron_h_moe", "NemotronHForCausalLM", "nemotron_h", kNemotronH, configure_nemotron_h,
      GgufStyle::kPairs}},
    {{"nomic-bert", "NomicBertModel", "nomic_bert", kNomicBert, configure_nomic_bert}},
    {{"olmo", "OlmoForCausalLM", "olmo", kLlama, configure_llama, GgufStyle::kPairs}},
    {{"olmo2", "Olmo3ForCausalLM", "olmo3", kOlmo2, configure_windows}, has_window},
    {{"olmo2", "Olmo2ForCausalLM", "olmo2", kOlmo2, configure_llama}},
    {{"olmoe", "OlmoeForCausalLM", "olmoe", kQwenMoe, configure_qwen_moe}},
    {{"phi2", "PhiForCausalLM", "phi", kPhi2, configure_partial}},
    {{"phi3", "Phi3ForCausalLM", "phi3", kPhi3, configure_phi3}},
    {{"phimoe", "PhimoeForCausalLM", "phimoe", kMixtral, configure_mixtral}},
    {{"qwen2", "Qwen2ForCausalLM", "qwen2", kLlama, configure_llama}},
    {{"qwen2moe", "Qwen2MoeForCausalLM", "qwen2_moe", kQwenMoe, configure_qwen_moe}},
    {{"qwen2vl", "Qwen2ForCausalLM", "qwen2", kLlama, configure_llama}},
    {{"qwen3", "Qwen3ForSequenceClassification", "qwen3", kQwen3Reranker, configure_reranker},
     has_classifier},
    {{"qwen3", "Qwen3ForCausalLM", "qwen3", kQwen3, configure_llama}},
    {{"qwen35", "Qwen3_5ForCausalLM", "qwen3_5_text", kQwen3Next, configure_qwen3_next,
      GgufStyle::kNormsPlusOne}},
    {{"qwen35moe", "Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", kQwen3Next, configure_qwen3_next,
      GgufStyle::kNormsPlusOne}},
    {{"qwen3moe", "Qwen3MoeForCausalLM", "qwen3_moe", kQwenMoe, configure_qwen_moe}},
    {{"qwen3next", "Qwen3NextForCausalLM", "qwen3_next", kQwen3Next, configure_qwen3_next,
      GgufStyle::kNormsPlusOne}},
    {{"qwen3vl", "Qwen3ForCausalLM", "qwen3", kQwen3, configure_llama}},
    {{"qwen3vlmoe", "Qwen3MoeForCausalLM", "qwen3_moe", kQwenMoe, configure_qwen_moe}},
    {{"seed_oss", "SeedOssForCausalLM", "seed_oss", kSeedOss, configure_llama}},
    {{"smollm3", "SmolLM3ForCausalLM", "smollm3", kLlama, configure_llama, GgufStyle::kPairs}},
    {{"stablelm", "StableLmForCausalLM", "stablelm", kLlama, configure_stablelm}},
    {{"starcoder", "GPTBigCodeForCausalLM", "gpt_bigcode", kStarcoder, configure_gpt2}},
    {{"starcoder2", "Starcoder2ForCausalLM", "starcoder2", kStarcoder2, configure_starcoder2}},
}};

}  // namespace

const GgufArch& find_gguf_arch(const GgufModel& model) {
  const auto name = model.file().text("general.architecture");
  if (!name) model.file().fail("not a model: metadata 'general.architecture' is missing");
  for (const Row& row : kRows) {
    if (row.arch.gguf == *name && (row.when == nullptr || row.when(model))) return row.arch;
  }
  std::vector<std::string> supported;
  for (const Row& row : kRows) supported.emplace_back(row.arch.gguf);
  supported.erase(std::unique(supported.begin(), supported.end()), supported.end());
  model.file().fail(
      cat("the architecture '", *name, "' is not supported; supported: ", join(supported, ", ")));
}

const GgufArch* find_gguf_arch(std::string_view architecture) {
  const auto at = std::ranges::find(kRows, architecture, [](const Row& row) { return row.arch.name; });
  return at == kRows.end() ? nullptr : &at->arch;
}

std::vector<const GgufArch*> gguf_archs(std::string_view gguf) {
  std::vector<const GgufArch*> found;
  for (const Row& row : kRows) {
    if (row.arch.gguf == gguf) found.push_back(&row.arch);
  }
  return found;
}

GgufModule find_gguf_module(const GgufArch& arch, std::string_view module) {
  constexpr std::string_view kLayer = "{}";
  constexpr std::string_view kExpert = "{e}";
  for (const GgufName& row : arch.names) {
    std::string_view pattern = row.name;
    std::string_view rest = module;
    std::string_view layer;
    std::string_view expert;
    // Matches the text before a placeholder literally, then reads the number in its place.
    const auto take = [&](std::string_view place, std::string_view& number) {
      const size_t at = pattern.find(place);
      if (at == std::string_view::npos) return true;
      if (!rest.starts_with(pattern.substr(0, at))) return false;
      rest.remove_prefix(at);
      number = rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size()));
      rest.remove_prefix(number.size());
      pattern.remove_prefix(at + place.size());
      return !number.empty();
    };
    if (!take(kLayer, layer) || !take(kExpert, expert) || rest != pattern) continue;
    GgufModule found{std::string(row.gguf)};
    if (!layer.empty()) found.name.replace(found.name.find(kLayer), kLayer.size(), layer);
    if (!expert.empty()) found.expert = std::atoll(std::string(expert).c_str());
    return found;
  }
  return {};
}

namespace {

// The name of a row for the number of its layer, if its pattern matches the module.
std::string original_name(const GgufName& row, std::string_view gguf) {
  constexpr std::string_view kLayer = "{}";
  const size_t at = row.gguf.find(kLayer);
  if (at == std::string_view::npos) return row.gguf == gguf ? std::string(row.name) : std::string();
  const std::string_view end = row.gguf.substr(at + kLayer.size());
  if (gguf.size() <= at + end.size() || !gguf.starts_with(row.gguf.substr(0, at)) || !gguf.ends_with(end))
    return {};
  const std::string_view layer = gguf.substr(at, gguf.size() - at - end.size());
  if (layer.find_first_not_of("0123456789") != std::string_view::npos) return {};
  std::string name(row.name);
  return name.replace(name.find(kLayer), kLayer.size(), layer);
}

}  // namespace

std::string find_original_module(const GgufArch& arch, std::string_view gguf) {
  for (const GgufName& row : arch.names) {
    if (std::string name = original_name(row, gguf); !name.empty()) return name;
  }
  // Old files have one tensor per expert, "blk.0.ffn_gate.3".
  const size_t dot = gguf.rfind('.');
  const std::string_view expert = dot == std::string_view::npos ? "" : gguf.substr(dot + 1);
  if (expert.empty() || expert.find_first_not_of("0123456789") != std::string_view::npos) return {};
  constexpr std::string_view kExpert = "{e}";
  std::string name = find_original_module(arch, cat(gguf.substr(0, dot), "_exps"));
  const size_t at = name.find(kExpert);
  return at == std::string::npos ? std::string() : name.replace(at, kExpert.size(), expert);
}

std::vector<int32_t> gguf_pair_rows(int64_t rows, int64_t heads) {
  const int64_t size = rows / heads;
  std::vector<int32_t> order(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t in_head = r % size;
    order[static_cast<size_t>(r)] =
        static_cast<int32_t>(r - in_head + in_head % 2 * (size / 2) + in_head / 2);
  }
  return order;
}

}  // namespace quire
