// From an EngineConfig to a model that is ready to compute: files, tokenizer, template, weights, and the plan
// of the memory.
#pragma once

#include <memory>
#include <optional>

#include "contract/engine_config.h"
#include "contract/kv_layout.h"
#include "engine/engine.h"
#include "engine/model_source.h"
#include "exec/local_runtime.h"
#include "sched/scheduler.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

// Everything an engine owns of a model. Members are destroyed in reverse order: the source, which others read
// in place, last.
struct LoadedModel {
  ModelSource source;
  std::unique_ptr<Tokenizer> tokenizer;  // null: no tokenizer files
  std::optional<ChatTemplate> chat_template;
  std::unique_ptr<LocalRuntime> runtime;  // its executor is started
  SamplingParams default_sampling;
  ModelInfo info;
  KvLayout layout;
  SchedulerConfig scheduler;               // hash_seed 0: to be drawn
  std::vector<StoredBlock> stored_blocks;  // of the disk cache, least recently used first
};

// Throws Error with what to do.
std::unique_ptr<LoadedModel> load_model(const EngineConfig& config, const LoadProgressCallback& progress);

// Only what text needs: no weights are read.
struct LoadedText {
  ModelSource source;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;
};
// chat_template: a file that replaces the model's, or empty.
LoadedText load_text(const std::string& model, const std::string& chat_template);

// Bytes that this process may still take: free memory of the machine, or of its control group where that is
// less.
int64_t available_memory();

// Tokens of a step where the configuration says none or the model needs more.
int32_t batched_tokens(const EngineConfig& config, const ArchSpec& spec, int64_t model_len);

// What the KV pool of an encoder takes at the most: nothing in it lasts beyond a step, so as much as a step
// can fill.
int64_t encoder_kv_memory(const EngineConfig& config, const KvLayout& layout, int32_t num_batched_tokens);

// What the KV pool takes by default of so much free memory.
int64_t default_kv_memory(int64_t free_bytes);

}  // namespace quire
