// quire generate: offline batch generation.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/model_argument.h"
#include "cli/progress.h"
#include "cli/prompts.h"
#include "cli/suggestions.h"

namespace quire::cli {
namespace {

using nlohmann::ordered_json;

struct GenerateFlags {
  EngineConfig config;
  SamplingFlags sampling;
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::string lora;
  std::vector<std::string> texts;  // positional prompts; "-" = standard input
  bool read_input = false;
  bool json = false;
  bool stats = false;
};

ordered_json logprobs_json(const std::vector<std::vector<Logprob>>& positions) {
  auto list = ordered_json::array();
  for (const auto& position : positions) {
    auto entries = ordered_json::array();
    for (const auto& entry : position) {
      const ordered_json rank = entry.rank > 0 ? ordered_json(entry.rank) : ordered_json();
      entries.push_back({{"token", entry.token}, {"logprob", entry.logprob}, {"rank", rank}});
    }
    list.push_back(std::move(entries));
  }
  return list;
}

ordered_json completion_json(const Completion& c) {
  ordered_json stop_reason = nullptr;
  if (c.stop_string) stop_reason = *c.stop_string;
  if (c.stop_token) stop_reason = *c.stop_token;
  return {{"index", c.index},
          {"text", c.text},
          {"token_ids", c.token_ids},
          {"cumulative_logprob", c.cumulative_logprob},
          {"logprobs", c.logprobs.empty() ? ordered_json(nullptr) : logprobs_json(c.logprobs)},
          {"finish_reason", c.finish_reason},
          {"stop_reason", stop_reason}};
}

ordered_json generation_json(size_t index, const Generation& g) {
  auto outputs = ordered_json::array();
  for (const auto& completion : g.outputs) outputs.push_back(completion_json(completion));
  ordered_json object = {
      {"index", index}, {"prompt", g.prompt}, {"prompt_token_ids", g.prompt_token_ids}, {"outputs", outputs}};
  if (!g.prompt_logprobs.empty()) object["prompt_logprobs"] = logprobs_json(g.prompt_logprobs);
  object["metrics"] = {{"queue_s", g.times.queued},
                       {"ttft_s", g.times.first_token},
                       {"e2e_s", g.times.total},
                       {"num_cached_tokens", g.num_cached_tokens}};
  return object;
}

void print_text(const std::vector<PromptEntry>& entries, const std::vector<Generation>& generations) {
  for (size_t i = 0; i < generations.size(); ++i) {
    for (const auto& completion : generations[i].outputs) {
      if (generations.size() > 1 || generations[i].outputs.size() > 1) {
        std::cout << "=== prompt " << i << ", sample " << completion.index << "\n";
      }
      std::cout << entries[i].text << completion.text << "\n";
    }
  }
}

void print_statistics(const LLM& llm, double elapsed) {
  const RunStatistics s = llm.statistics();
  const auto rate = [elapsed](int64_t tokens) {
    return elapsed > 0.0 ? static_cast<double>(tokens) / elapsed : 0.0;
  };
  const double hits = s.prefix_cache_queries == 0 ? 0.0
                                                  : static_cast<double>(s.prefix_cache_hits) /
                                                        static_cast<double>(s.prefix_cache_queries);
  const ModelDescription model = llm.model();
  const ordered_json object = {{"model", model.name},
                               {"isa", model.isa},
                               {"threads", model.num_threads},
                               {"load_s", model.load_seconds},
                               {"elapsed_s", elapsed},
                               {"num_requests", s.num_requests},
                               {"num_steps", s.num_steps},
                               {"prompt_tokens", s.prompt_tokens},
                               {"generation_tokens", s.generation_tokens},
                               {"output_tokens_per_s", rate(s.generation_tokens)},
                               {"total_tokens_per_s", rate(s.generation_tokens + s.prompt_tokens)},
                               {"prefix_hit_rate", hits},
                               {"kv_waste", s.kv_waste},
                               {"num_preemptions", s.num_preemptions},
                               {"num_blocks", s.num_blocks},
                               {"num_free_blocks", s.num_free_blocks}};
  std::cerr << object.dump() << "\n";
}

std::vector<PromptEntry> collect_prompts(const GenerateFlags& flags, const SamplingParams& params) {
  std::vector<PromptEntry> entries;
  for (const auto* prompts : {&flags.texts, &flags.prompts}) {
    for (const auto& prompt : *prompts) entries.push_back({prompt, {}, {}, params});
  }
  if (!flags.prompts_file.empty()) {
    auto more = read_prompts_file(flags.prompts_file, params);
    entries.insert(entries.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  if (flags.read_input) {
    auto more = read_text_prompts(std::cin, params);
    entries.insert(entries.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return entries;
}

std::vector<Generation> generate_with_bar(LLM& llm, const std::vector<Prompt>& prompts,
                                          const std::vector<SamplingParams>& params) {
  const int64_t max_model_len = llm.model().max_model_len;
  int64_t max_tokens = 0;
  for (const auto& each : params) {
    const int64_t tokens = each.max_tokens;
    max_tokens += std::min(tokens, max_model_len) * each.n;
  }
  ProgressBar bar("Generating", {.items = "prompts", .rate = "tokens"});
  return run_with_reports(
      [&] { return llm.generate(prompts, params); },
      [&] {
        const RunStatistics now = llm.statistics();
        bar.update(generation_progress(now.num_requests, static_cast<int64_t>(prompts.size()),
                                       now.generation_tokens, max_tokens));
      });
}

// Separates the model from the prompts, and decides whether standard input is read: "-", or a pipe if there
// is no other prompt. Returns false if there is no prompt.
bool find_prompts(GenerateFlags& flags) {
  const bool had_model = !flags.config.model.empty();
  separate_model("generate", flags.config.model, flags.texts);
  flags.read_input = std::erase(flags.texts, "-") > 0;
  if (had_model && flags.config.model.empty() && flags.texts.size() == 1 &&
      flags.texts[0].find(' ') == std::string::npos) {
    std::fprintf(
        stderr,
        "quire generate: '%s' is the prompt, and the model is the embedded one; a model is a path or a name "
        "(org/name)\n",
        flags.texts[0].c_str());
  }
  if (!flags.texts.empty() || !flags.prompts.empty() || !flags.prompts_file.empty()) return true;
  flags.read_input = flags.read_input || has_piped_input();
  return flags.read_input;
}

int run_generate(GenerateFlags flags) {
  if (!find_prompts(flags)) {
    std::fprintf(
        stderr,
        "quire generate: no prompt; add one in quotes, or use --prompts-file FILE, or - for standard "
        "input\n");
    return 2;
  }
  flags.lora = lora_name(flags.lora, flags.config);
  fetch_with_progress(flags.config);
  std::optional<ProgressBar> loading(std::in_place, "Loading");
  LLM llm(flags.config, [&](double done) { loading->update(done); });
  loading.reset();

  SamplingParams params = llm.default_sampling_params();
  const int32_t of_model = llm.model().max_new_tokens;
  params.max_tokens = of_model > 0 ? std::min(of_model, 256) : 256;
  flags.sampling.apply(params);
  const std::vector<PromptEntry> entries = collect_prompts(flags, params);
  if (entries.empty()) throw UsageError("quire generate: standard input has no prompt");
  std::vector<Prompt> prompts;
  std::vector<SamplingParams> all_params;
  for (const auto& entry : entries) {
    if (!entry.chat.empty()) {
      prompts.emplace_back(llm.chat_prompt_json(entry.chat));
    } else if (!entry.token_ids.empty()) {
      prompts.emplace_back(entry.token_ids);
    } else {
      prompts.emplace_back(entry.text);
    }
    prompts.back().lora = entry.lora.value_or(flags.lora);
    all_params.push_back(entry.params);
  }
  const double begin = monotonic_seconds();
  const std::vector<Generation> generations = generate_with_bar(llm, prompts, all_params);
  const double elapsed = monotonic_seconds() - begin;
  if (flags.json) {
    for (size_t i = 0; i < generations.size(); ++i) {
      std::cout
          << generation_json(i, generations[i]).dump(-1, ' ', false, ordered_json::error_handler_t::replace)
          << "\n";
    }
  } else {
    print_text(entries, generations);
  }
  std::cout.flush();
  if (flags.stats) print_statistics(llm, elapsed);
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "generate", "Generate text for a batch of prompts");
  auto flags = std::make_shared<GenerateFlags>();
  add_engine_flags(*command, flags->config);
  command
      ->add_option("PROMPT", flags->texts,
                   "Prompts; - reads one per line from standard input, as does a pipe without other prompts")
      ->type_name("");
  command->add_option("--prompt,-p", flags->prompts, "A prompt; can be given several times")
      ->type_name("TEXT");
  command
      ->add_option("--prompts-file", flags->prompts_file,
                   "One prompt per line (.txt), or JSON lines with prompt, prompt_token_ids or messages and "
                   "sampling fields (.jsonl)")
      ->type_name("FILE");
  command->add_flag("--json", flags->json, "Print one JSON object per prompt");
  command->add_flag("--stats", flags->stats, "Print statistics of the run as a JSON object on stderr");
  add_lora_flag(*command, flags->lora);
  add_sampling_flags(*command, flags->sampling);
  command->callback([flags, &exit_code] { exit_code = run_generate(*flags); });
}

}  // namespace quire::cli
