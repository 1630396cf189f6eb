#include "models/registry.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "models/arch/arch.h"

namespace quire {
namespace {

constexpr std::array<Architecture, 145> kArchitectures = {{
    {"AfmoeForCausalLM", "afmoe", parse_afmoe, afmoe_weight_names},
    {"AlbertModel", "albert", parse_albert, albert_weight_names},
    {"ApertusForCausalLM", "apertus", parse_apertus, apertus_weight_names},
    {"ArceeForCausalLM", "arcee", parse_arcee, arcee_weight_names},
    {"AriaTextForCausalLM", "aria_text", parse_aria, aria_weight_names},
    {"BailingHybridForCausalLM", "bailing_hybrid", parse_bailing_hybrid, bailing_hybrid_weight_names},
    {"BambaForCausalLM", "bamba", parse_bamba, bamba_weight_names},
    {"BertModel", "bert", parse_bert, bert_weight_names},
    {"BioGptForCausalLM", "biogpt", parse_biogpt, biogpt_weight_names},
    {"BitNetForCausalLM", "bitnet", parse_bitnet, bitnet_weight_names},
    {"BloomForCausalLM", "bloom", parse_bloom, bloom_weight_names},
    {"CamembertModel", "camembert", parse_roberta, bert_weight_names},
    {"CodeGenForCausalLM", "codegen", parse_codegen, codegen_weight_names},
    {"Cohere2ForCausalLM", "cohere2", parse_cohere2, cohere_weight_names},
    {"Cohere2MoeForCausalLM", "cohere2_moe", parse_cohere2_moe, cohere_weight_names},
    {"CohereCompassForCausalLM", "cohere_compass_text", parse_cohere_compass, cohere_weight_names},
    {"CohereForCausalLM", "cohere", parse_cohere, cohere_weight_names},
    {"CTRLLMHeadModel", "ctrl", parse_ctrl, ctrl_weight_names},
    {"CwmForCausalLM", "cwm", parse_cwm, llama_weight_names},
    {"Data2VecTextModel", "data2vec-text", parse_roberta, bert_weight_names},
    {"DebertaV2Model", "deberta-v2", parse_deberta_v2, deberta_v2_weight_names},
    {"DeepseekV2ForCausalLM", "deepseek_v2", parse_deepseek_v2, deepseek_weight_names},
    {"DeepseekV32ForCausalLM", "deepseek_v32", parse_deepseek_v32, deepseek_v32_weight_names},
    {"DeepseekV3ForCausalLM", "deepseek_v3", parse_deepseek_v3, deepseek_weight_names},
    {"DeepseekV4ForCausalLM", "deepseek_v4", parse_deepseek_v4, deepseek_v4_weight_names},
    {"DistilBertModel", "distilbert", parse_distilbert, distilbert_weight_names},
    {"Dots1ForCausalLM", "dots1", parse_dots1, dots1_weight_names},
    {"ElectraModel", "electra", parse_electra, bert_weight_names},
    {"Emu3ForCausalLM", "emu3_text_model", parse_llama, llama_weight_names},
    {"Ernie4_5_MoeForCausalLM", "ernie4_5_moe", parse_ernie4_5_moe, ernie4_5_moe_weight_names},
    {"Ernie4_5_VLMoeForCausalLM", "ernie4_5_vl_moe_text", parse_ernie4_5_vl_moe,
     ernie4_5_vl_moe_weight_names},
    {"Ernie4_5ForCausalLM", "ernie4_5", parse_ernie4_5, llama_weight_names},
    {"ErnieModel", "ernie", parse_bert, bert_weight_names},
    {"EuroBertModel", "eurobert", parse_eurobert, llama_weight_names},
    {"Exaone4ForCausalLM", "exaone4", parse_exaone4, exaone4_weight_names},
    {"ExaoneMoEForCausalLM", "exaone_moe", parse_exaone_moe, exaone_moe_weight_names},
    {"ExaoneMoeForCausalLM", "exaone_moe", parse_exaone_moe, exaone_moe_weight_names},
    {"FalconForCausalLM", "falcon", parse_falcon, falcon_weight_names},
    {"FalconH1ForCausalLM", "falcon_h1", parse_falcon_h1, bamba_weight_names},
    {"FalconMambaForCausalLM", "falcon_mamba", parse_falcon_mamba, mamba_weight_names},
    {"FlexOlmoForCausalLM", "flex_olmo", parse_flex_olmo, flex_olmo_weight_names},
    {"Gemma2ForCausalLM", "gemma2", parse_gemma2, gemma2_weight_names},
    {"Gemma3ForCausalLM", "gemma3_text", parse_gemma3, gemma3_weight_names},
    {"Gemma3nForCausalLM", "gemma3n_text", parse_gemma3n, gemma3n_weight_names},
    {"Gemma4ForCausalLM", "gemma4_text", parse_gemma4, gemma4_weight_names},
    {"Gemma4UnifiedForCausalLM", "gemma4_unified_text", parse_gemma4_unified, gemma4_weight_names},
    {"GemmaForCausalLM", "gemma", parse_gemma, gemma_weight_names},
    {"Glm4ForCausalLM", "glm4", parse_glm4, glm_weight_names},
    {"Glm4MoeForCausalLM", "glm4_moe", parse_glm4_moe, glm4_moe_weight_names},
    {"Glm4MoeLiteForCausalLM", "glm4_moe_lite", parse_glm4_moe_lite, deepseek_weight_names},
    {"GlmForCausalLM", "glm", parse_glm, glm_weight_names},
    {"GlmMoeDsaForCausalLM", "glm_moe_dsa", parse_glm_moe_dsa, deepseek_v32_weight_names},
    {"GlmOcrForCausalLM", "glm_ocr_text", parse_glm_ocr, glm_ocr_weight_names},
    {"GPT2LMHeadModel", "gpt2", parse_gpt2, gpt2_weight_names},
    {"GPTBigCodeForCausalLM", "gpt_bigcode", parse_gpt_bigcode, gpt_bigcode_weight_names},
    {"GPTJForCausalLM", "gptj", parse_gptj, gptj_weight_names},
    {"GPTNeoForCausalLM", "gpt_neo", parse_gpt_neo, gpt_neo_weight_names},
    {"GPTNeoXForCausalLM", "gpt_neox", parse_gpt_neox, gpt_neox_weight_names},
    {"GptOssForCausalLM", "gpt_oss", parse_gpt_oss, gpt_oss_weight_names},
    {"GraniteForCausalLM", "granite", parse_granite, llama_weight_names},
    {"GraniteMoeForCausalLM", "granitemoe", parse_granitemoe, granitemoe_weight_names},
    {"GraniteMoeHybridForCausalLM", "granitemoehybrid", parse_granitemoehybrid,
     granitemoehybrid_weight_names},
    {"GraniteMoeSharedForCausalLM", "granitemoeshared", parse_granitemoe, granitemoe_weight_names},
    {"GraniteMoeSWAForCausalLM", "granitemoe_swa", parse_granitemoe_swa, granitemoe_swa_weight_names},
    {"GraniteSWAForCausalLM", "granite_swa", parse_granite_swa, granite_swa_weight_names},
    {"GteModel", "gte", parse_gte, gte_weight_names},
    {"HeliumForCausalLM", "helium", parse_helium, llama_weight_names},
    {"HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", parse_hunyuan_dense, hunyuan_dense_weight_names},
    {"HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", parse_hunyuan_moe, hunyuan_moe_weight_names},
    {"HyperCLOVAXForCausalLM", "hyperclovax", parse_hyperclovax, hyperclovax_weight_names},
    {"HYV3ForCausalLM", "hy_v3", parse_hy_v3, hy_v3_weight_names},
    {"InternLM3ForCausalLM", "internlm3", parse_llama, llama_weight_names},
    {"IQuestCoderForCausalLM", "iquestcoder", parse_llama, llama_weight_names},
    {"Jais2ForCausalLM", "jais2", parse_jais2, arcee_weight_names},
    {"JambaForCausalLM", "jamba", parse_jamba, jamba_weight_names},
    {"JinaEmbeddingsV3Model", "jina_embeddings_v3", parse_jina_embeddings_v3,
     jina_embeddings_v3_weight_names},
    {"KimiLinearForCausalLM", "kimi_linear", parse_kimi_linear, kimi_linear_weight_names},
    {"Kolibri1ForCausalLM", "kolibri1", parse_kolibri1, kolibri1_weight_names},
    {"LagunaForCausalLM", "laguna", parse_laguna, laguna_weight_names},
    {"Lfm2ForCausalLM", "lfm2", parse_lfm2, lfm2_weight_names},
    {"Lfm2MoeForCausalLM", "lfm2_moe", parse_lfm2_moe, lfm2_moe_weight_names},
    {"Lfm3ForCausalLM", "lfm3", parse_lfm3, lfm3_weight_names},
    {"Llama4ForCausalLM", "llama4_text", parse_llama4, llama4_weight_names},
    {"LlamaForCausalLM", "llama", parse_llama, llama_weight_names},
    {"Mamba2ForCausalLM", "mamba2", parse_mamba2, mamba2_weight_names},
    {"LongcatFlashForCausalLM", "longcat_flash", parse_longcat_flash, longcat_flash_weight_names},
    {"MambaForCausalLM", "mamba", parse_mamba, mamba_weight_names},
    {"MellumForCausalLM", "mellum", parse_mellum, qwen3_moe_weight_names},
    {"MiMoV2FlashForCausalLM", "mimo_v2_flash", parse_mimo_v2_flash, mimo_v2_weight_names},
    {"MiniCPM3ForCausalLM", "minicpm3", parse_minicpm3, deepseek_weight_names},
    {"MiniCPMForCausalLM", "minicpm", parse_minicpm, llama_weight_names},
    {"MiniMaxForCausalLM", "minimax", parse_minimax, minimax_weight_names},
    {"MiniMaxM1ForCausalLM", "minimax_m1", parse_minimax, minimax_weight_names},
    {"MiniMaxM2ForCausalLM", "minimax_m2", parse_minimax_m2, minimax_m2_weight_names},
    {"MiniMaxM3VLForCausalLM", "minimax_m3_vl_text", parse_minimax_m3, minimax_m3_weight_names},
    {"MiniMaxText01ForCausalLM", "minimax_text_01", parse_minimax, minimax_weight_names},
    {"Ministral3ForCausalLM", "ministral3", parse_ministral3, llama_weight_names},
    {"MinistralForCausalLM", "ministral", parse_ministral, llama_weight_names},
    {"Mistral4ForCausalLM", "mistral4", parse_mistral4, deepseek_weight_names},
    {"MistralForCausalLM", "mistral", parse_mistral, llama_weight_names},
    {"MixtralForCausalLM", "mixtral", parse_mixtral, mixtral_weight_names},
    {"ModernBertDecoderForCausalLM", "modernbert-decoder", parse_modernbert_decoder,
     modernbert_decoder_weight_names},
    {"MllamaForCausalLM", "mllama_text_model", parse_mllama, llama_weight_names},
    {"ModernBertModel", "modernbert", parse_modernbert, modernbert_weight_names},
    {"MPNetModel", "mpnet", parse_mpnet, mpnet_weight_names},
    {"MptForCausalLM", "mpt", parse_mpt, mpt_weight_names},
    {"MPTForCausalLM", "mpt", parse_mpt, mpt_weight_names},
    {"MuseGlimmerForCausalLM", "muse_glimmer_text", parse_muse_glimmer, muse_glimmer_weight_names},
    {"NanoChatForCausalLM", "nanochat", parse_nanochat, nanochat_weight_names},
    {"NemotronForCausalLM", "nemotron", parse_nemotron, nemotron_weight_names},
    {"NemotronHForCausalLM", "nemotron_h", parse_nemotron_h, nemotron_h_weight_names},
    {"NewModel", "new", parse_gte, gte_weight_names},
    {"NomicBertModel", "nomic_bert", parse_nomic_bert, nomic_bert_weight_names},
    {"Olmo2ForCausalLM", "olmo2", parse_olmo2, olmo2_weight_names},
    {"Olmo3ForCausalLM", "olmo3", parse_olmo3, olmo2_weight_names},
    {"OlmoeForCausalLM", "olmoe", parse_olmoe, olmoe_weight_names},
    {"OlmoForCausalLM", "olmo", parse_olmo, olmo_weight_names},
    {"OlmoHybridForCausalLM", "olmo_hybrid", parse_olmo_hybrid, olmo_hybrid_weight_names},
    {"OpenAIGPTLMHeadModel", "openai-gpt", parse_openai_gpt, openai_gpt_weight_names},
    {"OPTForCausalLM", "opt", parse_opt, opt_weight_names},
    {"PaddleOCRVLForCausalLM", "paddleocr_vl_text", parse_paddleocr_vl, llama_weight_names},
    {"PersimmonForCausalLM", "persimmon", parse_persimmon, persimmon_weight_names},
    {"Phi3ForCausalLM", "phi3", parse_phi3, phi3_weight_names},
    {"PhiForCausalLM", "phi", parse_phi, phi_weight_names},
    {"PhimoeForCausalLM", "phimoe", parse_phimoe, phimoe_weight_names},
    {"PhiMoEForCausalLM", "phimoe", parse_phimoe, phimoe_weight_names},
    {"Qwen2ForCausalLM", "qwen2", parse_qwen2, llama_weight_names},
    {"Qwen2MoeForCausalLM", "qwen2_moe", parse_qwen2_moe, qwen2_moe_weight_names},
    {"Qwen3_5ForCausalLM", "qwen3_5_text", parse_qwen3_5, qwen3_5_weight_names},
    {"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", parse_qwen3_5_moe, qwen3_5_weight_names},
    {"Qwen3ForCausalLM", "qwen3", parse_qwen3, qwen3_weight_names},
    {"Qwen3MoeForCausalLM", "qwen3_moe", parse_qwen3_moe, qwen3_moe_weight_names},
    {"Qwen3NextForCausalLM", "qwen3_next", parse_qwen3_next, qwen3_next_weight_names},
    {"RobertaModel", "roberta", parse_roberta, bert_weight_names},
    {"SeedOssForCausalLM", "seed_oss", parse_seed_oss, llama_weight_names},
    {"SmolLM3ForCausalLM", "smollm3", parse_smollm3, llama_weight_names},
    {"SolarOpenForCausalLM", "solar_open", parse_solar_open, glm4_moe_weight_names},
    {"StableLmForCausalLM", "stablelm", parse_stablelm, stablelm_weight_names},
    {"Starcoder2ForCausalLM", "starcoder2", parse_starcoder2, starcoder2_weight_names},
    {"Step3p5ForCausalLM", "step3p5", parse_step3, step3_weight_names},
    {"VaultGemmaForCausalLM", "vaultgemma", parse_vaultgemma, vaultgemma_weight_names},
    {"XGLMForCausalLM", "xglm", parse_xglm, xglm_weight_names},
    {"XLMRobertaModel", "xlm-roberta", parse_roberta, bert_weight_names},
    {"YoutuForCausalLM", "youtu", parse_youtu, deepseek_weight_names},
    {"Zamba2ForCausalLM", "zamba2", parse_zamba2, zamba2_weight_names},
}};

// A model that also sees or hears. Its text part is read, the rest of it is left alone.
struct Composite {
  std::string_view name;
  std::string_view text;  // the model_type of its text part where the configuration says none that is known
};

constexpr std::array<Composite, 80> kComposites = {{
    {"AriaForConditionalGeneration", "aria_text"},
    {"AyaVisionForConditionalGeneration", "cohere2"},
    {"Blip2ForConditionalGeneration", "opt"},
    {"Cohere2VisionForConditionalGeneration", "cohere2"},
    {"CohereCompassForConditionalGeneration", "cohere_compass_text"},
    {"Cosmos3OmniForConditionalGeneration", "qwen3"},
    {"DeepseekOcr2ForConditionalGeneration", "deepseek_v2"},
    {"DeepseekOCRForCausalLM", "deepseek_v2"},
    {"DeepseekVLForConditionalGeneration", "llama"},
    {"DeepseekVLHybridForConditionalGeneration", "llama"},
    {"Emu3ForConditionalGeneration", "emu3_text_model"},
    {"Ernie4_5_VL_MoeForConditionalGeneration", "ernie4_5_vl_moe_text"},
    {"Ernie4_5_VLMoeForConditionalGeneration", "ernie4_5_vl_moe_text"},
    {"Exaone4_5_ForConditionalGeneration", "exaone4"},
    {"FastVlmForConditionalGeneration", "qwen2"},
    {"FuyuForCausalLM", "persimmon"},
    {"Gemma3ForConditionalGeneration", "gemma3_text"},
    {"Gemma3nForConditionalGeneration", "gemma3n_text"},
    {"Gemma4ForConditionalGeneration", "gemma4_text"},
    {"Gemma4UnifiedForConditionalGeneration", "gemma4_unified_text"},
    {"Glm46VForConditionalGeneration", "glm4"},
    {"Glm4vForConditionalGeneration", "glm4"},
    {"Glm4vMoeForConditionalGeneration", "glm4_moe"},
    {"GlmOcrForConditionalGeneration", "glm_ocr_text"},
    {"GotOcr2ForConditionalGeneration", "qwen2"},
    {"Granite4VisionForConditionalGeneration", "granite"},
    {"GraniteDoclingForConditionalGeneration", "granite"},
    {"HunYuanVLForConditionalGeneration", "hunyuan_v1_dense"},
    {"HyperCLOVAXVisionV2ForConditionalGeneration", "hyperclovax"},
    {"Idefics2ForConditionalGeneration", "mistral"},
    {"Idefics3ForConditionalGeneration", "llama"},
    {"InstructBlipForConditionalGeneration", "llama"},
    {"InstructBlipVideoForConditionalGeneration", "llama"},
    {"InternVLForConditionalGeneration", "qwen2"},
    {"JanusForConditionalGeneration", "llama"},
    {"Kimi_K25ForConditionalGeneration", "deepseek_v3"},
    {"KimiK25ForConditionalGeneration", "deepseek_v3"},
    {"KimiVLForConditionalGeneration", "deepseek_v3"},
    {"Lfm2VlForConditionalGeneration", "lfm2"},
    {"Lfm3VlForConditionalGeneration", "lfm3"},
    {"LightOnOcrForConditionalGeneration", "qwen3"},
    {"Llama4ForConditionalGeneration", "llama4_text"},
    {"LlavaForConditionalGeneration", "llama"},
    {"LlavaNextForConditionalGeneration", "llama"},
    {"LlavaNextVideoForConditionalGeneration", "llama"},
    {"LlavaOnevisionForConditionalGeneration", "qwen2"},
    {"MiniCPMOcrForConditionalGeneration", "qwen3_5_text"},
    {"MiniCPMV4_6ForConditionalGeneration", "qwen3_5_text"},
    {"MiniCPMV4_7ForConditionalGeneration", "qwen3_5_text"},
    {"MiniMaxM3SparseForConditionalGeneration", "minimax_m3_vl_text"},
    {"Mistral3ForConditionalGeneration", "mistral"},
    {"MllamaForConditionalGeneration", "mllama_text_model"},
    {"MuseGlimmerForConditionalGeneration", "muse_glimmer_text"},
    {"NemotronH_Omni_Reasoning_V3", "nemotron_h"},
    {"Ovis2ForConditionalGeneration", "qwen2"},
    {"PaddleOCRVLForConditionalGeneration", "paddleocr_vl_text"},
    {"PaliGemmaForConditionalGeneration", "gemma"},
    {"PerceptionLMForConditionalGeneration", "llama"},
    {"Phi4MMForCausalLM", "phi3"},
    {"Phi4MultimodalForCausalLM", "phi3"},
    {"QianfanOCRForConditionalGeneration", "qwen3"},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2"},
    {"Qwen2_5OmniForConditionalGeneration", "qwen2"},
    {"Qwen2_5OmniModel", "qwen2"},
    {"Qwen2_5OmniThinkerForConditionalGeneration", "qwen2"},
    {"Qwen2AudioForConditionalGeneration", "qwen2"},
    {"Qwen2VLForConditionalGeneration", "qwen2"},
    {"Qwen3_5ForConditionalGeneration", "qwen3_5_text"},
    {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text"},
    {"Qwen3ASRForConditionalGeneration", "qwen3"},
    {"Qwen3OmniMoeForConditionalGeneration", "qwen3_moe"},
    {"Qwen3OmniMoeThinkerForConditionalGeneration", "qwen3_moe"},
    {"Qwen3VLForConditionalGeneration", "qwen3"},
    {"Qwen3VLMoeForConditionalGeneration", "qwen3_moe"},
    {"SmolVLMForConditionalGeneration", "llama"},
    {"Step3p7ForConditionalGeneration", "step3p5"},
    {"VideoLlama3ForConditionalGeneration", "qwen2"},
    {"VideoLlavaForConditionalGeneration", "llama"},
    {"VipLlavaForConditionalGeneration", "llama"},
    {"VoxtralForConditionalGeneration", "llama"},
}};

// The same model with another head, or with none.
struct Head {
  std::string_view suffix;
  ModelTask task;
};
constexpr std::array<Head, 3> kHeads = {{
    {"ForSequenceClassification", ModelTask::kScore},
    {"ForMaskedLM", ModelTask::kEmbed},
    {"Model", ModelTask::kEmbed},
}};

const Head* find_head(std::string_view name) {
  if (name.ends_with("LMHeadModel")) return nullptr;
  const auto at = std::ranges::find_if(kHeads, [&](const Head& head) { return name.ends_with(head.suffix); });
  return at == kHeads.end() ? nullptr : &*at;
}

// "Qwen3" of "Qwen3ForCausalLM".
std::string_view stem_of(std::string_view name) {
  for (const std::string_view suffix :
       {"ForCausalLM", "LMHeadModel", "ForSequenceClassification", "ForMaskedLM", "TextModel", "Model"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

// The row of a name that the table has with another head; null: there is none.
const Architecture* find_body(std::string_view name) {
  if (find_head(name) == nullptr) return nullptr;
  const auto same = [](std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
    return std::ranges::equal(a, b, {}, lower, lower);
  };
  for (const auto& row : kArchitectures) {
    const std::string_view stem = stem_of(name);
    const bool of_text = stem.ends_with("Text") && same(stem.substr(0, stem.size() - 4), stem_of(row.name));
    if (of_text || same(stem, stem_of(row.name))) return &row;
  }
  return nullptr;
}

// What a classifier calls its labels, in their order.
std::vector<std::string> labels_of(const ConfigReader& config) {
  const nlohmann::json* names = config.find("id2label");
  int64_t count =
      names != nullptr && names->is_object() && !names->empty() ? static_cast<int64_t>(names->size()) : 2;
  count = config.integer("num_labels", 1, kMaxSize, count);
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    const bool named =
        names != nullptr && names->is_object() && names->contains(number) && (*names)[number].is_string();
    labels.push_back(named ? (*names)[number].get<std::string>() : cat("LABEL_", number));
  }
  return labels;
}

// What the name says beyond the body: a classifier, or no head at all.
void read_head(const ConfigReader& config, std::string_view name, ArchSpec& spec) {
  const Head* head = find_head(name);
  if (config.has("is_causal") && !config.boolean("is_causal", true)) spec.bidirectional = true;
  if (head == nullptr) return;
  const bool decoder = spec.task == ModelTask::kGenerate;
  if (head->task != ModelTask::kScore) {
    if (decoder) spec.task = ModelTask::kEmbed;
    return;
  }
  if (!decoder && !spec.classifier)
    config.fail("architectures", cat("holds ", name, ", which is not supported"));
  spec.task = ModelTask::kScore;
  if (decoder) spec.classifier = ClassifierSpec{};
  spec.labels = labels_of(config);
  spec.classifier->num_labels = static_cast<int64_t>(spec.labels.size());
  // Of GGUF files, which have the output embedding's rows of "yes" and "no".
  spec.classifier->difference = spec.labels.size() == 1 && config.boolean("score_difference", false);
  const std::string problem = config.text("problem_type", "");
  const bool single = spec.labels.size() == 1;
  spec.score_activation = problem == "regression"                             ? ScoreActivation::kIdentity
                          : problem == "multi_label_classification" || single ? ScoreActivation::kSigmoid
                                                                              : ScoreActivation::kSoftmax;
}

// Where their checkpoints keep the text part.
constexpr std::array<std::string_view, 11> kTextPrefixes = {"model.language_model.",
                                                            "language_model.model.",
                                                            "language_model.backbone.",
                                                            "language_model.model.decoder.",
                                                            "model.language_model.decoder.",
                                                            "model.text_model.",
                                                            "text_model.model.",
                                                            "model.",
                                                            "thinker.model.",
                                                            "thinker.model.language_model.",
                                                            ""};

// Null: the configuration is of a text model.
const Composite* find_composite(const ConfigReader& config) {
  const auto names = config.texts("architectures");
  if (names.empty()) return nullptr;
  const auto at = std::ranges::find(kComposites, names.front(), &Composite::name);
  return at == kComposites.end() ? nullptr : &*at;
}

// The configuration of the text: an object of its own, inside that of the part that thinks where another one
// speaks, or the whole.
ConfigReader text_of(const ConfigReader& config) {
  const ConfigReader whole = config.has("thinker_config") ? config.object("thinker_config") : config;
  for (const std::string_view field : {"text_config", "llm_config", "language_config"}) {
    if (whole.has(field)) return whole.object(field);
  }
  return whole;
}

std::string supported_names() {
  std::vector<std::string> names;
  for (const auto& row : kArchitectures) names.emplace_back(row.name);
  for (const auto& row : kComposites) names.emplace_back(row.name);
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
  if (const Composite* composite = find_composite(config)) {
    const std::string type = text_of(config).text("model_type", "");
    const auto known = std::ranges::find(kArchitectures, type, &Architecture::model_type);
    if (known != kArchitectures.end()) return *known;
    return *std::ranges::find(kArchitectures, composite->text, &Architecture::model_type);
  }
  const auto names = config.texts("architectures");
  const std::string model_type = config.text("model_type", "");
  if (names.empty() && model_type.empty()) config.fail("architectures", "is missing");
  for (const auto& row : kArchitectures) {
    if (names.empty() ? row.model_type == model_type : row.name == names.front()) return row;
  }
  if (!names.empty()) {
    if (const Architecture* row = find_body(names.front())) return *row;
  }
  if (names.empty()) refuse("model_type", model_type, &Architecture::model_type);
  refuse("architecture", names.front(), &Architecture::name);
}

WeightNames find_weight_names(const ConfigReader& config) {
  WeightNames names = find_architecture(config).weight_names();
  if (find_composite(config) != nullptr) {
    names.prefixes = kTextPrefixes;
    names.composite = true;
  }
  return names;
}

ArchSpec parse_arch(const nlohmann::json& json) {
  const ConfigReader config(json);
  const Architecture& architecture = find_architecture(config);
  const Composite* composite = find_composite(config);
  const ConfigReader text = composite == nullptr ? config : text_of(config);
  ArchSpec spec = architecture.parse(text);
  spec.architecture = composite == nullptr ? architecture.name : composite->name;
  const auto names = config.texts("architectures");
  if (composite == nullptr && !names.empty()) {
    spec.architecture = names.front();
    read_head(config, names.front(), spec);
  }
  if (composite != nullptr) {
    // What is said of the whole holds where nothing is said of the text.
    const ConfigReader& of_ids = text.has("eos_token_id") ? text : config;
    spec.eos_token_ids = of_ids.token_ids("eos_token_id", spec.vocab_size);
    if (!text.has("tie_word_embeddings") && config.has("tie_word_embeddings"))
      spec.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  }
  spec.model_type = architecture.model_type;
  return spec;
}

}  // namespace quire
