// quire bench serve: a running server, through OpenAI's API.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/strings.h"
#include "cli/bench/bench.h"
#include "cli/bench/dataset.h"
#include "cli/bench/load.h"
#include "cli/bench/load_plot.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "text/chat/messages.h"

namespace quire::cli {
namespace {

using nlohmann::ordered_json;

constexpr double kLookupTimeout = 30.0;      // seconds, for /v1/models
constexpr int32_t kUnknownVocabSize = 1000;  // smaller than any vocabulary
constexpr TokenId kFirstToken = 10;          // many vocabularies start with special tokens
constexpr int32_t kTestOutputLen = 8;
constexpr size_t kMaxErrorsShown = 5;

struct ServeBenchFlags {
  std::string base_url = "http://127.0.0.1:8000";
  std::string model;
  std::string endpoint = "/v1/completions";
  std::string api_key;
  std::string dataset_file;
  std::string goodput;
  std::string json;
  std::string svg;
  RandomLengths lengths;
  DatasetOptions dataset;
  LoadOptions load;
  std::string request_rate = "inf";
  double burstiness = 1.0;
  double temperature = 0.0;
  uint64_t seed = 0;
  int32_t vocab_size = 0;
  bool ignore_eos = true;
  bool text_prompts = false;
  bool skip_test = false;

  bool chat() const { return endpoint.ends_with("/chat/completions"); }
};

// The answer of /v1/models; zero = not reported.
struct ServerModel {
  std::string name;
  int32_t max_model_len = 0;
  int32_t vocab_size = 0;
};

HttpHeaders headers(const ServeBenchFlags& f) {
  HttpHeaders list = {{"Accept", "*/*"}};
  if (!f.api_key.empty()) list.emplace_back("Authorization", "Bearer " + f.api_key);
  return list;
}

int32_t int_field(const ordered_json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_integer()) return 0;
  const auto value = it->get<int64_t>();
  return value > 0 && value <= std::numeric_limits<int32_t>::max() ? static_cast<int32_t>(value) : 0;
}

// Looks up --model, or the server's first model. Servers without /v1/models need --model.
ServerModel find_model(const Url& url, const Address& address, const ServeBenchFlags& f) {
  ServerModel model;
  model.name = f.model;
  const HttpResponse response =
      http_request(address, request_text(url, "GET", "/v1/models", headers(f), ""), kLookupTimeout);
  const ordered_json root = ordered_json::parse(response.body, nullptr, false);
  const bool listed =
      response.status == 200 && root.is_object() && root.contains("data") && root["data"].is_array();
  if (!listed && f.model.empty()) {
    throw Error(cat(error_message(response.status, response.body), "; use --model NAME"));
  }
  if (!listed) return model;
  for (const auto& entry : root["data"]) {
    const auto id = entry.is_object() ? entry.find("id") : entry.end();
    if (!entry.is_object() || id == entry.end() || !id->is_string()) continue;
    if (!f.model.empty() && id->get<std::string>() != f.model) continue;
    model.name = id->get<std::string>();
    model.max_model_len = int_field(entry, "max_model_len");
    if (const auto meta = entry.find("meta"); meta != entry.end() && meta->is_object())
      model.vocab_size = int_field(*meta, "n_vocab");
    return model;
  }
  if (f.model.empty()) throw Error("lists no model; use --model NAME");
  return model;
}

// Adds the conversation: the fields of a line of the dataset, or its text as the message of a user.
void write_conversation(const BenchRequest& request, ordered_json& body) {
  if (request.chat.empty()) {
    body["messages"] = ordered_json::array({{{"role", "user"}, {"content", request.text}}});
    return;
  }
  const ordered_json line = ordered_json::parse(request.chat);
  for (const std::string_view field : kChatFields) {
    const std::string name(field);
    if (line.contains(name)) body[name] = line[name];
  }
}

std::string body_of(const BenchRequest& request, const ServerModel& model, const ServeBenchFlags& f) {
  ordered_json body = {{"model", model.name}};
  if (f.chat()) {
    if (!request.token_ids.empty()) throw Error("prompts given as token ids need --endpoint /v1/completions");
    write_conversation(request, body);
  } else if (!request.chat.empty()) {
    throw Error("prompts given as messages need --endpoint /v1/chat/completions");
  } else if (!request.token_ids.empty()) {
    body["prompt"] = request.token_ids;
  } else {
    body["prompt"] = request.text;
  }
  body["max_tokens"] = request.output_len;
  body["temperature"] = f.temperature;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (f.ignore_eos) body["ignore_eos"] = true;  // an extension of vLLM, llama.cpp and quire
  return body.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

class ServeBench {
 public:
  // Throws Error if the flags are invalid.
  explicit ServeBench(const ServeBenchFlags& f)
      : f_(f),
        url_(parse_url(f.base_url)),
        objectives_(parse_objectives(f.goodput)),
        rate_(parse_rate(f.request_rate)) {
    // OpenAI clients append /v1 to the base URL; the endpoints here include it.
    base_url_ = f.base_url;
    while (base_url_.ends_with('/')) base_url_.pop_back();
    if (url_.path.ends_with("/v1")) {
      url_.path.resize(url_.path.size() - 3);
      base_url_.resize(base_url_.size() - 3);
    }
    const auto unprintable = [](unsigned char c) { return c <= 0x20 || c == 0x7F; };
    if (std::any_of(f.api_key.begin(), f.api_key.end(), unprintable)) {
      throw Error("the API key contains spaces or line breaks");
    }
    if (f.endpoint.rfind('/', 0) != 0 || std::any_of(f.endpoint.begin(), f.endpoint.end(), unprintable)) {
      throw Error(cat("--endpoint '", f.endpoint, "' is not a valid path; use for example /v1/completions"));
    }
  }

  int run() {
    const Address address(url_);
    try {
      model_ = find_model(url_, address, f_);
    } catch (const Error& error) {
      throw Error(cat(base_url_, "/v1/models: ", error.what()));
    }
    choose_prompts(address);
    const std::vector<BenchRequest> requests = make_requests();
    std::vector<std::string> texts;
    texts.reserve(requests.size());
    for (const auto& request : requests) texts.push_back(http_text(request));
    const auto arrivals = arrival_times(texts.size(), rate_, f_.burstiness, derive_seed(f_.seed, 1));
    LoadResult result;
    {
      const auto num_requests = static_cast<int64_t>(requests.size());
      const int64_t max_tokens = total_output_len(requests);
      ProgressBar bar("Measuring", {.items = "requests", .rate = "tokens"});
      result = run_load(address, texts, arrivals, f_.load, [&](const LoadProgress& progress) {
        bar.update(generation_progress(static_cast<int64_t>(progress.num_done), num_requests,
                                       progress.num_tokens, max_tokens));
      });
    }
    // Without usage in the response, the requested prompt length is reported.
    for (size_t i = 0; i < requests.size(); ++i) {
      auto& record = result.records[i];
      if (record.ok() && record.prompt_tokens == 0) record.prompt_tokens = requests[i].input_len;
    }
    return report(requests, result);
  }

 private:
  static double parse_rate(const std::string& text) {
    char* rest = nullptr;
    const double rate = std::strtod(text.c_str(), &rest);
    if (text.empty() || *rest != '\0' || !(rate > 0.0))
      throw Error(cat("--request-rate ", text, ": must be above 0, or inf"));
    return rate;
  }

  std::string http_text(const BenchRequest& request) const {
    return request_text(url_, "POST", f_.endpoint, headers(f_), body_of(request, model_, f_));
  }

  void fill(std::vector<BenchRequest>& requests, uint64_t seed) const {
    if (words_) {
      fill_words(requests, seed);
      return;
    }
    int32_t last = f_.vocab_size > 0 ? f_.vocab_size : model_.vocab_size;
    if (last <= 0) last = kUnknownVocabSize;
    fill_tokens(requests, std::min(kFirstToken, last - 1), last, seed);
  }

  // Sends one request that is not measured, to check that the server responds and accepts token ids.
  void choose_prompts(const Address& address) {
    words_ = f_.text_prompts || f_.chat();
    if (f_.skip_test) return;
    std::string failure = test_request(address);
    if (!failure.empty() && !words_ && failure.rfind("HTTP 4", 0) == 0) {
      words_ = true;
      const std::string second = test_request(address);
      if (second.empty()) {
        log_warning("the server takes no token ids (", failure, "); random prompts are words instead");
        return;
      }
    }
    if (!failure.empty()) throw Error(cat(base_url_, f_.endpoint, ": the test request failed: ", failure));
  }

  std::string test_request(const Address& address) const {
    auto requests = random_requests(
        1, {f_.lengths.input_len, std::min(kTestOutputLen, f_.lengths.output_len), 0.0}, f_.seed);
    cut_lengths(requests, model_.max_model_len);
    fill(requests, derive_seed(f_.seed, 2));
    return run_load(address, {http_text(requests[0])}, {0.0}, f_.load).records[0].error;
  }

  std::vector<BenchRequest> make_requests() const {
    std::vector<BenchRequest> requests;
    if (f_.dataset_file.empty()) {
      requests = random_requests(f_.dataset.num_prompts, f_.lengths, f_.seed);
    } else {
      DatasetOptions options = f_.dataset;
      options.output_len = f_.lengths.output_len;
      // The server's tokenizer is not available here; assumes four bytes per token.
      requests = read_dataset(f_.dataset_file, options, [](const std::string& text) {
        return static_cast<int64_t>((text.size() + 3) / 4);
      });
      const int64_t num_cut = cut_lengths(requests, model_.max_model_len);
      if (num_cut > 0)
        log_warning("cut to the ", model_.max_model_len, " tokens that the model takes: ", num_cut, " of ",
                    counted(static_cast<int64_t>(requests.size()), "request"));
    }
    fill(requests, f_.seed);
    return requests;
  }

  int report(const std::vector<BenchRequest>& requests, const LoadResult& result) const {
    BenchReport report;
    report.model = model_.name;
    report.elapsed_s = result.elapsed_s;
    add_records(report, result.records);
    int64_t computed = 0, good = 0;
    std::map<std::string, int64_t> errors;
    std::vector<std::string> order;
    for (const auto& record : result.records) {
      if (record.ok()) {
        computed += record.prompt_tokens - record.cached_tokens;
        if (meets(record, objectives_)) ++good;
      } else if (errors[record.error]++ == 0) {
        order.push_back(record.error);
      }
    }
    report.prefill_tokens_per_s = report.per_second(computed);
    report.decode_tokens_per_s = report.per_second(report.output_tokens);
    report.input_len = report.num_requests > 0 ? std::llround(static_cast<double>(report.prompt_tokens) /
                                                              static_cast<double>(report.num_requests))
                                               : mean_input_len(requests);
    report.output_len = mean_output_len(requests);
    const int64_t failed = static_cast<int64_t>(result.records.size()) - report.num_requests;

    std::vector<std::string> lines = {table_line("Requests failed", cat(failed)),
                                      table_line("Request rate (1/s)", f_.request_rate),
                                      table_line("Peak requests at once", cat(result.peak_concurrency))};
    if (f_.load.max_concurrency > 0)
      lines.push_back(table_line("Most requests at once allowed", cat(f_.load.max_concurrency)));
    if (objectives_.any())
      lines.push_back(table_line("Goodput (requests/s)", fixed(report.per_second(good), 2)));
    ordered_json object = to_json(report);
    object["num_failed"] = failed;
    object["request_rate"] = std::isfinite(rate_) ? ordered_json(rate_) : ordered_json("inf");
    object["burstiness"] = f_.burstiness;
    object["max_concurrency"] =
        f_.load.max_concurrency > 0 ? ordered_json(f_.load.max_concurrency) : ordered_json(nullptr);
    object["peak_concurrency"] = result.peak_concurrency;
    object["num_good"] = objectives_.any() ? ordered_json(good) : ordered_json(nullptr);
    object["goodput"] = objectives_.any() ? ordered_json(report.per_second(good)) : ordered_json(nullptr);
    object["errors"] = ordered_json::array();
    for (size_t i = 0; i < order.size() && i < kMaxErrorsShown; ++i) {
      object["errors"].push_back({{"message", order[i]}, {"count", errors[order[i]]}});
      log_warning(errors[order[i]],
                  errors[order[i]] == 1 ? " request failed: " : " requests failed: ", order[i]);
    }
    if (!f_.svg.empty()) {
      const auto requests_text = counted(report.num_requests, "request");
      write_text(f_.svg, load_plot(cat(model_.name, " at ", base_url_, ": ", requests_text, ", ", failed,
                                       " failed, ", fixed(report.elapsed_s, 1), " s"),
                                   result.records));
    }
    print_report(to_table(report, cat("quire bench serve ", base_url_, f_.endpoint), lines), f_.json, object);
    return report.num_requests > 0 ? 0 : 1;
  }

  const ServeBenchFlags& f_;
  Url url_;
  std::string base_url_;  // for messages
  Objectives objectives_;
  double rate_;
  ServerModel model_;
  bool words_ = false;
};

int run_serve_bench(ServeBenchFlags& f) {
  if (const char* key = std::getenv("OPENAI_API_KEY"); key != nullptr && f.api_key.empty()) f.api_key = key;
  std::unique_ptr<ServeBench> bench;
  try {
    bench = std::make_unique<ServeBench>(f);
  } catch (const Error& error) {
    std::fprintf(stderr, "quire bench serve: %s\n", error.what());
    return 2;
  }
  return bench->run();
}

}  // namespace

void add_bench_serve(CLI::App& bench, int& exit_code) {
  CLI::App* command = add_command(bench, "serve", "Measure a running OpenAI-compatible server");
  auto f = std::make_shared<ServeBenchFlags>();
  std::string group = "Server";
  command->add_option("--base-url", f->base_url, "URL of the server; http only")->group(group);
  command->add_option("--endpoint", f->endpoint, "/v1/completions or /v1/chat/completions")->group(group);
  command->add_option("--model", f->model, "Model name (default: the first in /v1/models)")->group(group);
  command->add_option("--api-key", f->api_key, "Bearer token (default: OPENAI_API_KEY)")->group(group);
  command
      ->add_option("--timeout", f->load.timeout_s,
                   "Seconds without data from the server after which a request fails")
      ->check(CLI::PositiveNumber)
      ->group(group);
  command->add_flag("--skip-test-request", f->skip_test, "Do not send a test request before the measurement")
      ->group(group);
  add_dataset_flags(*command, f->lengths, f->dataset, f->dataset_file);
  group = "Requests";
  command->add_flag("--text-prompts", f->text_prompts, "Send random words instead of random token ids")
      ->group(group);
  command
      ->add_option("--vocab-size", f->vocab_size,
                   "Upper limit of random token ids; 0 = what the server reports, otherwise 1000")
      ->check(CLI::Range(0, 1 << 24))
      ->group(group);
  command
      ->add_flag("--ignore-eos,!--no-ignore-eos", f->ignore_eos,
                 "Request outputs of full length (default: on)")
      ->group(group);
  command->add_option("--temperature", f->temperature, "Sampling temperature; 0 = greedy")->group(group);
  command->add_option("--seed", f->seed, "Seed of prompts, lengths and arrival times")->group(group);
  group = "Load";
  command->add_option("--request-rate", f->request_rate, "Requests per second; inf = all at once")
      ->group(group);
  command
      ->add_option("--burstiness", f->burstiness,
                   "1 = Poisson arrivals, below 1 = bursts, above 1 = more regular")
      ->check(CLI::PositiveNumber)
      ->group(group);
  command
      ->add_option("--max-concurrency", f->load.max_concurrency,
                   "Maximum number of concurrent requests; 0 = no limit")
      ->group(group);
  group = "Results";
  command->add_option("--goodput", f->goodput, "SLOs in milliseconds, for example ttft:500,tpot:50,e2e:10000")
      ->group(group);
  command
      ->add_option("--json", f->json,
                   "Write the results as one JSON object; - = to stdout instead of the table")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--svg", f->svg,
                   "Write plots of latencies, throughput and a timeline of the requests as one SVG file")
      ->type_name("FILE")
      ->group(group);
  command->callback([f, &exit_code] { exit_code = run_serve_bench(*f); });
}

}  // namespace quire::cli
