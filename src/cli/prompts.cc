#include "cli/prompts.h"

#include <fstream>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"
#include "engine/beam_defaults.h"
#include "server/openai/constraint_fields.h"
#include "server/openai/sampler_fields.h"
#include "text/chat/messages.h"

namespace quire::cli {
namespace {

template <typename T>
void take(const Json& object, const char* key, T& field) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return;
  try {
    field = it->get<T>();
  } catch (const Json::exception&) {
    throw Error(cat(key, " is ", it->dump(), ", which has the wrong type."));
  }
}

template <typename T>
void take(const Json& object, const char* key, std::optional<T>& field) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return;
  T value{};
  take(object, key, value);
  field = value;
}

// A line that requests beam search does not inherit the model's sampling defaults.
void take_beam_search(const Json& object, SamplingParams& p) {
  const bool was_asked = p.use_beam_search;
  take(object, "use_beam_search", p.use_beam_search);
  if (p.use_beam_search && !was_asked) drop_sampling_defaults(p);
  take(object, "best_of", p.beam_width);
  take(object, "length_penalty", p.length_penalty);
  const auto it = object.find("early_stopping");
  if (it == object.end() || it->is_null()) return;
  if (*it == "never") {
    p.early_stopping = EarlyStopping::kNever;
  } else if (it->is_boolean()) {
    p.early_stopping = it->get<bool>() ? EarlyStopping::kYes : EarlyStopping::kNo;
  } else {
    throw Error(cat("early_stopping must be true, false or \"never\", not ", it->dump(), "."));
  }
}

// Those that the server reads in the same way. The engine checks token ids.
void take_samplers(const Json& object, SamplingParams& params) {
  FieldReader fields(object);
  read_sampler_fields(fields, std::numeric_limits<int32_t>::max(), params);
  if (!fields.ok()) throw Error(fields.failure().message);
}

void take_sampling(const Json& object, SamplingParams& p) {
  take_beam_search(object, p);
  take(object, "n", p.n);
  take(object, "max_tokens", p.max_tokens);
  take(object, "min_tokens", p.min_tokens);
  take(object, "thinking_token_budget", p.thinking_token_budget);
  take(object, "temperature", p.temperature);
  take(object, "top_p", p.top_p);
  take(object, "top_k", p.top_k);
  take(object, "min_p", p.min_p);
  take(object, "repetition_penalty", p.repetition_penalty);
  take(object, "presence_penalty", p.presence_penalty);
  take(object, "frequency_penalty", p.frequency_penalty);
  take(object, "seed", p.seed);
  take(object, "stop_token_ids", p.stop_token_ids);
  take(object, "ignore_eos", p.ignore_eos);
  take(object, "include_stop_str_in_output", p.include_stop_str_in_output);
  take(object, "skip_special_tokens", p.skip_special_tokens);
  take(object, "logprobs", p.logprobs);
  take(object, "prompt_logprobs", p.prompt_logprobs);
  take(object, "allowed_token_ids", p.allowed_token_ids);
  take_samplers(object, p);
  if (const auto it = object.find("stop"); it != object.end() && !it->is_null()) {
    if (it->is_string()) {
      p.stop = {it->get<std::string>()};
    } else {
      take(object, "stop", p.stop);
    }
  }
  if (const auto it = object.find("logit_bias"); it != object.end() && it->is_object()) {
    for (const auto& [token, bias] : it->items()) {
      if (!bias.is_number())
        throw Error(
            cat("logit_bias: the bias of token ", token, " must be a number, not ", bias.dump(), "."));
      p.logit_bias.emplace_back(std::atoi(token.c_str()), bias.get<float>());
    }
  }
}

// Reports errors of the conversation together with the line.
void check_chat(const std::string& line) {
  const Json object = require_json(line, "the line");
  if (const auto request = read_chat_request(object); !request.ok()) throw Error(request.failure().message);
}

// The constraint under the names that the server knows. It replaces that of the command line.
void take_constraint(const Json& object, SamplingParams& params) {
  FieldReader fields(object);
  std::optional<StructuredOutputs> constraint = read_constraint(fields);
  if (!fields.ok()) throw Error(fields.failure().message);
  if (constraint) params.structured_outputs = std::move(constraint);
}

PromptEntry parse_entry(const Json& object, const std::string& line, const SamplingParams& defaults) {
  if (!object.is_object()) throw Error("The line must be a JSON object.");
  PromptEntry entry;
  entry.params = defaults;
  take_sampling(object, entry.params);
  take_constraint(object, entry.params);
  take(object, "lora", entry.lora);
  take(object, "prompt", entry.text);
  take(object, "prompt_token_ids", entry.token_ids);
  if (const auto it = object.find("messages"); it != object.end() && !it->is_null()) {
    check_chat(line);
    entry.chat = line;
  }
  if (!object.contains("prompt") && entry.token_ids.empty() && entry.chat.empty()) {
    throw Error("prompt, prompt_token_ids or messages is missing.");
  }
  return entry;
}

}  // namespace

std::vector<PromptEntry> read_text_prompts(std::istream& in, const SamplingParams& defaults) {
  std::vector<PromptEntry> entries;
  std::string line;
  while (std::getline(in, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    entries.push_back({line, {}, {}, defaults});
  }
  return entries;
}

std::vector<PromptEntry> read_json_prompts(std::istream& in, const std::string& name,
                                           const SamplingParams& defaults) {
  std::vector<PromptEntry> entries;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    // In the order of the keys, which a schema keeps.
    const Json object = Json::parse(line, nullptr, false);
    if (object.is_discarded()) throw Error(cat(name, ":", number, ": not valid JSON"));
    try {
      entries.push_back(parse_entry(object, line, defaults));
    } catch (const Error& error) {
      throw Error(cat(name, ":", number, ": ", error.what()));
    }
  }
  return entries;
}

std::vector<PromptEntry> read_prompts_file(const std::string& path, const SamplingParams& defaults) {
  std::ifstream in(path);
  if (!in) throw Error(cat("cannot read ", path));
  return path.ends_with(".jsonl") ? read_json_prompts(in, path, defaults) : read_text_prompts(in, defaults);
}

}  // namespace quire::cli
