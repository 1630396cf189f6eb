#include "models/registry.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "models/arch/arch.h"

namespace quire {
namespace {

constexpr std::array<Architecture, 29> kArchitectures = {{
    {"BloomForCausalLM", "bloom", parse_bloom, bloom_weight_names},
    {"CohereForCausalLM", "cohere", parse_cohere, cohere_weight_names},
    {"Cohere2ForCausalLM", "cohere2", parse_cohere2, cohere_weight_names},
    {"Ernie4_5ForCausalLM", "ernie4_5", parse_ernie4_5, llama_weight_names},
    {"Exaone4ForCausalLM", "exaone4", parse_exaone4, exaone4_weight_names},
    {"FalconForCausalLM", "falcon", parse_falcon, falcon_weight_names},
    {"GemmaForCausalLM", "gemma", parse_gemma, gemma_weight_names},
    {"Gemma2ForCausalLM", "gemma2", parse_gemma2, gemma2_weight_names},
    {"Gemma3ForCausalLM", "gemma3_text", parse_gemma3, gemma3_weight_names},
    {"GlmForCausalLM", "glm", parse_glm, glm_weight_names},
    {"Glm4ForCausalLM", "glm4", parse_glm4, glm_weight_names},
    {"GPT2LMHeadModel", "gpt2", parse_gpt2, gpt2_weight_names},
    {"GPTJForCausalLM", "gptj", parse_gptj, gptj_weight_names},
    {"GPTNeoXForCausalLM", "gpt_neox", parse_gpt_neox, gpt_neox_weight_names},
    {"GraniteForCausalLM", "granite", parse_granite, llama_weight_names},
    {"LlamaForCausalLM", "llama", parse_llama, llama_weight_names},
    {"MistralForCausalLM", "mistral", parse_mistral, llama_weight_names},
    {"MPTForCausalLM", "mpt", parse_mpt, mpt_weight_names},
    {"Olmo2ForCausalLM", "olmo2", parse_olmo2, olmo2_weight_names},
    {"Olmo3ForCausalLM", "olmo3", parse_olmo3, olmo2_weight_names},
    {"OPTForCausalLM", "opt", parse_opt, opt_weight_names},
    {"PhiForCausalLM", "phi", parse_phi, phi_weight_names},
    {"Phi3ForCausalLM", "phi3", parse_phi3, phi3_weight_names},
    {"Qwen2ForCausalLM", "qwen2", parse_qwen2, llama_weight_names},
    {"Qwen3ForCausalLM", "qwen3", parse_qwen3, qwen3_weight_names},
    {"SeedOssForCausalLM", "seed_oss", parse_seed_oss, llama_weight_names},
    {"SmolLM3ForCausalLM", "smollm3", parse_smollm3, llama_weight_names},
    {"StableLmForCausalLM", "stablelm", parse_stablelm, llama_weight_names},
    {"Starcoder2ForCausalLM", "starcoder2", parse_starcoder2, starcoder2_weight_names},
}};

std::string supported_names() {
  std::vector<std::string> names;
  for (const auto& row : kArchitectures) names.emplace_back(row.name);
  return join(names, ", ");
}

// Letters to change, insert or take away to make `b` of `a`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// `member`: Architecture::name or Architecture::model_type.
[[noreturn]] void refuse(std::string_view what, std::string_view given,
                         std::string_view Architecture::*member) {
  const auto closest =
      std::min_element(kArchitectures.begin(), kArchitectures.end(), [&](const auto& a, const auto& b) {
        return edit_distance(given, a.*member) < edit_distance(given, b.*member);
      });
  throw Error(cat("config.json: ", what, " '", given, "' is not supported; the closest that is: ",
                  (*closest).*member, "; all that are: ", supported_names()));
}

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

const Architecture& find_architecture(const ConfigReader& config) {
  const auto names = config.texts("architectures");
  const std::string model_type = config.text("model_type", "");
  if (names.empty() && model_type.empty()) config.fail("architectures", "is missing");
  for (const auto& row : kArchitectures) {
    if (names.empty() ? row.model_type == model_type : row.name == names.front()) return row;
  }
  if (names.empty()) refuse("model_type", model_type, &Architecture::model_type);
  refuse("architecture", names.front(), &Architecture::name);
}

ArchSpec parse_arch(const nlohmann::json& json) {
  const ConfigReader config(json);
  const Architecture& architecture = find_architecture(config);
  if (config.has("quantization_config")) {
    const std::string method = config.object("quantization_config").text("quant_method", "unknown");
    config.fail("quantization_config",
                cat("names quantization method '", method,
                    "', which is not supported; use the model's float32, bfloat16 or float16 version"));
  }
  ArchSpec spec = architecture.parse(config);
  spec.architecture = architecture.name;
  spec.model_type = architecture.model_type;
  return spec;
}

}  // namespace quire
