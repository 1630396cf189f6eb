// Loads a model from an EngineConfig: files, tokenizer, template, weights, and the memory plan.
#pragma once

#include <memory>
#include <optional>

#include "contract/engine_config.h"
#include "contract/kv_layout.h"
#include "engine/adapter_registry.h"
#include "engine/engine_types.h"
#include "engine/model_source.h"
#include "exec/local_runtime.h"
#include "sched/scheduler.h"
#include "text/chat/chat_templates.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

// The model that an engine owns. Members are destroyed in reverse order: the source, which others read in
// place, last.
struct LoadedModel {
  ModelSource source;
  std::unique_ptr<Tokenizer> tokenizer;  // null = no tokenizer files
  ChatTemplates chat_templates;
  std::unique_ptr<LocalRuntime> runtime;  // its executor is started
  SamplingParams default_sampling;
  std::unique_ptr<AdapterRegistry> adapters;  // reads with the runtime
  ModelInfo info;
  KvLayout layout;
  SchedulerConfig scheduler;               // hash_seed 0 = not drawn yet
  std::vector<StoredBlock> stored_blocks;  // in the disk cache, least recently used first
};

// Throws Error if the files are missing or invalid, the model is not supported, or memory does not suffice.
std::unique_ptr<LoadedModel> load_model(const EngineConfig& config, const LoadProgressCallback& progress,
                                        const DeviceOpener& open_device = nullptr);

// The parts that text processing needs; no weights are read.
struct LoadedText {
  ModelSource source;
  std::unique_ptr<Tokenizer> tokenizer;
  ChatTemplates chat_templates;
};
// chat_template: a file that replaces the model's templates; empty = the model's. revision: of a name on the
// hub.
LoadedText load_text(const std::string& model, const std::string& chat_template,
                     const std::string& revision = {});

// Maximum tokens per step: the configured number, or a default, or more if the model requires it.
int32_t batched_tokens(const EngineConfig& config, const ModelSpec& spec, int64_t model_len);

// Maximum size of an encoder's KV pool in bytes: nothing in it is kept after a step, so it is what one step
// can fill.
int64_t encoder_kv_memory(const EngineConfig& config, const KvLayout& layout, int32_t num_batched_tokens);

// Default size of the KV pool in bytes.
int64_t default_kv_memory(int64_t free_bytes);

}  // namespace quire
