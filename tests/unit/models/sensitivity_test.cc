// Every field of a spec has an effect: if it is changed, the logits of a golden model differ from those of
// transformers by far more than the tolerance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ops/reference.h"
#include "unit/models/edited_checkpoint.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

struct Change {
  const char* what;
  const char* model;
  const char* field;
  nlohmann::json value;
};

std::vector<Change> changes() {
  return {
      {"window", "mistral", "sliding_window", nullptr},
      {"window_of_one_more", "mistral", "sliding_window", 9},
      {"qwen_window", "qwen2-window", "use_sliding_window", false},
      {"qwen_first_window_layer", "qwen2-window", "max_window_layers", 0},
      {"layer_types", "qwen3-bias", "layer_types", {"full_attention", "sliding_attention"}},
      {"rope_theta", "llama", "rope_theta", 9000.0},
      {"linear_rope", "llama-rope-linear", "rope_scaling", nullptr},
      {"llama3_rope", "llama-rope-llama3", "rope_parameters", {{"rope_theta", 500.0}}},
      {"yarn_rope", "llama-rope-yarn", "rope_scaling", nullptr},
      {"yarn_attention_factor",
       "llama-rope-yarn",
       "rope_scaling",
       {{"type", "yarn"},
        {"factor", 4.0},
        {"original_max_position_embeddings", 32},
        {"attention_factor", 1.0}}},
      {"activation", "llama-bias", "hidden_act", "gelu_new"},
      {"norm_epsilon", "llama", "rms_norm_eps", 1e-2},
      {"clamped_queries_keys_and_values", "olmo-clip", "clip_qkv", nullptr},
      {"clamped_after_norms", "olmoe-clip", "clip_qkv", nullptr},
      {"experts_per_token", "mixtral", "num_experts_per_tok", 1},
      {"normalized_weights", "qwen2_moe", "norm_topk_prob", true},
      {"eps_of_the_final_norm", "jetmoe", "rms_norm_eps", 1e-6},
      {"activation_of_experts", "jetmoe", "activation_function", "silu"},
      {"normalized_weights_of_qwen3", "qwen3_moe", "norm_topk_prob", false},
      {"scaling_of_experts", "glm4_moe", "routed_scaling_factor", 1.4},
      {"groups_of_experts", "glm4_moe", "topk_group", 1},
      {"near_experts", "phimoe", "router_jitter_noise", 0.01},
      {"long_rope", "phi3-longrope", "rope_scaling", nullptr},
      {"chunks", "llama4", "attention_chunk_size", nullptr},
      {"temperature_by_position", "llama4", "attn_temperature_tuning", false},
      {"norm_of_queries", "llama4", "use_qk_norm", false},
      {"layers_that_turn", "llama4", "no_rope_layers", {0, 1, 0, 1}},
      {"scores_of_latent_attention", "deepseek_v3", "rope_scaling", nullptr},
      {"groups_by_their_best", "deepseek_v2", "topk_group", 1},
      {"queries_of_mistral4_that_grow",
       "mistral4",
       "rope_parameters",
       {{"rope_type", "yarn"},
        {"rope_theta", 1e4},
        {"factor", 8.0},
        {"original_max_position_embeddings", 16},
        {"mscale", 1.0},
        {"mscale_all_dim", 1.0}}},
      {"groups_of_mistral4_experts", "mistral4", "topk_group", 1},
      {"scale_of_minicpm3_embeddings", "minicpm3", "scale_emb", 1.0},
      {"scale_of_minicpm3_residuals", "minicpm3", "scale_depth", 1.0},
      {"scale_of_minicpm3_logits", "minicpm3", "dim_model_base", 24},
      {"embeddings_of_afmoe", "afmoe", "mup_enabled", false},
      {"window_of_lfm3", "lfm3", "sliding_window", 9},
      {"scale_of_laguna_experts", "laguna", "moe_routed_scaling_factor", 1.0},
      {"window_of_laguna", "laguna", "sliding_window", 9},
      {"limits_of_step3_experts", "step3", "swiglu_limits", {0.0, 0.0, 0.3, 0.0}},
      {"limits_of_step3_mlps", "step3", "swiglu_limits_shared", {0.0, 0.0, 0.0, 0.4}},
      {"scale_of_step3_experts", "step3", "moe_router_scaling_factor", 1.0},
      {"norms_behind_parts", "muse_glimmer", "post_norm_eps", 1e-2},
      {"scale_of_queries", "muse_glimmer", "qk_scale_factor", 3.0},
      {"layers_that_turn_in_muse", "muse_glimmer", "layer_rope_theta", {1, 1, 1, 1, 0}},
      {"scale_of_muse_logits", "muse_glimmer", "output_multiplier", 0.5},
      {"layers_that_are_skipped", "mllama", "cross_attention_layers", {1, 2, 3}},
      {"softcap_of_nanochat", "nanochat", "final_logit_softcapping", nullptr},
      {"layers_of_north_that_turn",
       "cohere_compass",
       "rope_parameters",
       {{"sliding_attention", nullptr}, {"full_attention", nullptr}}},
      {"choice_of_shared_experts_of_aria", "aria", "moe_topk", 1},
      {"window_of_modernbert_decoder", "modernbert-decoder", "local_attention", 18},
      {"activation_of_the_output_head", "modernbert-decoder", "classifier_activation", "silu"},
      {"choice_of_ernie_vl_experts", "ernie4_5_vl_moe", "moe_k", 1},
      {"normalized_weights_of_kolibri", "kolibri1", "norm_topk_prob", false},
      {"scale_of_xglm_embeddings", "xglm", "scale_embedding", false},
      {"window_of_afmoe", "afmoe", "sliding_window", 9},
      {"scale_of_afmoe_experts", "afmoe", "route_scale", 1.0},
      {"scale_of_hy3_experts", "hy_v3", "router_scaling_factor", 1.0},
      {"groups_of_exaone_experts", "exaone_moe", "topk_group", 1},
      {"window_of_exaone_moe", "exaone_moe", "sliding_window", 9},
      {"mean_with_the_shared_expert", "cohere2_moe", "shared_expert_combination_strategy", "sum"},
      {"choice_of_cohere_experts", "cohere2_moe", "expert_selection_fn", "softmax"},
      {"dense_layers_that_turn", "cohere2_moe", "prefix_dense_sliding_window_pattern", 2},
      {"pattern_behind_dense_layers", "cohere2_moe", "sliding_window_pattern", 2},
      {"window_of_mellum", "mellum", "sliding_window", 9},
      {"rotations_of_granite_swa", "granitemoe_swa", "layer_rope_theta", {1e4, 1e4, 500.0, 1e4, 0}},
      {"falcon_alibi", "falcon-alibi", "alibi", false},
      {"gemma3n_window", "gemma3n", "sliding_window", 9},
      {"gemma3n_sparse_gates", "gemma3n", "activation_sparsity_pattern", {0.6, 0.0, 0.0, 0.0, 0.0}},
      {"gemma3n_cap", "gemma3n", "final_logit_softcapping", 1.0},
      {"sum_of_lightning_attention", "minimax", "linear_attn_alpha_factor", 1.0},
      {"share_of_lightning_attention", "minimax", "linear_attn_beta_factor", 1.0},
      {"sum_of_attention", "minimax", "full_attn_alpha_factor", 1.0},
      {"share_of_attention", "minimax", "full_attn_beta_factor", 1.0},
      {"sum_of_experts", "minimax", "mlp_alpha_factor", 1.0},
      {"share_of_experts", "minimax", "mlp_beta_factor", 1.0},
      {"gemma4_window", "gemma4", "sliding_window", 9},
      {"gemma4_cap", "gemma4", "final_logit_softcapping", 1.0},
      {"least_and_largest_step", "mamba2", "time_step_limit", {0.05, 0.3}},
      {"value_heads_in_turn", "qwen3_5", "linear_value_heads_in_turn", true},
      {"gates_of_shared_experts", "qwen3_next", "norm_topk_prob", false},
      {"what_olmo_hybrid_takes_up", "olmo_hybrid", "linear_allow_neg_eigval", false},
      {"olmo_hybrid_without_positions", "olmo_hybrid", "rope_parameters", nullptr},
      {"window_of_mimo", "mimo_v2_flash", "sliding_window", 9},
      {"values_of_mimo", "mimo_v2_flash", "attention_value_scale", 1.0},
      {"tokens_before_in_the_window_of_mimo", "mimo_v2_flash-default-layers", "sliding_window_size", 7},
      {"groups_of_kimi_experts", "kimi_linear", "topk_group", 3},
      {"weights_of_kimi_experts", "kimi_linear", "moe_renormalize", false},
      {"bound_of_kimi_delta_attention", "bailing_hybrid", "kda_lower_bound", -4.0},
      {"layers_of_bailing", "bailing_hybrid", "rope_theta", 900.0},
      {"scale_of_longcat_experts", "longcat_flash", "routed_scaling_factor", 1.4},
      {"turning_part",
       "qwen3_5",
       "rope_parameters",
       {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 1.0}}},
      {"groups_of_nemotron_experts", "nemotron_h", "topk_group", 1},
      {"hybrid_without_positions", "granitemoehybrid-dense", "position_embedding_type", nullptr},
      {"keys_of_falcon_h1", "falcon_h1", "key_multiplier", 1.0},
      {"attention_of_falcon_h1", "falcon_h1", "attention_in_multiplier", 1.0},
      {"result_of_falcon_h1", "falcon_h1", "attention_out_multiplier", 1.0},
      {"states_of_falcon_h1", "falcon_h1", "ssm_multipliers", {1.0, 1.0, 1.0, 1.0, 0.7}},
      {"state_input_of_falcon_h1", "falcon_h1", "ssm_in_multiplier", 1.0},
      {"state_result_of_falcon_h1", "falcon_h1", "ssm_out_multiplier", 1.0},
      {"mlp_of_falcon_h1", "falcon_h1", "mlp_multipliers", {0.8, 1.0}},
      {"gates_of_falcon_h1", "falcon_h1", "mlp_multipliers", {1.0, 1.2}},
      {"norm_before_gate", "falcon_h1-norm", "mamba_norm_before_gate", false},
      {"blocks_that_turn", "zamba2", "use_mem_rope", false},
      {"least_step_of_zamba2", "zamba2-one-block", "time_step_min", 0.5},
      {"activation_of_blocks", "zamba2", "hidden_act", "relu"},
      {"keys_of_a_query", "deepseek_v32", "index_topk", 15},
      {"blocks_of_a_query", "minimax_m3", "index_topk_blocks", 1},
      {"blocks_near_a_query", "minimax_m3", "index_local_blocks", 0},
      {"keys_of_a_block", "minimax_m3", "index_block_size", 32},
      {"keys_of_a_query_of_layers_that_share", "glm_moe_dsa", "index_topk", 17},
      {"keys_of_v4_queries", "deepseek_v4", "index_topk", 3},
      {"window_of_v4", "deepseek_v4", "sliding_window", 9},
      {"tokens_of_heavy_keys", "deepseek_v4-saved", "compress_rope_theta", 900.0},
      {"positions_of_compressed_keys", "deepseek_v4", "compress_rope_theta", 900.0},
      {"limit_of_gpt_oss", "gpt_oss-limit", "swiglu_limit", 8.0},
      {"limit_of_minimax_m3", "minimax_m3-limit", "swiglu_limit", 8.0},
      {"placeholders_of_gemma4", "gemma4-placeholders", "pad_token_id", 4},
      {"limit_of_v4_gates", "deepseek_v4", "swiglu_limit", 5.0},
      {"rounds_of_streams", "deepseek_v4", "hc_sinkhorn_iters", 1},
      {"scale_of_v4_experts", "deepseek_v4", "routed_scaling_factor", 1.4},
      {"windows_of_gpt_neo", "gpt_neo", "window_size", 9},
      {"layers_of_gpt_neo", "gpt_neo", "attention_types", {{{"global"}, 3}}},
      {"norm_of_selections", "falcon_mamba", "mixer_rms_eps", 1e-1},
      {"layers_that_attend", "granite_swa", "sliding_window", 9},
      {"logits_of_hyperclovax", "hyperclovax", "logits_scaling", 1.0},
      {"gpt2_activation", "gpt2", "activation_function", "relu"},
      {"gpt2_scale", "gpt2", "scale_attn_weights", false},
      {"gpt2_scale_by_layer", "gpt2-bare-names", "scale_attn_by_inverse_layer_idx", false},
  };
}

class Sensitivity : public testing::TestWithParam<Change> {};

TEST_P(Sensitivity, LogitsChangeWithTheField) {
  const Change& change = GetParam();
  const auto golden = read_json_file(test::golden_model(change.model) / "golden.json")["cases"].back();
  const auto prompt = golden["prompt"].get<std::vector<int32_t>>();
  const auto expected = golden["logits"].get<std::vector<float>>();
  test::EditedCheckpoint edited(test::golden_model(change.model));
  // The largest difference from the golden logits, relative to the largest of them.
  const auto distance = [&] {
    const auto checkpoint = edited.open();
    const auto model = Model::load(*checkpoint, reference_ops(), {}, {}, {});
    const auto logits = test::PagedRunner(*model, reference_ops(), nullptr, {}).append(prompt, 64).back();
    float largest = 0.0F;
    float far = 0.0F;
    for (size_t i = 0; i < logits.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      far = std::max(far, std::abs(logits[i] - expected[i]));
    }
    return far / largest;
  };
  EXPECT_LT(distance(), 1e-4F);
  // The language model of a multimodal model.
  const bool inside = edited.config.contains("text_config");
  (inside ? edited.config["text_config"] : edited.config)[change.field] = change.value;
  EXPECT_GT(distance(), 1e-4F);  // the golden test fails
}

INSTANTIATE_TEST_SUITE_P(All, Sensitivity, testing::ValuesIn(changes()),
                         [](const auto& test) { return std::string(test.param.what); });

}  // namespace
}  // namespace quire
