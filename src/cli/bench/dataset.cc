#include "cli/bench/dataset.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/rng.h"
#include "base/strings.h"
#include "cli/prompts.h"
#include "sim/trace.h"

namespace quire::cli {
namespace {

using nlohmann::json;

constexpr int32_t kMaxLength = 1 << 24;  // tokens; a larger value is treated as an error in the file

// Limits for ShareGPT conversations, as in vLLM's benchmark.
constexpr int64_t kMinTokens = 4;
constexpr int64_t kMaxPromptTokens = 1024;
constexpr int64_t kMaxTotalTokens = 2048;

constexpr const char* kWords[] = {
    "the",   "of",   "and",   "to",   "in",   "is",   "that", "for",  "it",   "as",   "was",   "with", "be",
    "by",    "on",   "not",   "he",   "his",  "but",  "are",  "this", "or",   "had",  "at",    "from", "her",
    "she",   "you",  "they",  "were", "an",   "one",  "all",  "we",   "can",  "has",  "there", "been", "if",
    "more",  "when", "will",  "so",   "no",   "out",  "what", "up",   "said", "time", "some",  "who",  "two",
    "house", "day",  "water", "long", "very", "work", "life", "year", "way",  "man",  "over",  "know"};

int32_t checked_length(double value, const std::string& place) {
  if (!(value >= 0.0) || value > kMaxLength)
    throw Error(cat(place, ": ", value, " is not a valid number of tokens"));
  return std::max(1, static_cast<int32_t>(value));
}

int32_t length_field(const json& object, const char* key, const std::string& place) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number())
    throw Error(cat(place, ": '", key, "' must be a number of tokens"));
  return checked_length(it->get<double>(), place);
}

std::ifstream open_dataset(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(cat("cannot read ", path));
  return in;
}

// Returns the text of turn `i` of a ShareGPT conversation, or null if there is none.
const std::string* turn_text(const json& conversation, size_t i) {
  if (i >= conversation.size() || !conversation[i].is_object()) return nullptr;
  const auto it = conversation[i].find("value");
  return it != conversation[i].end() && it->is_string() ? it->get_ptr<const std::string*>() : nullptr;
}

void add_conversation(const json& entry, const DatasetOptions& options, const TokenCounter& count_tokens,
                      std::vector<BenchRequest>& out) {
  const auto it = entry.find("conversations");
  if (it == entry.end() || !it->is_array()) return;
  const std::string* prompt = turn_text(*it, 0);
  const std::string* answer = turn_text(*it, 1);
  if (prompt == nullptr || answer == nullptr || prompt->empty()) return;
  const int64_t input = count_tokens(*prompt);
  const int64_t output = options.force_output_len ? options.output_len : count_tokens(*answer);
  const bool too_short = input < kMinTokens || (!options.force_output_len && output < kMinTokens);
  if (too_short || input > kMaxPromptTokens || input + output > kMaxTotalTokens) return;
  BenchRequest& request = out.emplace_back();
  request.text = *prompt;
  request.input_len = static_cast<int32_t>(input);
  request.output_len = static_cast<int32_t>(output);
}

bool full(const std::vector<BenchRequest>& requests, const DatasetOptions& options) {
  return static_cast<int64_t>(requests.size()) >= options.num_prompts;
}

std::vector<BenchRequest> read_sharegpt(const std::string& path, const DatasetOptions& options,
                                        const TokenCounter& count_tokens) {
  std::ifstream in = open_dataset(path);
  const json root = json::parse(in, nullptr, false);
  if (root.is_discarded()) throw Error(cat(path, ": not valid JSON"));
  if (!root.is_array()) throw Error(cat(path, ": must be a list of objects with 'conversations' (ShareGPT)"));
  std::vector<BenchRequest> requests;
  for (const auto& entry : root) {
    if (full(requests, options)) break;
    if (entry.is_object()) add_conversation(entry, options, count_tokens, requests);
  }
  return requests;
}

BenchRequest from_entry(const PromptEntry& entry, const DatasetOptions& options) {
  BenchRequest request;
  request.text = entry.text;
  request.token_ids = entry.token_ids;
  request.chat = entry.chat;
  request.input_len = static_cast<int32_t>(entry.token_ids.size());
  request.output_len = options.force_output_len ? options.output_len : std::max(1, entry.params.max_tokens);
  return request;
}

std::vector<BenchRequest> read_jsonl(const std::string& path, const DatasetOptions& options,
                                     const TokenCounter& count_tokens) {
  std::ifstream in = open_dataset(path);
  SamplingParams defaults;
  defaults.max_tokens = options.output_len;
  std::vector<BenchRequest> requests;
  std::string line;
  for (int number = 1; !full(requests, options) && std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = cat(path, ":", number);
    const json object = json::parse(line, nullptr, false);
    if (object.is_discarded() || !object.is_object()) throw Error(cat(place, ": must be a JSON object"));
    if (object.contains("input_length")) {
      BenchRequest& request = requests.emplace_back();
      request.input_len = length_field(object, "input_length", place);
      request.output_len =
          options.force_output_len ? options.output_len : length_field(object, "output_length", place);
      if (const auto time = object.find("timestamp"); time != object.end() && time->is_number())
        request.arrival = time->get<double>() / 1e3;  // milliseconds
    } else if (object.contains("conversations")) {
      add_conversation(object, options, count_tokens, requests);
    } else if (const auto turns = object.find("turns"); turns != object.end()) {
      if (!turns->is_array() || turns->empty() || !turns->front().is_string())
        throw Error(cat(place, ": 'turns' must be a list of strings"));
      BenchRequest& request = requests.emplace_back();
      request.text = turns->front().get<std::string>();
      request.output_len = options.output_len;
    } else {
      std::istringstream one(line);
      for (const auto& entry : read_json_prompts(one, place, defaults))
        requests.push_back(from_entry(entry, options));
    }
  }
  return requests;
}

std::vector<BenchRequest> read_trace(const std::string& path, const DatasetOptions& options) {
  std::vector<BenchRequest> requests;
  for (const sim::TraceRequest& read : sim::read_csv_trace(path, options.num_prompts, false).requests) {
    BenchRequest& request = requests.emplace_back();
    request.input_len = read.input_len;
    request.output_len = options.force_output_len ? options.output_len : read.output_len;
    request.arrival = read.arrival;
  }
  return requests;
}

std::vector<BenchRequest> read_lines(const std::string& path, const DatasetOptions& options) {
  std::ifstream in = open_dataset(path);
  SamplingParams defaults;
  defaults.max_tokens = options.output_len;
  std::vector<BenchRequest> requests;
  for (const auto& entry : read_text_prompts(in, defaults)) {
    if (full(requests, options)) break;
    requests.push_back(from_entry(entry, options));
  }
  return requests;
}

int64_t total(const std::vector<BenchRequest>& requests, int32_t BenchRequest::*field) {
  int64_t sum = 0;
  for (const auto& request : requests) sum += request.*field;
  return sum;
}

int64_t rounded_mean(const std::vector<BenchRequest>& requests, int32_t BenchRequest::*field) {
  if (requests.empty()) return 0;
  return std::llround(static_cast<double>(total(requests, field)) / static_cast<double>(requests.size()));
}

}  // namespace

std::vector<BenchRequest> random_requests(int64_t count, const RandomLengths& lengths, uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto draw = [&](int32_t length) {
    const double low = std::floor(static_cast<double>(length) * (1.0 - lengths.range_ratio));
    const double high = std::ceil(static_cast<double>(length) * (1.0 + lengths.range_ratio));
    std::uniform_int_distribution<int32_t> uniform(std::max(1, static_cast<int32_t>(low)),
                                                   std::max(1, static_cast<int32_t>(high)));
    return uniform(engine);
  };
  std::vector<BenchRequest> requests(static_cast<size_t>(std::max<int64_t>(0, count)));
  for (auto& request : requests) {
    request.input_len = draw(lengths.input_len);
    request.output_len = draw(lengths.output_len);
  }
  return requests;
}

std::vector<BenchRequest> read_dataset(const std::string& path, const DatasetOptions& options,
                                       const TokenCounter& count_tokens) {
  std::vector<BenchRequest> requests;
  if (path.ends_with(".json")) {
    requests = read_sharegpt(path, options, count_tokens);
  } else if (path.ends_with(".jsonl")) {
    requests = read_jsonl(path, options, count_tokens);
  } else if (path.ends_with(".csv")) {
    requests = read_trace(path, options);
  } else {
    requests = read_lines(path, options);
  }
  if (requests.empty()) throw Error(cat(path, ": contains no usable request"));
  return requests;
}

int64_t cut_lengths(std::vector<BenchRequest>& requests, int32_t max_model_len) {
  if (max_model_len < 2) return 0;
  int64_t num_cut = 0;
  for (auto& request : requests) {
    if (!request.text.empty() || !request.chat.empty()) continue;
    if (request.input_len + request.output_len <= max_model_len) continue;
    request.output_len = std::min(request.output_len, max_model_len - 1);
    request.input_len = std::min(request.input_len, max_model_len - request.output_len);
    if (!request.token_ids.empty()) request.token_ids.resize(static_cast<size_t>(request.input_len));
    ++num_cut;
  }
  return num_cut;
}

void fill_tokens(std::vector<BenchRequest>& requests, TokenId first, TokenId last, uint64_t seed,
                 const std::function<bool(TokenId)>& allowed) {
  std::vector<TokenId> pool;
  for (TokenId id = first; id < last; ++id) {
    if (!allowed || allowed(id)) pool.push_back(id);
  }
  if (pool.empty()) throw Error(cat("no usable token id in [", first, ", ", last, ") for random prompts"));
  std::mt19937_64 engine(mix64(seed));
  std::uniform_int_distribution<size_t> uniform(0, pool.size() - 1);
  for (auto& request : requests) {
    if (!request.random()) continue;
    request.token_ids.resize(static_cast<size_t>(request.input_len));
    for (auto& id : request.token_ids) id = pool[uniform(engine)];
  }
}

void fill_words(std::vector<BenchRequest>& requests, uint64_t seed) {
  std::mt19937_64 engine(mix64(seed));
  std::uniform_int_distribution<size_t> uniform(0, std::size(kWords) - 1);
  for (auto& request : requests) {
    if (!request.random()) continue;
    for (int32_t i = 0; i < request.input_len; ++i) {
      if (i > 0) request.text += ' ';
      request.text += kWords[uniform(engine)];
    }
  }
}

int64_t mean_input_len(const std::vector<BenchRequest>& requests) {
  return rounded_mean(requests, &BenchRequest::input_len);
}

int64_t total_output_len(const std::vector<BenchRequest>& requests) {
  return total(requests, &BenchRequest::output_len);
}

int64_t mean_output_len(const std::vector<BenchRequest>& requests) {
  return rounded_mean(requests, &BenchRequest::output_len);
}

}  // namespace quire::cli
