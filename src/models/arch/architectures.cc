// The list of all architectures: two lines per file of this folder.
#include "models/arch/architectures.h"

#include <algorithm>
#include <array>

namespace quire {

// Each function is defined in the file with its name.
std::span<const Architecture> afmoe_architectures();
std::span<const Architecture> albert_architectures();
std::span<const Architecture> apertus_architectures();
std::span<const Architecture> arcee_architectures();
std::span<const Architecture> aria_architectures();
std::span<const Architecture> bailing_hybrid_architectures();
std::span<const Architecture> bamba_architectures();
std::span<const Architecture> bert_architectures();
std::span<const Architecture> biogpt_architectures();
std::span<const Architecture> bitnet_architectures();
std::span<const Architecture> bloom_architectures();
std::span<const Architecture> cohere_architectures();
std::span<const Architecture> dbrx_architectures();
std::span<const Architecture> deberta_v2_architectures();
std::span<const Architecture> deepseek_architectures();
std::span<const Architecture> deepseek_v4_architectures();
std::span<const Architecture> dots1_architectures();
std::span<const Architecture> ernie4_5_architectures();
std::span<const Architecture> exaone4_architectures();
std::span<const Architecture> falcon_architectures();
std::span<const Architecture> gemma_architectures();
std::span<const Architecture> gemma3n_architectures();
std::span<const Architecture> gemma4_architectures();
std::span<const Architecture> glm4_architectures();
std::span<const Architecture> gpt2_architectures();
std::span<const Architecture> gpt_neo_architectures();
std::span<const Architecture> gpt_neox_architectures();
std::span<const Architecture> gpt_oss_architectures();
std::span<const Architecture> gptj_architectures();
std::span<const Architecture> granite_architectures();
std::span<const Architecture> hunyuan_architectures();
std::span<const Architecture> jetmoe_architectures();
std::span<const Architecture> kimi_linear_architectures();
std::span<const Architecture> laguna_architectures();
std::span<const Architecture> lfm2_architectures();
std::span<const Architecture> llama_architectures();
std::span<const Architecture> llama4_architectures();
std::span<const Architecture> longcat_flash_architectures();
std::span<const Architecture> mamba_architectures();
std::span<const Architecture> mamba2_architectures();
std::span<const Architecture> mimo_v2_architectures();
std::span<const Architecture> minicpm_architectures();
std::span<const Architecture> minimax_architectures();
std::span<const Architecture> minimax_m3_architectures();
std::span<const Architecture> mistral_architectures();
std::span<const Architecture> mixtral_architectures();
std::span<const Architecture> modernbert_architectures();
std::span<const Architecture> mpt_architectures();
std::span<const Architecture> muse_glimmer_architectures();
std::span<const Architecture> nanochat_architectures();
std::span<const Architecture> nemotron_architectures();
std::span<const Architecture> nemotron_h_architectures();
std::span<const Architecture> olmo_architectures();
std::span<const Architecture> olmo2_architectures();
std::span<const Architecture> olmo_hybrid_architectures();
std::span<const Architecture> olmoe_architectures();
std::span<const Architecture> opt_architectures();
std::span<const Architecture> persimmon_architectures();
std::span<const Architecture> phi_architectures();
std::span<const Architecture> phi3_architectures();
std::span<const Architecture> phimoe_architectures();
std::span<const Architecture> qwen2_architectures();
std::span<const Architecture> qwen3_architectures();
std::span<const Architecture> qwen3_next_architectures();
std::span<const Architecture> qwen_moe_architectures();
std::span<const Architecture> seed_oss_architectures();
std::span<const Architecture> smollm3_architectures();
std::span<const Architecture> stablelm_architectures();
std::span<const Architecture> starcoder2_architectures();
std::span<const Architecture> step3_architectures();
std::span<const Architecture> zamba2_architectures();

std::vector<Architecture> all_architectures() {
  const std::array files = {
      afmoe_architectures(),        albert_architectures(),        apertus_architectures(),
      arcee_architectures(),        aria_architectures(),          bailing_hybrid_architectures(),
      bamba_architectures(),        bert_architectures(),          biogpt_architectures(),
      bitnet_architectures(),       bloom_architectures(),         cohere_architectures(),
      dbrx_architectures(),         deberta_v2_architectures(),    deepseek_architectures(),
      deepseek_v4_architectures(),  dots1_architectures(),         ernie4_5_architectures(),
      exaone4_architectures(),      falcon_architectures(),        gemma_architectures(),
      gemma3n_architectures(),      gemma4_architectures(),        glm4_architectures(),
      gpt2_architectures(),         gpt_neo_architectures(),       gpt_neox_architectures(),
      gpt_oss_architectures(),      gptj_architectures(),          granite_architectures(),
      hunyuan_architectures(),      jetmoe_architectures(),        kimi_linear_architectures(),
      laguna_architectures(),       lfm2_architectures(),          llama_architectures(),
      llama4_architectures(),       longcat_flash_architectures(), mamba_architectures(),
      mamba2_architectures(),       mimo_v2_architectures(),       minicpm_architectures(),
      minimax_architectures(),      minimax_m3_architectures(),    mistral_architectures(),
      mixtral_architectures(),      modernbert_architectures(),    mpt_architectures(),
      muse_glimmer_architectures(), nanochat_architectures(),      nemotron_architectures(),
      nemotron_h_architectures(),   olmo_architectures(),          olmo2_architectures(),
      olmo_hybrid_architectures(),  olmoe_architectures(),         opt_architectures(),
      persimmon_architectures(),    phi_architectures(),           phi3_architectures(),
      phimoe_architectures(),       qwen2_architectures(),         qwen3_architectures(),
      qwen3_next_architectures(),   qwen_moe_architectures(),      seed_oss_architectures(),
      smollm3_architectures(),      stablelm_architectures(),      starcoder2_architectures(),
      step3_architectures(),        zamba2_architectures(),
  };
  std::vector<Architecture> all;
  for (const std::span<const Architecture> rows : files) all.insert(all.end(), rows.begin(), rows.end());
  std::ranges::sort(all, {}, &Architecture::name);
  return all;
}

}  // namespace quire
