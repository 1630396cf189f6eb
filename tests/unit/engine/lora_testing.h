// Engines with the golden LoRA adapters of a small model.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "io/json_file.h"
#include "support/temp_dir.h"
#include "unit/engine/engine_testing.h"

namespace quire::test {

inline constexpr const char* kLoraModel = "qwen3";
inline constexpr const char* kAdapter = "qwen3-attention";
inline constexpr const char* kOtherAdapter = "qwen3-rslora";

inline std::filesystem::path adapter_path(const std::string& name) {
  return golden_checkpoint("lora/" + name);
}

// The golden adapters of a set ("lora", "lora_pooling") by the name of their base.
inline std::map<std::string, std::vector<std::string>> golden_adapters(const std::string& set) {
  std::map<std::string, std::vector<std::string>> found;
  for (const std::string& name : golden_names(set)) {
    const nlohmann::json golden = read_json_file(golden_checkpoint(set + "/" + name) / "golden.json");
    found[golden["model"].get<std::string>()].push_back(name);
  }
  return found;
}

inline EngineConfig lora_config(const std::string& model) {
  EngineConfig config;
  config.model = model_path(model);
  config.threads = 1;
  config.dtype = "float32";
  config.block_size = 8;
  config.kv_cache_memory = int64_t{32} << 20;
  config.generation_config = "none";
  return config;
}

inline EngineConfig config_with_adapters(const std::string& model, const std::vector<std::string>& adapters) {
  EngineConfig config = lora_config(model);
  for (const std::string& name : adapters) config.lora_modules.push_back({name, adapter_path(name).string()});
  return config;
}

inline Request lora_request(const std::vector<TokenId>& prompt, const std::string& adapter,
                            int32_t max_tokens = 8) {
  Request request;
  request.prompt_token_ids = prompt;
  request.adapter_name = adapter;
  SamplingParams& sampling = request.sampling.edit();
  sampling.max_tokens = max_tokens;
  sampling.temperature = 0.0F;
  sampling.ignore_eos = true;
  return request;
}

inline std::vector<TokenId> tokens_with(Engine& engine, const std::vector<TokenId>& prompt,
                                        const std::string& adapter, int32_t* cached = nullptr) {
  const Answer answer = ask(engine, lora_request(prompt, adapter));
  if (cached != nullptr) *cached = answer.num_cached_tokens;
  return answer.samples.at(0).tokens;
}

// Blocks the thread that loads adapters before it reads one, until it is opened.
class Gate {
 public:
  EngineHooks hooks() {
    EngineHooks hooks;
    hooks.before_adapter = [this](const std::string& name) { pass(name); };
    return hooks;
  }
  void close() { set(false); }
  void open() { set(true); }
  // Waits until an adapter is blocked, and returns its name.
  std::string wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !blocked_.empty(); });
    return blocked_;
  }

 private:
  void set(bool open) {
    {
      const std::lock_guard lock(mutex_);
      open_ = open;
    }
    changed_.notify_all();
  }
  void pass(const std::string& name) {
    std::unique_lock lock(mutex_);
    if (!open_) blocked_ = name;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    blocked_.clear();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::string blocked_;
};

// A copy of a golden adapter that can be damaged.
class AdapterCopy {
 public:
  explicit AdapterCopy(const std::string& name) { replace(name); }

  std::string path() const { return dir_.path().string(); }
  void replace(const std::string& name) const {
    for (const char* file : {"adapter_config.json", "adapter_model.safetensors"}) {
      std::filesystem::remove(dir_.path() / file);
      std::filesystem::copy_file(adapter_path(name) / file, dir_.path() / file);
    }
  }
  // The last value of the last tensor, a float32, becomes NaN.
  void damage() const {
    std::fstream file(dir_.path() / "adapter_model.safetensors",
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-4, std::ios::end);
    file.write("\xff\xff\xff\xff", 4);
  }

 private:
  TempDir dir_;
};

}  // namespace quire::test
