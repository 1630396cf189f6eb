#include "engine/loader.h"

#include <algorithm>
#include <future>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "engine/build_info.h"
#include "engine/generation_defaults.h"
#include "engine/kv_tiers.h"
#include "io/json_file.h"
#include "io/mapped_region.h"

namespace quire {
namespace {

constexpr double kDefaultKvFraction = 0.4;  // KV pool size as a fraction of the free memory
constexpr int64_t kMaxPoolBlocks = int64_t{1} << 24;

// The template of --chat-template FILE, which replaces all of the model's; none without the flag.
ChatTemplates read_chat_template(const std::string& file) {
  ChatTemplates templates;
  if (!file.empty()) templates.add("default", ChatTemplate::parse(read_text_file(file), file));
  return templates;
}

void add_templates_of_model(const Tokenizer* tokenizer, const std::string& model_name,
                            ChatTemplates& templates) {
  if (tokenizer == nullptr || !templates.empty()) return;
  for (const auto& [name, text] : tokenizer->chat_templates()) {
    if (text.empty()) continue;
    try {
      const std::string of = name == "default" ? "" : cat(" '", name, "'");
      templates.add(name, ChatTemplate::parse(text, cat(model_name, ": chat template", of)));
    } catch (const Error& error) {
      // Completions still work.
      log_warning(error.what(),
                  "; chat requests that need it are rejected (set a template with --chat-template FILE)");
      templates.add(name, std::nullopt);
    }
  }
}

std::vector<TokenId> end_tokens(const ModelSpec& spec, const Tokenizer* tokenizer, std::vector<TokenId> ids) {
  ids.insert(ids.end(), spec.eos_token_ids.begin(), spec.eos_token_ids.end());
  if (tokenizer != nullptr && tokenizer->eos_id()) ids.push_back(*tokenizer->eos_id());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// Logs what the files of a model say and quire does not follow.
void log_all(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) log_warning(warning);
}

WeightCacheOptions weight_cache_options(const EngineConfig& config) {
  const BuildInfo build = build_info();
  return {.directory = config.weight_cache, .build = cat(build.version, " ", build.commit)};
}

// Decides the sizes of the pool and of sequences once the weights are in memory.
void plan_memory(const EngineConfig& config, LoadedModel& model) {
  ModelInfo& info = model.info;
  LocalExecutorOptions options;
  options.kv_dtype = model.runtime->kv_dtype();
  options.layout = model.runtime->kv_layout(config.block_size);
  const ModelSpec& spec = model.runtime->spec();
  const int64_t model_len = model.runtime->model().max_model_len();
  const int64_t per_block = options.layout.bytes_per_block;

  info.max_num_seqs = config.max_num_seqs;
  info.scheduling_policy = config.scheduling_policy;
  info.max_num_batched_tokens = batched_tokens(config, spec, model_len);
  options.max_num_batched_tokens = info.max_num_batched_tokens;
  options.max_model_len = static_cast<int32_t>(model_len);
  options.logprobs_mode = config.logprobs_mode;
  options.jump_ahead = config.jump_ahead;
  const int64_t workspace = model.runtime->workspace_bytes(options);
  // The system counts mapped weights as available memory, but every step reads them.
  const DeviceMemory memory = model.runtime->device().memory();
  const int64_t free_bytes =
      memory.free_bytes - model.runtime->model().mapped_bytes() - model.adapters->memory();
  int64_t pool = config.kv_cache_memory;
  if (pool == 0) {
    check_swap_space(config, free_bytes - workspace);
    pool = default_kv_memory(free_bytes - workspace - config.swap_space);
  }
  if (spec.bidirectional)
    pool = std::min(pool, encoder_kv_memory(config, options.layout, info.max_num_batched_tokens));
  if (config.kv_cache_memory > 0 && pool + workspace > free_bytes && memory.exact) {
    throw Error(cat("--kv-cache-memory ", format_bytes(pool), " and ", format_bytes(workspace),
                    " of working memory do not fit into ", format_bytes(free_bytes), " of free memory"));
  }
  const int64_t num_blocks = std::min(pool / per_block, kMaxPoolBlocks);
  const int64_t max_chunk = info.max_num_batched_tokens;
  const int64_t pool_tokens = max_sequence_tokens(options.layout, num_blocks, max_chunk);
  int64_t max_len = model_len;
  if (pool_tokens < max_len) {
    const int64_t states = state_blocks(options.layout) * per_block;
    const std::string numbers =
        cat("the KV pool of ", format_bytes(pool), " holds a sequence of ", pool_tokens, " tokens at ",
            format_bytes(kv_bytes_per_token(options.layout)), " per token",
            states > 0 ? cat(" in addition to recurrent states of ", format_bytes(states)) : std::string());
    if (config.max_model_len > 0 || pool_tokens < std::min<int64_t>(max_len, 2 * options.layout.block_size)) {
      throw Error(cat(numbers, ", a sequence of ", max_len, " tokens needs ",
                      format_bytes(max_sequence_blocks(options.layout, max_len, max_chunk) * per_block),
                      "; increase --kv-cache-memory or decrease --max-model-len"));
    }
    max_len = pool_tokens;
    log_warning(numbers, "; --max-model-len is reduced from ", model_len, " to ", max_len);
  }
  options.layout.num_blocks = static_cast<int32_t>(num_blocks);
  options.max_model_len = static_cast<int32_t>(max_len);
  if (!spec.bidirectional)
    open_kv_tiers(config, *model.runtime, free_bytes - workspace - num_blocks * per_block, options);
  if (options.disk != nullptr) {
    model.scheduler.hash_seed = options.disk->hash_seed();
    model.stored_blocks = stored_blocks(*options.disk);
  }
  model.layout = options.layout;
  info.max_model_len = options.max_model_len;
  info.block_size = options.layout.block_size;
  info.num_blocks = options.layout.num_blocks;
  info.kv_bytes_per_token = kv_bytes_per_token(options.layout);
  info.kv_bytes_per_sequence = max_sequence_blocks(options.layout, max_len, max_chunk) * per_block;
  info.kv_pool_bytes = num_blocks * per_block;
  model.runtime->start_executor(options);
}

// Describes the output of a pooling model.
void describe_task(const LocalRuntime& runtime, ModelInfo& info) {
  info.task = runtime.spec().task;
  info.bidirectional = runtime.spec().bidirectional;
  if (info.task == ModelTask::kGenerate) return;
  const Model& model = runtime.model();
  if (info.task == ModelTask::kEmbed) info.embedding_size = model.pooled_size();
  info.labels = runtime.spec().labels;
  info.pools_all_tokens = model.pools_all_tokens();
  info.has_token_types = runtime.spec().token_types > 1;
  PromptFiles prompts = read_prompts(runtime.checkpoint());
  info.prompts = std::move(prompts.prompts);
  info.default_prompt = std::move(prompts.default_name);
}

}  // namespace

int32_t batched_tokens(const EngineConfig& config, const ModelSpec& spec, int64_t model_len) {
  const int32_t default_value = scheduler_config(config).max_num_batched_tokens;
  // With bidirectional attention all tokens of a sequence are computed in one step.
  return spec.bidirectional
             ? std::max(default_value, static_cast<int32_t>(std::min<int64_t>(model_len, 1 << 20)))
             : default_value;
}

int64_t encoder_kv_memory(const EngineConfig& config, const KvLayout& layout, int32_t num_batched_tokens) {
  const int64_t blocks = num_batched_tokens / layout.block_size + config.max_num_seqs + 1;
  // The scheduler keeps a fraction of the pool free.
  return (blocks + blocks / 64 + 1) * layout.bytes_per_block;
}

int64_t default_kv_memory(int64_t free_bytes) {
  return static_cast<int64_t>(kDefaultKvFraction * static_cast<double>(std::max<int64_t>(0, free_bytes)));
}

std::unique_ptr<LoadedModel> load_model(const EngineConfig& config, const LoadProgressCallback& progress,
                                        const DeviceOpener& open_device) {
  const double begin = monotonic_seconds();
  auto model = std::make_unique<LoadedModel>();
  model->chat_templates = read_chat_template(config.chat_template);
  model->source = ModelSource::resolve(config.model, {.revision = config.revision});
  // Tokenizer and weights are read at the same time.
  auto tokenizer =
      std::async(std::launch::async, [&source = model->source] { return source.open_tokenizer(); });
  model->runtime = LocalRuntime::load(model->source.open_checkpoint(),
                                      RuntimeOptions{.dtype = config.dtype,
                                                     .quantization = config.quantization,
                                                     .kv_cache_dtype = config.kv_cache_dtype,
                                                     .activation_dtype = config.activation_dtype,
                                                     .kernel_tuning = config.kernel_tuning,
                                                     .device = config.device,
                                                     .open_device = open_device,
                                                     .threads = config.threads,
                                                     .max_model_len = config.max_model_len,
                                                     .runner = config.runner,
                                                     .profile = config.profile,
                                                     .weight_cache = weight_cache_options(config)},
                                      progress);
  model->tokenizer = tokenizer.get();
  add_templates_of_model(model->tokenizer.get(), model->source.name(), model->chat_templates);
  const LocalRuntime& runtime = *model->runtime;
  GenerationDefaults defaults =
      read_generation_config(runtime.checkpoint().generation_config(), runtime.spec().vocab_size,
                             config.generation_config != "none");
  if (!config.override_generation_config.empty()) {
    override_generation_defaults(config.override_generation_config, runtime.spec().vocab_size, defaults);
  }
  log_all(runtime.spec().warnings);
  log_all(defaults.warnings);
  if (model->tokenizer != nullptr) log_all(model->tokenizer->warnings());
  model->default_sampling = defaults.sampling;
  ModelInfo& info = model->info;
  info.name = model->source.name();
  info.path = config.model;
  info.architecture = runtime.spec().architecture;
  info.device = runtime.device().name();
  info.isa = runtime.device().instruction_set();
  info.weight_dtype = dtype_name(runtime.model().weight_dtype());
  info.quantization = runtime.model().quantization();
  info.kv_cache_dtype = dtype_name(runtime.kv_dtype());
  info.vocab_size = static_cast<int32_t>(runtime.spec().vocab_size);
  info.num_parameters = runtime.model().num_parameters();
  info.weight_bytes = runtime.model().weight_bytes();
  info.num_threads = runtime.num_threads();
  info.max_new_tokens = defaults.max_new_tokens;
  info.end_token_ids = end_tokens(runtime.spec(), model->tokenizer.get(), std::move(defaults.end_tokens));
  describe_task(runtime, info);
  model->adapters = std::make_unique<AdapterRegistry>(*model->runtime, info, config);
  plan_memory(config, *model);

  const uint64_t hash_seed = model->scheduler.hash_seed;
  model->scheduler = scheduler_config(config);
  model->scheduler.hash_seed = hash_seed;
  model->scheduler.max_num_batched_tokens = info.max_num_batched_tokens;
  model->scheduler.max_model_len = info.max_model_len;
  model->scheduler.whole_prompts = runtime.spec().bidirectional;
  model->scheduler.enable_prefix_caching = config.enable_prefix_caching && !runtime.spec().bidirectional;
  if (const auto file = lost_mapped_file())
    throw Error(cat(*file, " was truncated or became unreadable while it was loaded"));
  info.load_seconds = monotonic_seconds() - begin;
  return model;
}

LoadedText load_text(const std::string& model, const std::string& chat_template,
                     const std::string& revision) {
  LoadedText text;
  text.source = ModelSource::resolve(model, {.revision = revision, .text_only = true});
  text.tokenizer = text.source.open_tokenizer();
  text.chat_templates = read_chat_template(chat_template);
  add_templates_of_model(text.tokenizer.get(), text.source.name(), text.chat_templates);
  return text;
}

}  // namespace quire
