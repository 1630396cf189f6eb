#include "models/arch/composites.h"

#include <array>

namespace quire {
namespace {

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

}  // namespace

std::span<const Composite> composites() {
  return kComposites;
}

std::span<const std::string_view> text_prefixes() {
  return kTextPrefixes;
}

}  // namespace quire
