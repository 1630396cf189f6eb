#include "io/config_fields.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "base/strings.h"

namespace quire {
namespace {

constexpr std::string_view kTraining = "for training";
constexpr std::string_view kNotes = "describes the file or the program that wrote it";
constexpr std::string_view kResults = "what the Python call returns";
constexpr std::string_view kMedia = "for images, audio or video, which are not read";
constexpr std::string_view kTensors = "follows from the tensors";
constexpr std::string_view kKernels = "selects an implementation, not a result";
constexpr std::string_view kNeutral = "this value does nothing";
constexpr std::string_view kReadLater = "read with the weights";
constexpr std::string_view kRepeated = "repeats another field";
constexpr std::string_view kPrecision = "sums, scores and states are float32 in any case";
constexpr std::string_view kDrafts = "for speculative decoding";
constexpr std::string_view kBeams = "for beam search, which requests set up";
constexpr std::string_view kTemperature = "the temperature decides, as in vLLM";
constexpr std::string_view kCalibration = "how the weights were quantized";
constexpr std::string_view kActivations = "activations are quantized dynamically";
constexpr std::string_view kKvCache = "--kv-cache-dtype chooses the format";
constexpr std::string_view kOffsets = "for positions in the text, which are not used";
constexpr std::string_view kTokenizerJson = "tokenizer.json says it";
constexpr std::string_view kIds = "ids of tokens that the tokenizer or the client adds";

constexpr std::string_view kNoWindows = "no layer has a window";
constexpr std::string_view kUnread = "transformers does not read it";

// Model types.
constexpr std::string_view kWindowModels = "exaone4 mimo_v2_flash qwen2 qwen2_moe qwen3 qwen3_moe smollm3";
constexpr std::string_view kSigmoidModels =
    "deepseek_v3 deepseek_v32 dots1 glm4_moe glm4_moe_lite glm_moe_dsa kimi_linear youtu";
constexpr std::string_view kEncoderModels =
    "albert bert camembert data2vec-text deberta-v2 distilbert electra ernie eurobert gte jina_embeddings_v3 "
    "modernbert mpnet new nomic_bert roberta xlm-roberta";

constexpr ConfigFile kModel = ConfigFile::kModel;
constexpr ConfigFile kQuantization = ConfigFile::kQuantization;
constexpr ConfigFile kGeneration = ConfigFile::kGeneration;
constexpr ConfigFile kTokenizer = ConfigFile::kTokenizer;
constexpr ConfigFile kTokenizerConfig = ConfigFile::kTokenizerConfig;
constexpr ConfigFile kSentenceTransformers = ConfigFile::kSentenceTransformers;

constexpr FieldWithoutEffect kFieldsWithoutEffect[] = {
    // Of transformers' base class, and of training.
    {kModel, "_*", kNotes},
    {kModel, "architectures", kNotes},
    {kModel, "model_type", kNotes},
    {kModel, "attn_implementation", kKernels},
    {kModel, "auto_map", kNotes},
    {kModel, "transformers_version", kNotes},
    {kModel, "finetuning_task", kNotes},
    {kModel, "task_specific_params", kNotes},
    {kModel, "tokenizer_class", kNotes},
    {kModel, "processor_class", kNotes},
    {kModel, "init_device", kNotes},
    {kModel, "verbose", kNotes},
    {kModel, "dtype", kReadLater},
    {kModel, "torch_dtype", kReadLater},
    {kModel, "quantization_config", kReadLater},
    {kModel, "compression_config", kReadLater},
    {kModel, "sentence_transformers", kReadLater},
    {kModel, "sbert_ce_default_activation_function", kReadLater},
    {kModel, "use_cache", kKernels},
    {kModel, "chunk_size_feed_forward", kKernels},
    {kModel, "pretraining_tp", kKernels},
    {kModel, "torchscript", kKernels},
    {kModel, "use_bfloat16", kKernels},
    {kModel, "*initializer*", kTraining},
    {kModel, "*dropout*", kTraining},
    {kModel, "*layerdrop", kTraining},
    {kModel, "*pdrop", kTraining},
    {kModel, "init_std", kTraining},
    {kModel, "gradient_checkpointing", kTraining},
    {kModel, "*aux_loss*", kTraining},
    {kModel, "seq_aux", kTraining},
    {kModel, "z_loss_coefficient", kTraining},
    {kModel, "tf_legacy_loss", kTraining},
    {kModel, "rescale_prenorm_residual", kTraining},
    {kModel, "embedding_fraction", kTraining},
    {kModel, "input_jitter_noise", kTraining},
    {kModel, "altup_coef_clip", kTraining},
    {kModel, "sparse_pred*", kTraining},
    {kModel, "repad_logits_with_grad", kTraining},
    {kModel, "linear_a_log_*", kTraining},
    {kModel, "linear_dt_*", kTraining},
    {kModel, "time_step_floor", kTraining},
    {kModel, "time_step_max", kTraining},
    {kModel, "time_step_init_scheme", kTraining},
    {kModel, "time_step_scale", kTraining},
    {kModel, "mtp_*", kDrafts},
    {kModel, "num_mtp_layers", kDrafts},
    {kModel, "num_nextn_predict_layers", kDrafts},
    {kModel, "output_attentions", kResults},
    {kModel, "output_hidden_states", kResults},
    {kModel, "output_router_logits", kResults},
    {kModel, "output_scores", kResults},
    {kModel, "return_dict*", kResults},
    {kModel, "use_return_dict", kResults},
    {kModel, "num_logits_to_keep", kResults},
    {kModel, "label2id", "the inverse of id2label"},
    {kModel, "id2label", "labels of a classifier"},
    {kModel, "problem_type", "of a classifier"},
    {kModel, "num_labels", "of a classifier"},
    {kModel, "summary_*", "a head that no supported task uses"},
    {kModel, "is_encoder_decoder", kNeutral, "false"},
    {kModel, "is_decoder", kNeutral, "false"},
    {kModel, "is_decoder", "the architecture says it", "true", "biogpt xglm opt ctrl gpt2"},
    {kModel, "add_cross_attention", kNeutral, "false"},
    {kModel, "tie_encoder_decoder", kNeutral, "false"},
    {kModel, "*_token_id", kIds},
    {kModel, "*_token_index", kIds},
    {kModel, "max_length", "requests set it"},
    {kModel, "do_sample", kTemperature},
    {kModel, "early_stopping", kBeams},
    {kModel, "length_penalty", kBeams},
    {kModel, "diversity_penalty", kNeutral, "0.0"},
    {kModel, "encoder_no_repeat_ngram_size", kNeutral, "0"},
    {kModel, "no_repeat_ngram_size", kNeutral, "0"},
    {kModel, "min_length", kNeutral, "0"},
    {kModel, "num_beam_groups", kNeutral, "1"},
    {kModel, "num_beams", kNeutral, "1"},
    {kModel, "num_return_sequences", kNeutral, "1"},
    {kModel, "remove_invalid_values", kNeutral, "false"},
    {kModel, "repetition_penalty", kNeutral, "1.0"},
    {kModel, "temperature", kNeutral, "1.0"},
    {kModel, "top_k", kNeutral, "50"},
    {kModel, "top_p", kNeutral, "1.0"},
    {kModel, "typical_p", kNeutral, "1.0"},
    // Implementations.
    {kModel, "*softmax_in_fp32", kPrecision},
    {kModel, "reorder_and_upcast_attn", kPrecision},
    {kModel, "residual_in_fp32", kPrecision},
    {kModel, "enable_moe_fp32_combine", kPrecision},
    {kModel, "slow_but_exact", kPrecision},
    {kModel, "mamba_ssm_*dtype", kPrecision},
    {kModel, "norm_type", kPrecision, R"("low_precision_layernorm")"},
    {kModel, "deterministic_flash_attn", kKernels},
    {kModel, "moe_shared_expert_overlap", kKernels},
    {kModel, "use_associative_scan", kKernels},
    {kModel, "use_*mambapy", kKernels},
    {kModel, "use_mamba_kernels", kKernels},
    {kModel, "use_mem_eff_path", kKernels},
    {kModel, "chunk_size", kKernels, "", "mamba2 nemotron_h zamba2"},
    {kModel, "mamba_chunk_size", kKernels},
    {kModel, "block_size", kKernels, "", "minimax minimax_text_01 minimax_m1"},
    // Repetitions of other fields, and values that do nothing.
    {kModel, "rope_*.type", kRepeated},
    {kModel, "rope_*.rope_type", kRepeated},
    {kModel, "rope_*.mrope_*", kMedia},
    {kModel, "rope_*.xdrope_*", kMedia},
    {kModel, "rope_*.finetuned", kNotes},
    {kModel, "rope_parameters", "rope_scaling comes first"},
    {kModel, "max_window_layers", "use_sliding_window turns it off"},
    {kModel, "n_ctx", kRepeated},
    {kModel, "qk_head_dim", kRepeated},
    {kModel, "hybrid_layer_ids", kRepeated, "", "zamba2"},
    {kModel, "attention_hidden_size", kRepeated, "", "zamba2"},
    {kModel, "num_query_groups", kRepeated, "", "zamba2"},
    {kModel, "pack_qkv", kTensors},
    {kModel, "expert_dtype", kTensors},
    {kModel, "rms_norm", kUnread, "", "mamba2"},
    {kModel, "learned_pos_emb", kUnread, "", "mpt"},
    {kModel, "sinusoidal_pos_embds", "the table of positions is stored"},
    {kModel, "layer_norm_elementwise_affine", kNeutral, "true"},
    {kModel, "no_bias", kNeutral, "true", "mpt"},
    {kModel, "moe_norm_min", kNeutral, "1e-12"},
    {kModel, "rope_*.max_position_embeddings", kRepeated},
    {kModel, "rope_parameters.main", kReadLater, "", "deepseek_v4"},
    {kModel, "rope_parameters.compress", kReadLater, "", "deepseek_v4"},
    {kModel, "original_max_position_embeddings", "of a scaling of positions that is not used"},
    {kModel, "sliding_window", kNoWindows, "", kWindowModels},
    {kModel, "layer_types", kNoWindows, "", kWindowModels},
    {kModel, "tie_word_embeddings", "encoders have no output embedding", "", kEncoderModels},
    {kModel, "decoder_bias", "of the output embedding", "", "modernbert"},
    {kModel, "task_type_vocab_size", "use_task_id turns it off", "", "ernie"},
    {kModel, "head_dim", kRepeated, "", "nomic_bert"},
    {kModel, "full_attn_idxs", "layer_types comes first"},
    {kModel, "hidden_act", "means its approximation by tanh", R"("gelu")", "gemma"},
    {kModel, "hidden_act", kRepeated, R"("gelu_pytorch_tanh")", "gemma"},
    {kModel, "hidden_act", "swiglu_alpha and swiglu_limit describe it", "", "minimax_m3_vl_text"},
    {kModel, "index_*", "of layers that this model does not have", "", "minimax_m3_vl_text"},
    {kModel, "expand", "the number of heads and their size come first", "", "nemotron_h"},
    {kModel, "mamba_expand", "mamba_d_ssm comes first", "", "falcon_h1"},
    {kModel, "mamba_proj_bias", kUnread, "", "nemotron_h"},
    {kModel, "time_step_min", kTraining},
    {kModel, "time_step_rank", kUnread, "", "mamba2"},
    {kModel, "kv_channels", kRepeated, "", "zamba2"},
    {kModel, "use_conv_bias", kNeutral, "true", "zamba2"},
    {kModel, "attention_bias", kNeutral, "false"},
    {kModel, "mlp_bias", kNeutral, "false"},
    {kModel, "norm_topk_prob", kNeutral, "true"},
    {kModel, "position_embedding_type", kNeutral, R"("rope")"},
    {kModel, "router_jitter_noise", kTraining},
    {kModel, "layer_norm_eps", kUnread, "", "biogpt"},
    {kModel, "num_hidden_layers", kRepeated, "", "longcat_flash"},
    {kModel, "num_key_value_heads", "multi_query comes first", "", "gpt_bigcode"},
    {kModel, "num_kv_heads", "multi_query comes first", "", "falcon"},
    {kModel, "num_key_value_heads", kUnread, "", "biogpt modernbert-decoder persimmon"},
    {kModel, "parallel_attn", "new_decoder_architecture comes first", "", "falcon"},
    {kModel, "type_vocab_size", kUnread, "", "mpnet"},
    {kModel, "tie_word_embeddings", kNeutral, "false", "dbrx"},
    {kModel, "intermediate_size", kRepeated, "", "longcat_flash"},
    {kModel, "kda_lower_bound", "kda_safe_gate turns it off", "", "bailing_hybrid"},
    {kModel, "linear_attn_config.kda_layers", kRepeated, "", "kimi_linear"},
    {kModel, "num_experts_per_tok", kRepeated, "", "kimi_linear"},
    {kModel, "num_experts_per_tok", "there are no experts", "", "granitemoehybrid"},
    {kModel, "rope_*.factor", "alpha comes first", "", "hunyuan_v1_dense hunyuan_v1_moe"},
    {kModel, "rope_theta", "that of rope_parameters comes first"},
    {kModel, "ffn_config.moe_loss_weight", kTraining},
    {kModel, "*n_config.tie_word_embeddings", kUnread, "", "dbrx mpt"},
    {kModel, "num_key_value_heads", kRepeated, "", "dbrx"},
    // Of published configurations.
    {kModel, "unsloth_*", kNotes},
    {kModel, "xla_device", kNotes},
    {kModel, "max_sequence_length", kRepeated},
    {kModel, "output_past", kResults},
    {kModel, "model_parallel", kKernels},
    {kModel, "ep_size", kKernels},
    {kModel, "cache_implementation", kKernels},
    {kModel, "reference_compile", kKernels},
    {kModel, "*flash_attn*", kKernels},
    {kModel, "use_flash_attention*", kKernels},
    {kModel, "fused_add_norm", kKernels},
    {kModel, "use_parallel_embedding", kKernels},
    {kModel, "topk_method", kNeutral, R"("noaux_tc")", kSigmoidModels},
    {kModel, "scoring_func", kNeutral, R"("sigmoid")", kSigmoidModels},
    {kModel, "moe_layer_freq", kNeutral, "1", kSigmoidModels},
    {kModel, "scale_attn_weights", kNeutral, "true"},
    {kModel, "norm_type", kNeutral, R"("layer_norm")", "starcoder2"},
    {kModel, "mlp_type", kNeutral, R"("default")", "starcoder2"},
    {kModel, "activation_function", kRepeated, "", "starcoder2"},
    {kModel, "apply_residual_connection_post_layernorm", kNeutral, "false"},
    {kModel, "use_mrope", kNeutral, "false"},
    {kModel, "for_llm_compressor", kNeutral, "false"},
    {kModel, "position_embedding_type", kNeutral, R"("rope_gptj")", "cohere2"},
    {kModel, "position_embedding_type", kNeutral, R"("absolute")", "modernbert modernbert-decoder"},
    {kModel, "position_embedding_type", kNeutral, R"("sans_pos")", "modernbert modernbert-decoder"},
    {kModel, "use_embedding_sharing", kNeutral, "true", "cohere cohere2"},
    {kModel, "use_gated_activation", kNeutral, "true", "cohere cohere2"},
    {kModel, "use_parallel_block", kNeutral, "true", "cohere cohere2"},
    {kModel, "layer_switch", kRepeated, "", "cohere2"},
    {kModel, "order_of_interleaved_layers", kRepeated, R"("local_attn_first")", "cohere2"},
    {kModel, "experts_per_token", kRepeated, "", "gpt_oss"},
    {kModel, "initial_context_length", kRepeated, "", "gpt_oss"},
    {kModel, "d_inner", kRepeated, "", "mamba falcon_mamba mamba2"},
    {kModel, "d_model", kRepeated, "", "mamba falcon_mamba mamba2"},
    {kModel, "n_layer", kRepeated, "", "mamba falcon_mamba mamba2"},
    {kModel, "rms_norm", kUnread, "", "mamba falcon_mamba"},
    {kModel, "pad_vocab_size_multiple", kTensors},
    {kModel, "n_special", kUnread, "", "gpt2"},
    {kModel, "predict_special_tokens", kUnread, "", "gpt2"},
    {kModel, "directionality", kUnread, R"("bidi")"},
    {kModel, "pooler_*", kUnread, "", "bert"},
    {kModel, "attn_config.attn_impl", kKernels},
    {kModel, "attn_config.attn_type", kNeutral, R"("multihead_attention")"},
    {kModel, "attn_config.attn_uses_sequence_id", kNeutral, "false"},
    {kModel, "attn_config.prefix_lm", kNeutral, "false"},
    {kModel, "ffn_config.hidden_size", kRepeated, "", "dbrx"},
    // Of multimodal models whose language model has no configuration of its own.
    {kModel, "vision_*", kMedia},
    {kModel, "audio_*", kMedia},
    {kModel, "image_*", kMedia},
    {kModel, "video_*", kMedia},
    {kModel, "mm_*", kMedia},

    {kQuantization, "*version", kNotes},
    {kQuantization, "quantization_status", kNotes},
    {kQuantization, "global_compression_ratio", kNotes},
    {kQuantization, "provider", kNotes},
    {kQuantization, "producer*", kNotes},
    {kQuantization, "meta", kNotes},
    {kQuantization, "meta.*", kNotes},
    {kQuantization, "device", kNotes},
    {kQuantization, "dynamic", kTensors},
    {kQuantization, "parallel_packing", kKernels},
    {kQuantization, "model_*", kNotes},
    {kQuantization, "quantizer", kNotes},
    {kQuantization, "format", kTensors},
    {kQuantization, "quant_algo", kTensors},
    {kQuantization, "quant_mode", kTensors},
    {kQuantization, "bits", kTensors},
    {kQuantization, "w_bit", kTensors},
    {kQuantization, "wbits", kTensors},
    {kQuantization, "group_size", kTensors},
    {kQuantization, "data_type", kTensors},
    {kQuantization, "fmt", kTensors},
    {kQuantization, "scale_fmt", kTensors},
    {kQuantization, "ignore", kTensors},
    {kQuantization, "ignored_layers", kTensors},
    {kQuantization, "exclude", kTensors},
    {kQuantization, "exclude_modules", kTensors},
    {kQuantization, "modules_*", kTensors},
    {kQuantization, "lm_head", kTensors},
    {kQuantization, "sym", kTensors},
    {kQuantization, "linear_class", kKernels},
    {kQuantization, "include_input_output_embeddings", kTensors},
    {kQuantization, "untie_embedding_weights", kTensors},
    {kQuantization, "block_name_to_quantize", kTensors},
    {kQuantization, "quant_type", kTensors},
    {kQuantization, "quant_type_kwargs", kTensors},
    {kQuantization, "pack_dtype", kTensors},
    {kQuantization, "static_groups", kTensors},
    {kQuantization, "desc_act", kTensors},
    {kQuantization, "*load_in_4bit", kTensors},
    {kQuantization, "*load_in_8bit", kTensors},
    {kQuantization, "bnb_4bit_quant_*", kTensors},
    {kQuantization, "bnb_4bit_use_double_quant", kTensors},
    {kQuantization, "llm_int8_skip_modules", kTensors},
    {kQuantization, "bnb_4bit_compute_dtype", kPrecision},
    {kQuantization, "llm_int8_enable_fp32_cpu_offload", kKernels},
    {kQuantization, "llm_int8_has_fp16_weight", kTraining},
    {kQuantization, "damp_percent", kCalibration},
    {kQuantization, "damp_auto_increment", kCalibration},
    {kQuantization, "true_sequential", kCalibration},
    {kQuantization, "mse", kCalibration},
    {kQuantization, "dataset", kCalibration},
    {kQuantization, "tokenizer", kCalibration},
    {kQuantization, "batch_size", kCalibration},
    {kQuantization, "cache_block_outputs", kCalibration},
    {kQuantization, "module_name_preceding_first_block", kCalibration},
    {kQuantization, "pad_token_id", kCalibration},
    {kQuantization, "use_cuda_fp16", kKernels},
    {kQuantization, "*exllama*", kKernels},
    {kQuantization, "max_input_length", kKernels},
    {kQuantization, "backend", kKernels},
    {kQuantization, "do_fuse", kKernels},
    {kQuantization, "fuse_max_seq_len", kKernels},
    {kQuantization, "is_marlin_format", kNeutral, "false"},
    // auto-round
    {kQuantization, "iters", kCalibration},
    {kQuantization, "nsamples", kCalibration},
    {kQuantization, "seqlen", kCalibration},
    {kQuantization, "lr", kCalibration},
    {kQuantization, "minmax_lr", kCalibration},
    {kQuantization, "enable_*", kCalibration},
    {kQuantization, "low_gpu_mem_usage", kCalibration},
    {kQuantization, "gradient_accumulate_steps", kCalibration},
    {kQuantization, "to_quant_block_names", kCalibration},
    {kQuantization, "scale_dtype", kTensors},
    {kQuantization, "act_*", kActivations},
    // compressed-tensors
    {kQuantization, "kv_cache_scheme", kKvCache},
    {kQuantization, "config_groups", kTensors},
    {kQuantization, "config_groups.*.targets", kTensors},
    {kQuantization, "config_groups.*.format", kTensors},
    {kQuantization, "config_groups.*.input_activations", kActivations},
    {kQuantization, "config_groups.*.weights.num_bits", kTensors},
    {kQuantization, "config_groups.*.weights.type", kTensors},
    {kQuantization, "config_groups.*.weights.symmetric", kTensors},
    {kQuantization, "config_groups.*.weights.strategy", kTensors},
    {kQuantization, "config_groups.*.weights.block_structure", kTensors},
    {kQuantization, "config_groups.*.weights.group_size", kTensors},
    {kQuantization, "config_groups.*.weights.actorder", kTensors},
    {kQuantization, "config_groups.*.weights.scale_dtype", kTensors},
    {kQuantization, "config_groups.*.weights.zp_dtype", kTensors},
    {kQuantization, "config_groups.*.weights.dynamic", kNeutral, "false"},
    {kQuantization, "config_groups.*.weights.observer*", kCalibration},
    // fp8 and others
    {kQuantization, "activation_scheme", kActivations},
    {kQuantization, "kv_cache_quant*", kKvCache},
    {kQuantization, "kv_cache_post_rope", kKvCache, "false"},
    // quark
    {kQuantization, "export.*", kTensors},
    {kQuantization, "global_quant_config", kTensors},
    {kQuantization, "global_quant_config.input_tensors", kActivations},
    {kQuantization, "global_quant_config.weight.*", kTensors},
    {kQuantization, "layer_quant_config.*", kTensors},
    {kQuantization, "layer_type_quant_config.*", kTensors},

    {kGeneration, "_*", kNotes},
    {kGeneration, "transformers_version", kNotes},
    {kGeneration, "trust_remote_code", kNotes},
    {kGeneration, "chat_format", kNotes},
    {kGeneration, "*_token_id", kIds},
    {kGeneration, "do_sample", kTemperature},
    {kGeneration, "max_length", "requests set it"},
    {kGeneration, "max_new_tokens", "requests set it"},
    {kGeneration, "max_window_size", "requests set it"},
    {kGeneration, "early_stopping", kBeams},
    {kGeneration, "length_penalty", kBeams},
    {kGeneration, "num_beams", kNeutral, "1"},
    {kGeneration, "num_beam_groups", kNeutral, "1"},
    {kGeneration, "num_return_sequences", kNeutral, "1"},
    {kGeneration, "diversity_penalty", kNeutral, "0.0"},
    {kGeneration, "typical_p", kNeutral, "1.0"},
    {kGeneration, "epsilon_cutoff", kNeutral, "0.0"},
    {kGeneration, "eta_cutoff", kNeutral, "0.0"},
    {kGeneration, "no_repeat_ngram_size", kNeutral, "0"},
    {kGeneration, "encoder_no_repeat_ngram_size", kNeutral, "0"},
    {kGeneration, "encoder_repetition_penalty", kNeutral, "1.0"},
    {kGeneration, "min_length", kNeutral, "0"},
    {kGeneration, "min_new_tokens", kNeutral, "0"},
    {kGeneration, "guidance_scale", kNeutral, "1.0"},
    {kGeneration, "penalty_alpha", kNeutral, "0.0"},
    {kGeneration, "token_healing", kNeutral, "false"},
    {kGeneration, "renormalize_logits", "probabilities have the sum 1 in any case"},
    {kGeneration, "remove_invalid_values", "values are finite"},
    {kGeneration, "output_*", kResults},
    {kGeneration, "return_*", kResults},
    {kGeneration, "use_cache", kKernels},
    {kGeneration, "cache_*", kKernels},
    {kGeneration, "compile_config", kKernels},
    {kGeneration, "disable_compile", kKernels},
    {kGeneration, "low_memory", kKernels},
    {kGeneration, "prefill_chunk_size", kKernels},
    {kGeneration, "is_assistant", kDrafts},
    {kGeneration, "*assistant_*", kDrafts},
    {kGeneration, "prompt_lookup_num_tokens", kDrafts},
    {kGeneration, "max_matching_ngram_size", kDrafts},
    {kGeneration, "target_lookbehind", kDrafts},

    {kTokenizer, "version", kNotes},
    {kTokenizer, "truncation", "requests choose it"},
    {kTokenizer, "padding", "sequences are not padded"},
    {kTokenizer, "model.dropout", kTraining},
    {kTokenizer, "*.trim_offsets", kOffsets},
    {kTokenizer, "post_processor*.add_prefix_space", kOffsets},
    {kTokenizer, "post_processor*.use_regex", kOffsets},
    {kTokenizer, "decoder*.add_prefix_space", "bytes are decoded in one way only"},
    {kTokenizer, "decoder*.use_regex", "bytes are decoded in one way only"},
    {kTokenizer, "*.special_tokens.*.id", kRepeated},
    {kTokenizer, "*.special_tokens.*.tokens", kRepeated},
    {kTokenizer, "*.str_rep", kRepeated},
    {kTokenizer, "*.type_id", kOffsets},

    {kTokenizerConfig, "_*", kNotes},
    {kTokenizerConfig, "auto_map*", kNotes},
    {kTokenizerConfig, "backend", kNotes},
    {kTokenizerConfig, "is_local", kNotes},
    {kTokenizerConfig, "local_files_only", kNotes},
    {kTokenizerConfig, "name_or_path", kNotes},
    {kTokenizerConfig, "special_tokens_map_file", kNotes},
    {kTokenizerConfig, "tokenizer_file", kNotes},
    {kTokenizerConfig, "vocab_file", kNotes},
    {kTokenizerConfig, "processor_class", kNotes},
    {kTokenizerConfig, "use_fast", kNotes},
    {kTokenizerConfig, "from_slow", kNotes},
    {kTokenizerConfig, "device_map", kNotes},
    {kTokenizerConfig, "added_tokens_decoder", kRepeated},
    {kTokenizerConfig, "*_token", "a name for templates"},
    {kTokenizerConfig, "*_tokens", "names for templates"},
    {kTokenizerConfig, "*_token_type", "names for templates"},
    {kTokenizerConfig, "extra_special_tokens*", "names for templates"},
    {kTokenizerConfig, "model_specific_special_tokens*", "names for templates"},
    {kTokenizerConfig, "use_default_system_prompt", "the template decides"},
    {kTokenizerConfig, "response_schema", "answers are parsed by the client"},
    {kTokenizerConfig, "model_max_length", "config.json has the limit"},
    {kTokenizerConfig, "max_length", "requests set it"},
    {kTokenizerConfig, "max_len", "config.json has the limit"},
    {kTokenizerConfig, "max_seq_length", "config.json has the limit"},
    {kTokenizerConfig, "stride", "requests set it"},
    {kTokenizerConfig, "truncation*", "requests choose it"},
    {kTokenizerConfig, "pad*", "sequences are not padded"},
    {kTokenizerConfig, "model_input_names", kResults},
    {kTokenizerConfig, "return_token_type_ids", kResults},
    {kTokenizerConfig, "errors", "invalid bytes become U+FFFD"},
    {kTokenizerConfig, "clean_up_tokenization_spaces", "texts are decoded as tokenizer.json says"},
    {kTokenizerConfig, "spaces_between_special_tokens", "texts are decoded as tokenizer.json says"},
    {kTokenizerConfig, "add_prefix_space", kTokenizerJson},
    {kTokenizerConfig, "do_basic_tokenize", kTokenizerJson},
    {kTokenizerConfig, "never_split", kTokenizerJson},
    {kTokenizerConfig, "trim_offsets", kOffsets},
    {kTokenizerConfig, "tokenizer_type", kTokenizerJson},
    {kTokenizerConfig, "sp_model_kwargs*", kTokenizerJson},
    {kTokenizerConfig, "split_special_tokens", kNeutral, "false"},
    {kTokenizerConfig, "fix_mistral_regex", kTokenizerJson},
    {kTokenizerConfig, "keep_accents", kTokenizerJson},
    {kTokenizerConfig, "remove_space", kTokenizerJson},
    {kTokenizerConfig, "extra_ids", kTokenizerJson},

    {kSentenceTransformers, "__version__*", kNotes},
    {kSentenceTransformers, "idx", kNotes},
    {kSentenceTransformers, "name", kNotes},
    {kSentenceTransformers, "model_type", kNotes},
    {kSentenceTransformers, "kwargs", "arguments that callers may pass"},
    {kSentenceTransformers, "similarity_fn_name", "clients compare embeddings"},
    {kSentenceTransformers, "word_embedding_dimension", kTensors},
    {kSentenceTransformers, "embedding_dimension", kTensors},
    {kSentenceTransformers, "pooling_mode_*", "pooling_mode comes first"},
    {kSentenceTransformers, "transformer_task", kRepeated},
    {kSentenceTransformers, "modality_config", kMedia},
    {kSentenceTransformers, "module_*_name", kNotes},
    {kSentenceTransformers, "unpad_inputs", kKernels},
    {kSentenceTransformers, "prompts", "read for embeddings"},
};

bool matches(std::string_view pattern, const std::string& field) {
  return ::fnmatch(std::string(pattern).c_str(), field.c_str(), FNM_NOESCAPE) == 0;
}

bool lists(std::string_view words, std::string_view word) {
  return cat(" ", words, " ").find(cat(" ", word, " ")) != std::string::npos;
}

std::string quoted_list(const std::vector<std::string>& fields) {
  constexpr size_t kShown = 12;
  std::string text;
  const size_t shown = std::min(kShown, fields.size());
  for (size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == fields.size();
    text += cat(i == 0 ? "" : last ? " and " : ", ", "'", fields[i].substr(0, 100), "'");
  }
  return fields.size() > shown ? cat(text, " and ", fields.size() - shown, " more") : text;
}

}  // namespace

std::span<const FieldWithoutEffect> fields_without_effect() {
  return kFieldsWithoutEffect;
}

bool has_no_effect(ConfigFile kind, std::string_view field, const nlohmann::json& value,
                   std::string_view model_type) {
  // Objects of MPT and DBRX that have the fields of transformers' base class, too.
  for (const std::string_view part : {"attn_config.", "ffn_config."}) {
    if (kind == kModel && field.starts_with(part) &&
        has_no_effect(kind, field.substr(part.size()), value, model_type))
      return true;
  }
  const std::string name(field);
  return std::ranges::any_of(kFieldsWithoutEffect, [&](const FieldWithoutEffect& row) {
    return row.file == kind && matches(row.field, name) &&
           (row.value.empty() || nlohmann::json::parse(row.value) == value) &&
           (row.models.empty() || lists(row.models, model_type));
  });
}

std::string unread_warning(ConfigFile kind, const std::string& file, const FieldLog& log,
                           const nlohmann::json& object, const std::string& path,
                           std::string_view model_type) {
  std::vector<std::string> fields;
  for (const FieldLog::Unread& field : log.unread(object, path)) {
    if (!has_no_effect(kind, std::string_view(field.path).substr(path.size()), *field.value, model_type))
      fields.push_back(field.path);
  }
  return unread_warning(file, fields);
}

std::string unread_warning(const std::string& file, const std::vector<std::string>& fields) {
  if (fields.empty()) return "";
  return cat(file, ": ", quoted_list(fields), fields.size() == 1 ? " is" : " are",
             " unknown or not supported and ", fields.size() == 1 ? "has" : "have",
             " no effect, so that the output may differ from that of other programs");
}

}  // namespace quire
