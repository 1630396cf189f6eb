#include "cli/flags.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "engine/beam_defaults.h"

namespace quire::cli {
namespace {

const std::map<std::string, SchedulingPolicy>& policies() {
  static const std::map<std::string, SchedulingPolicy> table = {{"fcfs", SchedulingPolicy::kFcfs},
                                                                {"priority", SchedulingPolicy::kPriority},
                                                                {"mlfq", SchedulingPolicy::kMlfq},
                                                                {"fair", SchedulingPolicy::kFair}};
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
  command->add_option("--config", "YAML file with the flags' names (flags given here win)")
      ->type_name("FILE");
  command
      ->add_option_function<std::string>(
          "--log-level", [](const std::string& level) { set_log_level(level); }, "How much is said on stderr")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->default_str("info");
  return command;
}

CLI::Validator byte_size() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const int64_t bytes = parse_bytes(text);
        if (bytes < 0) return "'" + text + "' is no size; write for example 4GiB, 512MiB or 1000000";
        text = std::to_string(bytes);
        return {};
      },
      "SIZE");
}

CLI::Validator duration() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const double seconds = parse_seconds(text);
        if (seconds < 0.0) return "'" + text + "' is no time; write for example 250ms, 1.5s or 2m";
        text = fixed(seconds, 6);
        return {};
      },
      "TIME");
}

void add_model_flag(CLI::App& command, std::string& model) {
  command.add_option("MODEL", model, "Model directory or GGUF file; none: the embedded model")->type_name("");
}

void add_engine_flags(CLI::App& command, EngineConfig& config) {
  add_model_flag(command, config.model);
  const std::string group = "Engine";
  const auto add = [&](const std::string& name, auto& field, const std::string& help) {
    return command.add_option(name, field, help)->group(group);
  };
  const auto float_types = CLI::IsMember({"auto", "float32", "bfloat16", "float16"});
  add("--dtype", config.dtype, "How float weights are kept in memory; auto: as the checkpoint has them")
      ->check(float_types);
  add("--quantization", config.quantization,
      "What float weights are rounded to as they are loaded; auto: nothing")
      ->check(CLI::IsMember({"auto", "int8", "int4", "int4-g64", "int4-g128", "w8a8", "w8a16", "w4a16"}));
  add("--kv-cache-dtype", config.kv_cache_dtype, "Number format of the KV cache; auto: as the weights")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16", "fp8_e4m3", "fp8_e5m2", "int8"}));
  add("--activation-dtype", config.activation_dtype,
      "What meets the codes of a quantized checkpoint: float32 is exact, int16 faster and off by 2^-16 of a "
      "group's largest, int8 the fastest; auto: int8 for GGUF files and W8A8, int16 for others")
      ->check(CLI::IsMember({"auto", "float32", "int16", "int8"}));
  add("--weight-cache", config.weight_cache,
      "Directory that keeps the weights as they are packed: later starts of the model map them there and "
      "are ready sooner; none: they are packed at each start")
      ->type_name("DIR");
  add("--max-model-len", config.max_model_len,
      "Tokens of a sequence, prompt and answer; 0: the model's, cut to what fits");
  add("--runner", config.runner,
      "What the model is for: texts, or embeddings and scores; auto: what its files say")
      ->check(CLI::IsMember({"auto", "generate", "pooling"}));
  add("--block-size", config.block_size, "Tokens in a block of the KV cache");
  add("--kv-cache-memory", config.kv_cache_memory,
      "Memory of the KV pool, for example 4GiB; 0: 40 % of the free memory")
      ->transform(byte_size());
  add("--max-num-seqs", config.max_num_seqs, "Sequences running at once");
  add("--max-num-batched-tokens", config.max_num_batched_tokens,
      "Tokens computed in one step; 0: 512, or --max-num-seqs where that is more");
  add("--long-prefill-token-threshold", config.long_prefill_token_threshold,
      "Tokens of one sequence in one step; 0: only the step's budget limits it");
  add("--max-num-partial-prefills", config.max_num_partial_prefills,
      "Prompts that are computed in chunks at once; 0: any number");
  add("--max-num-queued-reqs", config.max_num_queued_requests, "Requests that may wait; one more is refused");
  add("--max-logprobs", config.max_logprobs, "Alternatives a request may ask for at each token");
  command
      .add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", config.enable_prefix_caching,
                "Reuse the KV cache of equal prompt beginnings (on)")
      ->group(group);
  add_choice(
      command, "--scheduling-policy", config.scheduling_policy, policies(), "fcfs",
      "Who runs first: fcfs as they come; priority by the requests' priority, lower first; mlfq whoever has "
      "had less work; fair the API keys in turn")
      ->group(group);
  add_choice(
      command, "--preemption-mode", config.preemption_mode, preemption_modes(), "auto",
      "What becomes of the KV cache of a sequence that must give way: computed again, moved to --swap-space, "
      "or whichever costs less")
      ->group(group);
  add("--swap-space", config.swap_space, "Host memory for KV blocks that leave the pool; 0: none")
      ->transform(byte_size());
  add("--kv-disk-cache", config.kv_disk_cache,
      "Directory that keeps cached prefixes beyond memory and beyond a restart; none: they are kept nowhere")
      ->type_name("DIR");
  add("--kv-disk-cache-size", config.kv_disk_cache_size, "Bytes in that directory at the most")
      ->transform(byte_size());
  add("--ttft-slo", config.ttft_slo, "Time to the first token aimed at, for example 500ms; 0: none")
      ->transform(duration());
  add("--tpot-slo", config.tpot_slo,
      "Time between tokens aimed at: prompts are computed in chunks small enough for it; 0: none")
      ->transform(duration());
  add("--threads", config.threads, "Threads that compute; 0: the physical cores this process may use");
  add("--profile", config.profile,
      "Time every operation; at the end writes a trace for Chrome or Perfetto there and prints a table; "
      "none: nothing is timed")
      ->type_name("FILE");
  add("--seed", config.seed, "What requests without a seed of their own draw theirs from");
  add("--chat-template", config.chat_template, "Jinja file that replaces the model's chat template")
      ->type_name("FILE");
  add("--generation-config", config.generation_config,
      "auto: sampling defaults of the model's generation_config.json; none: neutral ones")
      ->check(CLI::IsMember({"auto", "none"}));
}

void add_sampling_flags(CLI::App& command, SamplingFlags& f) {
  const std::string group = "Sampling (defaults: the model's own, then those of the API)";
  const auto add = [&](const std::string& name, auto& field, const std::string& help) {
    command.add_option(name, field, help)->group(group);
  };
  add("--n", f.n, "Samples of each prompt");
  add("--max-tokens", f.max_tokens, "Tokens generated at the most");
  add("--min-tokens", f.min_tokens, "Tokens before the text may end");
  add("--temperature", f.temperature, "0 is greedy");
  add("--top-p", f.top_p, "Keep the likeliest tokens of this total probability");
  add("--top-k", f.top_k, "Keep so many of the likeliest tokens; 0: all");
  add("--min-p", f.min_p, "Drop tokens less likely than this part of the likeliest");
  add("--repetition-penalty", f.repetition_penalty, "Over prompt and output; 1 is off");
  add("--presence-penalty", f.presence_penalty, "For each token that the output holds");
  add("--frequency-penalty", f.frequency_penalty, "For each time the output holds a token");
  add("--sampling-seed", f.sampling_seed, "Seed of each prompt's samples");
  add("--stop", f.stop, "Text that ends the output; may be given several times");
  add("--stop-token-ids", f.stop_token_ids, "Tokens that end the output");
  add("--logprobs", f.logprobs, "Log-probabilities of so many alternatives at each token");
  add("--prompt-logprobs", f.prompt_logprobs, "The same of the prompt's tokens");
  command
      .add_flag("--use-beam-search", f.use_beam_search, "Keep the likeliest texts instead of sampling one")
      ->group(group);
  add("--best-of", f.best_of, "Texts that a beam search keeps open, of which --n are printed; default: --n");
  add("--length-penalty", f.length_penalty,
      "Beam search: a text's score is its log-probability / length ^ this; default 1");
  command
      .add_option_function<std::string>(
          "--early-stopping",
          [&f](const std::string& text) {
            f.early_stopping = text.empty() ? EarlyStopping::kYes : early_stoppings().at(text);
          },
          "Beam search: true ends it with as many texts as it keeps open; never only when no better one can "
          "come; "
          "false when none looks likely (default)")
      ->expected(0, 1)  // alone it means true
      ->check(CLI::IsMember(early_stoppings()))
      ->group(group);
  command.add_flag("--ignore-eos", f.ignore_eos, "Go on past the model's end tokens")->group(group);
  command.add_flag("--include-stop-str-in-output", f.include_stop_str_in_output, "Keep the stop text")
      ->group(group);
  command.add_flag("--no-skip-special-tokens", f.keep_special_tokens, "Print special tokens too")
      ->group(group);
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
      // The first argument behind the command (two words for bench) that is no flag is the model; without one
      // the file's counts.
      const size_t place = std::min<size_t>(arguments.size(), arguments[0] == "bench" ? 2 : 1);
      const bool has_model = arguments.size() > place && arguments[place].rfind("-", 0) != 0;
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
