#include "cli/flags.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/constraint_flags.h"
#include "cli/progress.h"
#include "contract/checkpoint_quantization.h"
#include "engine/beam_defaults.h"
#include "engine/engine.h"
#include "engine/model_fetch.h"

namespace quire::cli {
namespace {

const std::map<std::string, SchedulingPolicy>& policies() {
  static const std::map<std::string, SchedulingPolicy> table = {{"fcfs", SchedulingPolicy::kFcfs},
                                                                {"priority", SchedulingPolicy::kPriority},
                                                                {"mlfq", SchedulingPolicy::kMlfq},
                                                                {"fair", SchedulingPolicy::kFair}};
  return table;
}

const std::map<std::string, FairBy>& fair_bys() {
  static const std::map<std::string, FairBy> table = {{"client", FairBy::kClient},
                                                      {"adapter", FairBy::kAdapter}};
  return table;
}

const std::map<std::string, PreemptionMode>& preemption_modes() {
  static const std::map<std::string, PreemptionMode> table = {{"auto", PreemptionMode::kAuto},
                                                              {"recompute", PreemptionMode::kRecompute},
                                                              {"swap", PreemptionMode::kSwap}};
  return table;
}

const std::map<std::string, EarlyStopping>& early_stoppings() {
  static const std::map<std::string, EarlyStopping> table = {
      {"false", EarlyStopping::kNo}, {"true", EarlyStopping::kYes}, {"never", EarlyStopping::kNever}};
  return table;
}

bool given(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument == flag || argument.rfind(flag + "=", 0) == 0;
  });
}

void append_flag(std::vector<std::string>& out, const std::string& flag, const YAML::Node& value) {
  if (value.IsSequence()) {
    for (const auto& item : value) append_flag(out, flag, item);
    return;
  }
  const auto text = value.as<std::string>();
  if (text == "true") {
    out.push_back(flag);
  } else if (text != "false") {
    out.push_back(flag + "=" + text);
  }
}

}  // namespace

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description) {
  CLI::App* command = app.add_subcommand(name, description);
  command->option_defaults()->always_capture_default();
  command->set_help_flag("-h,--help", "Print the most important flags");
  command->set_help_all_flag("--help-all", "Print all flags");
  command->add_option("--config", "YAML file with flag names and values; command-line flags take precedence")
      ->type_name("FILE");
  command
      ->add_option_function<std::string>(
          "--log-level", [](const std::string& level) { set_log_level(level); }, "Log level on stderr")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->default_str("info");
  return command;
}

CLI::Validator byte_size() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const int64_t bytes = parse_bytes(text);
        if (bytes < 0) return "'" + text + "' is not a valid size; use for example 4GiB, 512MiB or 1000000";
        text = std::to_string(bytes);
        return {};
      },
      "SIZE");
}

CLI::Validator duration() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const double seconds = parse_seconds(text);
        if (seconds < 0.0) return "'" + text + "' is not a valid duration; use for example 250ms, 1.5s or 2m";
        text = fixed(seconds, 6);
        return {};
      },
      "TIME");
}

CLI::Validator token_count() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const char unit = text.empty() ? '\0' : text.back();
        const int64_t factor = unit == 'k'   ? 1000
                               : unit == 'K' ? 1024
                               : unit == 'm' ? 1'000'000
                               : unit == 'M' ? 1 << 20
                                             : 0;
        if (factor == 0) return {};  // the parser reads the number
        const std::string number = text.substr(0, text.size() - 1);
        char* end = nullptr;
        const double count = std::strtod(number.c_str(), &end) * static_cast<double>(factor);
        if (number.empty() || *end != '\0' || !(count >= 0.0 && count <= 2e9))
          return cat("'", text,
                     "' is not a number of tokens; use for example 4096, 32k (32,000) or 32K (32,768)");
        text = std::to_string(std::llround(count));
        return {};
      },
      "");
}

namespace {

// Formats for weights at load time. The formats of quantized checkpoints, such as awq, are accepted too, and
// compared with the checkpoint when it is loaded.
CLI::Validator quantization_name() {
  static const std::vector<std::string> kNames = {"auto",      "int8", "int4",  "int4-g64",
                                                  "int4-g128", "w8a8", "w8a16", "w4a16"};
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (std::ranges::find(kNames, text) != kNames.end() || checkpoint_quantization(text)) return {};
        return cat(text, " not in {", join(kNames, ","),
                   "}, nor the format of a checkpoint such as awq, gptq or fp8");
      },
      "{" + join(kNames, ",") + "}");
}

}  // namespace

void add_model_flag(CLI::App& command, std::string& model, std::string& revision) {
  command
      .add_option("MODEL", model,
                  "Model directory, GGUF file, or name on the Hugging Face hub: org/name, org/name:Q4_K_M or "
                  "org/name/file.gguf (default: the embedded model)")
      ->type_name("");
  command
      .add_option("--revision", revision, "Branch, tag or commit of a model given by name (default: main)")
      ->type_name("NAME");
}

void fetch_with_progress(const std::string& model, const std::string& revision, bool text_only) {
  const auto name = model_name_of(model);
  if (!name) return;
  DownloadProgress line(model);
  fetch_model_or_path(model, *name, {.revision = revision, .text_only = text_only},
                      [&](const hub::PullProgress& progress) {
                        line.update(progress.bytes, progress.total, progress.file, progress.waiting);
                      });
}

void fetch_with_progress(const EngineConfig& config) {
  check_config(config);
  fetch_with_progress(config.model, config.revision);
}

std::unique_ptr<Engine> start_engine(const EngineConfig& config) {
  fetch_with_progress(config);
  ProgressBar bar("Loading", {.rate = "bytes"});
  return Engine::start(config, [&](int64_t done, int64_t total) {
    const auto bytes = static_cast<double>(done);
    bar.update({.fraction = total > 0 ? bytes / static_cast<double>(total) : 1.0, .counted = bytes});
  });
}

namespace {

// NAME=PATH, or the JSON object of vLLM.
LoraModule parse_lora_module(const std::string& text) {
  LoraModule module;
  if (text.starts_with('{')) {
    const auto object = nlohmann::json::parse(text, nullptr, false);
    const auto field = [&](const char* key) {
      return object.is_object() && object.contains(key) && object[key].is_string()
                 ? object[key].get<std::string>()
                 : std::string();
    };
    module = {field("name"), field("path")};
  } else if (const size_t equals = text.find('='); equals != std::string::npos) {
    module = {text.substr(0, equals), text.substr(equals + 1)};
  }
  if (module.name.empty() || module.path.empty())
    throw CLI::ValidationError("--lora-modules", cat("'", text, "' is not NAME=PATH"));
  return module;
}

}  // namespace

void add_lora_flag(CLI::App& command, std::string& lora) {
  command
      .add_option("--lora", lora,
                  "Apply a LoRA adapter: the name of one of --lora-modules or in --lora-dir, or a path "
                  "(default: none)")
      ->type_name("NAME|PATH");
}

std::string lora_name(const std::string& lora, EngineConfig& config) {
  const auto named = [&](const LoraModule& module) { return module.name == lora; };
  std::error_code error;
  const std::filesystem::path below = std::filesystem::path(config.lora_dir) / lora;
  const bool in_directory = !config.lora_dir.empty() && lora.find('/') == std::string::npos &&
                            (std::filesystem::is_directory(below, error) ||
                             std::filesystem::exists(below.string() + ".gguf", error));
  if (!lora.empty() && !in_directory && std::ranges::none_of(config.lora_modules, named))
    config.lora_modules.push_back({lora, lora});
  return lora;
}

void add_engine_flags(CLI::App& command, EngineConfig& config) {
  add_model_flag(command, config.model, config.revision);
  const std::string group = "Engine";
  const auto add = [&](const std::string& name, auto& field, const std::string& help) {
    return command.add_option(name, field, help)->group(group);
  };
  const auto float_types = CLI::IsMember({"auto", "float32", "bfloat16", "float16"});
  add("--dtype", config.dtype, "Data type of float weights in memory; auto = as in the checkpoint")
      ->check(float_types);
  add("--quantization", config.quantization,
      "Quantize float weights to this format at load time; auto = no quantization")
      ->check(quantization_name());
  add("--kv-cache-dtype", config.kv_cache_dtype, "Data type of the KV cache; auto = as the weights")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16", "fp8_e4m3", "fp8_e5m2", "int8"}));
  add("--activation-dtype", config.activation_dtype,
      "Activation type in matrix products with quantized checkpoints. float32 is exact, int16 is faster with "
      "an error of 2^-16 of a group's maximum, int8 is the fastest; auto = int8 for GGUF files and W8A8, "
      "int16 for others")
      ->check(CLI::IsMember({"auto", "float32", "int16", "int8"}));
  add("--kernel-tuning", config.kernel_tuning,
      "Variants of kernels that are faster on some processors than on others, with the same results: choose "
      "by measuring at the start, for about 50 ms, or off = those that are faster on most")
      ->check(CLI::IsMember({"measure", "off"}));
  add("--weight-cache", config.weight_cache,
      "Directory for packed weights. Later starts of the same model map them and are ready sooner (default: "
      "pack at each start)")
      ->type_name("DIR");
  add("--max-model-len", config.max_model_len,
      "Maximum length of a sequence in tokens, prompt and output, for example 4096 or 32k; 0 = the model's, "
      "reduced "
      "to what fits")
      ->transform(token_count());
  add("--runner", config.runner,
      "Run the model for text generation or for pooling (embeddings and scores); auto = what its files "
      "specify")
      ->check(CLI::IsMember({"auto", "generate", "pooling"}));
  add("--block-size", config.block_size, "Tokens per block of the KV cache");
  add("--kv-cache-memory", config.kv_cache_memory,
      "Memory of the KV cache, for example 4GiB; 0 = 40 % of the free memory")
      ->transform(byte_size());
  add("--max-num-seqs", config.max_num_seqs, "Maximum number of running sequences");
  add("--max-num-batched-tokens", config.max_num_batched_tokens,
      "Maximum number of tokens per step; 0 = 512, or --max-num-seqs if that is larger");
  add("--long-prefill-token-threshold", config.long_prefill_token_threshold,
      "Maximum number of tokens of one sequence per step; 0 = no limit except --max-num-batched-tokens");
  add("--max-num-partial-prefills", config.max_num_partial_prefills,
      "Maximum number of prompts that are prefilled in chunks at the same time; 0 = no limit");
  add("--max-num-queued-reqs", config.max_num_queued_requests,
      "Maximum number of waiting requests; further requests are rejected");
  add("--max-logprobs", config.max_logprobs,
      "Maximum number of logprobs per token that a request may ask for");
  add("--grammar-cache-size", config.grammar_cache_size,
      "Memory for compiled output constraints (JSON Schemas, regular expressions, grammars)")
      ->transform(byte_size());
  command
      .add_flag(
          "--jump-ahead,!--no-jump-ahead", config.jump_ahead,
          "Append text that an output constraint leaves no choice for at once, instead of token by token; "
          "the outputs are the same (default: on)")
      ->group(group);
  command
      .add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", config.enable_prefix_caching,
                "Reuse KV cache blocks of equal prompt prefixes (default: on)")
      ->group(group);
  add_choice(
      command, "--scheduling-policy", config.scheduling_policy, policies(), "fcfs",
      "Order in which requests are scheduled: fcfs = arrival, priority = lowest priority value first, mlfq = "
      "least work received first, fair = API keys share the engine equally")
      ->group(group);
  add_choice(
      command, "--fair-by", config.fair_by, fair_bys(), "client",
      "With --scheduling-policy fair: who shares the engine equally, clients (API keys) or LoRA adapters")
      ->group(group);
  add_choice(command, "--preemption-mode", config.preemption_mode, preemption_modes(), "auto",
             "What to do with the KV cache of a preempted request: recompute it, swap it to host memory "
             "(--swap-space), or auto (the cheaper one)")
      ->group(group);
  add("--swap-space", config.swap_space, "Host memory for evicted and swapped KV blocks; 0 = none")
      ->transform(byte_size());
  add("--kv-disk-cache", config.kv_disk_cache,
      "Directory for cached prefixes that are evicted from memory; they survive a restart (default: no disk "
      "cache)")
      ->type_name("DIR");
  add("--kv-disk-cache-size", config.kv_disk_cache_size, "Maximum size of that directory")
      ->transform(byte_size());
  add("--ttft-slo", config.ttft_slo, "Target time to first token, for example 500ms; 0 = none")
      ->transform(duration());
  add("--tpot-slo", config.tpot_slo,
      "Target time per output token; prompts are prefilled in chunks small enough to meet it; 0 = none")
      ->transform(duration());
  command
      .add_flag(
          "--enable-lora,!--no-enable-lora", config.enable_lora,
          "Allow LoRA adapters to be loaded while the server runs; --lora-modules and --lora-dir imply it")
      ->group(group);
  command
      .add_option_function<std::vector<std::string>>(
          "--lora-modules",
          [&config](const std::vector<std::string>& all) {
            config.lora_modules.clear();
            for (const std::string& text : all) config.lora_modules.push_back(parse_lora_module(text));
          },
          "LoRA adapters, NAME=PATH each; requests name one as their model (default: none)")
      ->type_name("NAME=PATH")
      ->group(group);
  add("--max-loras", config.max_loras,
      "Maximum number of different adapters in one step; if more have requests, they take turns of 16 steps");
  add("--max-lora-rank", config.max_lora_rank, "Maximum rank of an adapter; larger ones are refused");
  add("--lora-dir", config.lora_dir,
      "Directory of LoRA adapters: a request may name any of its subdirectories, and each file NAME.gguf as "
      "NAME (default: none)")
      ->type_name("DIR");
  add("--lora-memory", config.lora_memory,
      "Memory for the adapters that are in use; others are read again when a request names them. 0 = "
      "256 MiB, or what --lora-modules take if that is more, but at most 32 times the largest")
      ->transform(byte_size());
  add("--max-cpu-loras", config.max_cpu_loras, "Maximum number of adapters in memory; 0 = no limit");
  add("--device", config.device, "Device that computes the model; auto = the CPU")
      ->check(CLI::IsMember({"auto", "cpu"}));
  add("--threads", config.threads, "Compute threads; 0 = the physical cores available to this process");
  add("--profile", config.profile,
      "Time every operation, write a Chrome or Perfetto trace to this file at the end, and print a summary "
      "(default: no profile)")
      ->type_name("FILE");
  add("--seed", config.seed, "Seed of the engine, used for requests without a seed");
  add("--chat-template", config.chat_template, "Jinja file that replaces the model's chat template")
      ->type_name("FILE");
  add("--generation-config", config.generation_config,
      "auto = sampling defaults from the model's generation_config.json; none = neutral defaults")
      ->check(CLI::IsMember({"auto", "none"}));
  add("--override-generation-config", config.override_generation_config,
      "Sampling defaults that replace those of generation_config.json, as a JSON object: {\"temperature\": "
      "0.5}")
      ->type_name("JSON");
}

void add_sampling_flags(CLI::App& command, SamplingFlags& f) {
  const std::string group = "Sampling (default: generation_config.json, then the defaults of the API)";
  const auto add = [&](const std::string& name, auto& field, const std::string& help) {
    command.add_option(name, field, help)->group(group);
  };
  add("--n", f.n, "Number of outputs per prompt");
  add("--max-tokens", f.max_tokens, "Maximum number of generated tokens");
  add("--min-tokens", f.min_tokens, "Minimum number of generated tokens before an end token or stop string");
  add("--thinking-token-budget", f.thinking_token_budget,
      "Maximum number of reasoning tokens; their end is then forced. 0 = no reasoning, -1 = no limit");
  add("--temperature", f.temperature, "Sampling temperature; 0 = greedy");
  add("--top-p", f.top_p, "Sample from the most probable tokens with this cumulative probability");
  add("--top-k", f.top_k, "Sample from this many most probable tokens; 0 = all");
  add("--min-p", f.min_p, "Minimum probability of a token, relative to the most probable one");
  add("--repetition-penalty", f.repetition_penalty, "Penalty for tokens in prompt and output; 1 = off");
  add("--presence-penalty", f.presence_penalty, "Penalty for tokens that are in the output");
  add("--frequency-penalty", f.frequency_penalty, "Penalty for tokens per occurrence in the output");
  add("--sampling-seed", f.sampling_seed, "Seed of the samples of each prompt");
  add("--stop", f.stop, "Stop string; can be given several times");
  add("--stop-token-ids", f.stop_token_ids, "Token ids that end the output");
  add_constraint_flags(command, f.structured_outputs, group);
  add_sampler_flags(command, f.changes, group);
  add("--logprobs", f.logprobs, "Number of log-probabilities per output token");
  add("--prompt-logprobs", f.prompt_logprobs, "Number of log-probabilities per prompt token");
  command.add_flag("--use-beam-search", f.use_beam_search, "Use beam search instead of sampling")
      ->group(group);
  add("--best-of", f.best_of, "Beam search: number of beams, of which --n are printed (default: --n)");
  add("--length-penalty", f.length_penalty,
      "Beam search: exponent of the length in score = log-probability / length^penalty (default: 1)");
  command
      .add_option_function<std::string>(
          "--early-stopping",
          [&f](const std::string& text) {
            f.early_stopping = text.empty() ? EarlyStopping::kYes : early_stoppings().at(text);
          },
          "Beam search: true = stop at --best-of finished beams, never = stop when no better beam is "
          "possible, false = stop when a better beam is unlikely (default)")
      ->expected(0, 1)  // the flag without a value means true
      ->check(CLI::IsMember(early_stoppings()))
      ->group(group);
  command.add_flag("--ignore-eos", f.ignore_eos, "Continue after the model's end tokens")->group(group);
  command
      .add_flag("--include-stop-str-in-output", f.include_stop_str_in_output,
                "Keep the stop string in the output")
      ->group(group);
  command.add_flag("--no-skip-special-tokens", f.keep_special_tokens, "Print special tokens")->group(group);
}

void SamplingFlags::apply(SamplingParams& params) const {
  if (use_beam_search) {
    params.use_beam_search = true;
    drop_sampling_defaults(params);
  }
  const auto set = [](const auto& from, auto& to) {
    if (from) to = *from;
  };
  set(n, params.n);
  set(max_tokens, params.max_tokens);
  set(min_tokens, params.min_tokens);
  set(thinking_token_budget, params.thinking_token_budget);
  set(temperature, params.temperature);
  set(top_p, params.top_p);
  set(top_k, params.top_k);
  set(min_p, params.min_p);
  set(repetition_penalty, params.repetition_penalty);
  set(presence_penalty, params.presence_penalty);
  set(frequency_penalty, params.frequency_penalty);
  set(sampling_seed, params.seed);
  set(best_of, params.beam_width);
  set(length_penalty, params.length_penalty);
  set(early_stopping, params.early_stopping);
  set(logprobs, params.logprobs);
  set(prompt_logprobs, params.prompt_logprobs);
  for (const auto& change : changes) change(params);
  if (structured_outputs) params.structured_outputs = structured_outputs;
  if (!stop.empty()) params.stop = stop;
  if (!stop_token_ids.empty()) params.stop_token_ids.assign(stop_token_ids.begin(), stop_token_ids.end());
  params.ignore_eos = params.ignore_eos || ignore_eos;
  params.include_stop_str_in_output = params.include_stop_str_in_output || include_stop_str_in_output;
  params.skip_special_tokens = params.skip_special_tokens && !keep_special_tokens;
}

std::vector<std::string> with_config_file(std::vector<std::string> arguments) {
  std::string file;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--config" && i + 1 < arguments.size()) file = arguments[i + 1];
    if (arguments[i].rfind("--config=", 0) == 0) file = arguments[i].substr(9);
  }
  if (file.empty()) return arguments;
  YAML::Node root;
  try {
    root = YAML::LoadFile(file);
  } catch (const YAML::Exception& error) {
    throw Error(cat(file, ": ", error.what()));
  }
  if (!root.IsMap())
    throw Error(cat(file, ": must be a map of flag names to values, for example 'max-num-seqs: 64'"));
  for (const auto& entry : root) {
    auto name = entry.first.as<std::string>();
    if (name == "model" || name == "MODEL") {
      // The model is the first argument after the command (two words for bench) unless that is a flag; it
      // takes precedence over the one in the file.
      const size_t place = std::min<size_t>(arguments.size(), arguments[0] == "bench" ? 2 : 1);
      const bool has_model = arguments.size() > place && !arguments[place].starts_with('-');
      if (!has_model)
        arguments.insert(arguments.begin() + static_cast<int64_t>(place), entry.second.as<std::string>());
      continue;
    }
    std::replace(name.begin(), name.end(), '_', '-');
    const std::string flag = "--" + name;
    if (given(arguments, flag) || given(arguments, "--no-" + name)) continue;
    if (entry.second.IsScalar() && entry.second.as<std::string>() == "false" &&
        name.rfind("enable-", 0) == 0) {
      arguments.push_back("--no-" + name);
    } else if (!entry.second.IsNull()) {
      append_flag(arguments, flag, entry.second);
    }
  }
  return arguments;
}

}  // namespace quire::cli
