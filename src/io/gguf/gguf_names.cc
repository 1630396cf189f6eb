// The table of architectures, and what their tensors are called.
#include <algorithm>
#include <array>
#include <vector>

#include "base/strings.h"
#include "io/gguf/gguf_arch.h"
#include "io/gguf/gguf_configs.h"

namespace quire {
namespace {

template <size_t... kSizes>
constexpr auto joined(const std::array<GgufName, kSizes>&... tables) {
  std::array<GgufName, (kSizes + ...)> all{};
  size_t at = 0;
  const auto take = [&](const auto& table) {
    for (const GgufName& row : table) all[at++] = row;
  };
  (take(tables), ...);
  return all;
}

constexpr std::array<GgufName, 7> kAttention = {{
    {"token_embd", "model.embed_tokens"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "model.layers.{}.input_layernorm"},
    {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"},
}};
constexpr std::array<GgufName, 1> kFinalNorm = {{{"output_norm", "model.norm"}}};
constexpr std::array<GgufName, 3> kMlp = {{
    {"blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.mlp.up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"},
}};
constexpr std::array<GgufName, 1> kMlpNorm = {
    {{"blk.{}.ffn_norm", "model.layers.{}.post_attention_layernorm"}}};
constexpr std::array<GgufName, 2> kQkNorms = {{
    {"blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm"},
    {"blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm"},
}};
constexpr std::array<GgufName, 2> kPostNorms = {{
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"},
}};
constexpr auto kLlama = joined(kAttention, kFinalNorm, kMlp, kMlpNorm);
constexpr auto kQwen3 = joined(kLlama, kQkNorms);
constexpr auto kOlmo2 = joined(kAttention, kFinalNorm, kMlp, kQkNorms, kPostNorms);

constexpr std::array<GgufName, 1> kGemmaMlpNorm = {
    {{"blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm"}}};
constexpr auto kGemma3 = joined(kAttention, kFinalNorm, kMlp, kGemmaMlpNorm, kPostNorms, kQkNorms);

constexpr std::array<GgufName, 1> kSeedMlpNorm = {
    {{"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"}}};
constexpr auto kSeedOss = joined(kAttention, kFinalNorm, kMlp, kSeedMlpNorm);

constexpr std::array<GgufName, 2> kGateUp = {{
    {"blk.{}.ffn_up", "model.layers.{}.mlp.gate_up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"},
}};
constexpr std::array<GgufName, 1> kQkv = {{{"blk.{}.attn_qkv", "model.layers.{}.self_attn.qkv_proj"}}};
constexpr auto kPhi3 = joined(kAttention, kFinalNorm, kGateUp, kMlpNorm, kQkv);
constexpr std::array<GgufName, 2> kGlmPostNorms = {{
    {"blk.{}.post_attention_norm", "model.layers.{}.post_self_attn_layernorm"},
    {"blk.{}.post_ffw_norm", "model.layers.{}.post_mlp_layernorm"},
}};
constexpr auto kGlm = joined(kAttention, kFinalNorm, kGateUp, kMlpNorm, kGlmPostNorms);

constexpr std::array<GgufName, 10> kPhi2 = {{
    {"token_embd", "model.embed_tokens"},
    {"output", "lm_head"},
    {"output_norm", "model.final_layernorm"},
    {"blk.{}.attn_norm", "model.layers.{}.input_layernorm"},
    {"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_output", "model.layers.{}.self_attn.dense"},
    {"blk.{}.ffn_up", "model.layers.{}.mlp.fc1"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.fc2"},
}};
constexpr std::array<GgufName, 2> kStarcoderMlp = {{
    {"blk.{}.ffn_up", "model.layers.{}.mlp.c_fc"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.c_proj"},
}};
constexpr auto kStarcoder2 = joined(kAttention, kFinalNorm, kStarcoderMlp, kMlpNorm);

// Queries, keys and values stand one below the other in these files, whatever their order in the original.
constexpr std::array<GgufName, 10> kGpt2 = {{
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output", "lm_head"},
    {"output_norm", "transformer.ln_f"},
    {"blk.{}.attn_norm", "transformer.h.{}.ln_1"},
    {"blk.{}.attn_qkv", "transformer.h.{}.attn.qkv_rows"},
    {"blk.{}.attn_output", "transformer.h.{}.attn.out_rows"},
    {"blk.{}.ffn_norm", "transformer.h.{}.ln_2"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.fc_rows"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.proj_rows"},
}};
constexpr std::array<GgufName, 9> kBloomLayers = {{
    {"token_embd", "transformer.word_embeddings"},
    {"token_embd_norm", "transformer.word_embeddings_layernorm"},
    {"output", "lm_head"},
    {"output_norm", "transformer.ln_f"},
    {"blk.{}.attn_qkv", "transformer.h.{}.self_attention.qkv_rows"},
    {"blk.{}.attn_output", "transformer.h.{}.self_attention.dense"},
    {"blk.{}.ffn_norm", "transformer.h.{}.post_attention_layernorm"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.dense_h_to_4h"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.dense_4h_to_h"},
}};
constexpr std::array<GgufName, 1> kBloomNorm = {{{"blk.{}.attn_norm", "transformer.h.{}.input_layernorm"}}};
constexpr auto kBloom = joined(kBloomLayers, kBloomNorm);
constexpr std::array<GgufName, 2> kFalconNorms = {{
    {"blk.{}.attn_norm", "transformer.h.{}.ln_mlp"},
    {"blk.{}.attn_norm_2", "transformer.h.{}.ln_attn"},
}};
constexpr auto kFalconTwoNorms = joined(kBloomLayers, kFalconNorms);
constexpr std::array<GgufName, 9> kNeox = {{
    {"token_embd", "gpt_neox.embed_in"},
    {"output", "embed_out"},
    {"output_norm", "gpt_neox.final_layer_norm"},
    {"blk.{}.attn_norm", "gpt_neox.layers.{}.input_layernorm"},
    {"blk.{}.attn_qkv", "gpt_neox.layers.{}.attention.qkv_rows"},
    {"blk.{}.attn_output", "gpt_neox.layers.{}.attention.dense"},
    {"blk.{}.ffn_norm", "gpt_neox.layers.{}.post_attention_layernorm"},
    {"blk.{}.ffn_up", "gpt_neox.layers.{}.mlp.dense_h_to_4h"},
    {"blk.{}.ffn_down", "gpt_neox.layers.{}.mlp.dense_4h_to_h"},
}};
constexpr std::array<GgufName, 9> kMpt = {{
    {"token_embd", "transformer.wte"},
    {"output", "lm_head"},
    {"output_norm", "transformer.norm_f"},
    {"blk.{}.attn_norm", "transformer.blocks.{}.norm_1"},
    {"blk.{}.attn_qkv", "transformer.blocks.{}.attn.Wqkv"},
    {"blk.{}.attn_output", "transformer.blocks.{}.attn.out_proj"},
    {"blk.{}.ffn_norm", "transformer.blocks.{}.norm_2"},
    {"blk.{}.ffn_up", "transformer.blocks.{}.ffn.up_proj"},
    {"blk.{}.ffn_down", "transformer.blocks.{}.ffn.down_proj"},
}};

constexpr std::array<GgufName, 8> kExperts = {{
    {"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.mlp.experts.{e}.gate_proj"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.mlp.experts.{e}.up_proj"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.{e}.down_proj"},
    {"blk.{}.ffn_gate_inp_shexp", "model.layers.{}.mlp.shared_expert_gate"},
    {"blk.{}.ffn_gate_shexp", "model.layers.{}.mlp.shared_expert.gate_proj"},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.mlp.shared_expert.up_proj"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.mlp.shared_expert.down_proj"},
}};
constexpr auto kQwenMoe = joined(kQwen3, kExperts);
constexpr std::array<GgufName, 4> kMixtralExperts = {{
    {"blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.gate"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w1"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w3"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.{e}.w2"},
}};
constexpr auto kMixtral = joined(kAttention, kFinalNorm, kMlpNorm, kMixtralExperts);

// Of two rows with the same name the first whose `when` holds counts.
struct Row {
  GgufArch arch;
  bool (*when)(const GgufModel&) = nullptr;
};

bool has_experts(const GgufModel& model) {
  return gguf_integer(model, "expert_count").value_or(0) > 0;
}
bool has_window(const GgufModel& model) {
  return gguf_integer(model, "attention.sliding_window").value_or(0) > 0;
}
bool has_two_norms(const GgufModel& model) {
  return model.tensor("blk.0.attn_norm_2.weight") != nullptr;
}

const std::array<Row, 32> kRows = {{
    {{"bloom", "BloomForCausalLM", "bloom", kBloom, false, false, configure_bloom}},
    {{"chatglm", "GlmForCausalLM", "glm", kGlm, false, false, configure_glm}},
    {{"cohere2", "Cohere2ForCausalLM", "cohere2", kLlama, false, false, configure_cohere}},
    {{"command-r", "CohereForCausalLM", "cohere", kLlama, false, false, configure_cohere}},
    {{"ernie4_5", "Ernie4_5ForCausalLM", "ernie4_5", kLlama, false, false, configure_llama}},
    {{"exaone4", "Exaone4ForCausalLM", "exaone4", kOlmo2, false, false, configure_windows}},
    {{"falcon", "FalconForCausalLM", "falcon", kFalconTwoNorms, false, false, configure_falcon},
     has_two_norms},
    {{"falcon", "FalconForCausalLM", "falcon", kBloom, false, false, configure_falcon}},
    {{"gemma", "GemmaForCausalLM", "gemma", kLlama, false, true, configure_llama}},
    {{"gemma2", "Gemma2ForCausalLM", "gemma2", kGemma3, false, true, configure_gemma2}},
    {{"gemma3", "Gemma3ForCausalLM", "gemma3_text", kGemma3, false, true, configure_gemma3}},
    {{"glm4", "Glm4ForCausalLM", "glm4", kGlm, false, false, configure_glm}},
    {{"gpt2", "GPT2LMHeadModel", "gpt2", kGpt2, false, false, configure_gpt2}},
    {{"gptneox", "GPTNeoXForCausalLM", "gpt_neox", kNeox, false, false, configure_neox}},
    {{"granite", "GraniteForCausalLM", "granite", kLlama, true, false, configure_granite}},
    {{"llama", "MixtralForCausalLM", "mixtral", kMixtral, true, false, configure_mixtral}, has_experts},
    {{"llama", "MistralForCausalLM", "mistral", kLlama, true, false, configure_windows}, has_window},
    {{"llama", "LlamaForCausalLM", "llama", kLlama, true, false, configure_llama}},
    {{"mpt", "MPTForCausalLM", "mpt", kMpt, false, false, configure_mpt}},
    {{"olmo2", "Olmo3ForCausalLM", "olmo3", kOlmo2, false, false, configure_windows}, has_window},
    {{"olmo2", "Olmo2ForCausalLM", "olmo2", kOlmo2, false, false, configure_llama}},
    {{"olmoe", "OlmoeForCausalLM", "olmoe", kQwenMoe, false, false, configure_qwen_moe}},
    {{"phi2", "PhiForCausalLM", "phi", kPhi2, false, false, configure_partial}},
    {{"phi3", "Phi3ForCausalLM", "phi3", kPhi3, false, false, configure_phi3}},
    {{"qwen2", "Qwen2ForCausalLM", "qwen2", kLlama, false, false, configure_llama}},
    {{"qwen2moe", "Qwen2MoeForCausalLM", "qwen2_moe", kQwenMoe, false, false, configure_qwen_moe}},
    {{"qwen3", "Qwen3ForCausalLM", "qwen3", kQwen3, false, false, configure_llama}},
    {{"qwen3moe", "Qwen3MoeForCausalLM", "qwen3_moe", kQwenMoe, false, false, configure_qwen_moe}},
    {{"seed_oss", "SeedOssForCausalLM", "seed_oss", kSeedOss, false, false, configure_llama}},
    {{"smollm3", "SmolLM3ForCausalLM", "smollm3", kLlama, true, false, configure_llama}},
    {{"stablelm", "StableLmForCausalLM", "stablelm", kLlama, false, false, configure_stablelm}},
    {{"starcoder2", "Starcoder2ForCausalLM", "starcoder2", kStarcoder2, false, false, configure_starcoder2}},
}};

}  // namespace

const GgufArch& find_gguf_arch(const GgufModel& model) {
  const auto name = model.file().text("general.architecture");
  if (!name) model.file().fail("has no metadata 'general.architecture': it is no model");
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

std::string gguf_module_name(const GgufArch& arch, std::string_view module) {
  constexpr std::string_view kPlace = "{}";
  for (const GgufName& row : arch.names) {
    const size_t place = row.name.find(kPlace);
    if (place == std::string_view::npos) {
      if (row.name == module) return std::string(row.gguf);
      continue;
    }
    const std::string_view head = row.name.substr(0, place);
    const std::string_view tail = row.name.substr(place + kPlace.size());
    if (module.size() <= head.size() + tail.size() || !module.starts_with(head) || !module.ends_with(tail))
      continue;
    const std::string_view number = module.substr(head.size(), module.size() - head.size() - tail.size());
    if (!std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; })) continue;
    std::string name(row.gguf);
    return name.replace(name.find(kPlace), kPlace.size(), number);
  }
  return {};
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
