#include "cli/bench/offline.h"

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "cli/flags.h"
#include "engine/chat_context.h"

namespace quire::cli {
namespace {

// Written by the engine thread; the caller waits on all_done. It outlives every output callback, because the
// caller returns only after all requests have finished.
struct Batch {
  double (*clock)() = monotonic_seconds;
  std::vector<RequestRecord> records;  // written only by the engine thread until the request has finished
  std::mutex mutex;
  std::condition_variable all_done;
  size_t num_done = 0;
};

// Runs a one-token request and returns the engine thread's CPU time at its end, in seconds.
double idle_engine_cpu_seconds(Engine& engine) {
  std::vector<BenchRequest> requests(1);
  requests.front().input_len = 1;
  tokenize_requests(requests, engine, 0);
  Request request;
  request.prompt_token_ids = requests.front().token_ids;
  request.sampling.edit().max_tokens = 1;
  const auto seconds = std::make_shared<std::promise<double>>();
  const auto submitted = engine.submit(std::move(request), [seconds](RequestOutput&& output) {
    if (output.finished) seconds->set_value(thread_cpu_seconds());
  });
  if (!submitted) throw Error(submitted.failure().message);
  return seconds->get_future().get();
}

void take_output(RequestRecord& record, const RequestOutput& output, double now) {
  int32_t tokens = 0;
  for (const auto& delta : output.outputs) tokens += static_cast<int32_t>(delta.token_ids.size());
  if (tokens > 0) {
    record.chunk_times.push_back(now);
    record.chunk_tokens.push_back(tokens);
    record.output_tokens += tokens;
  }
  record.prompt_tokens = output.num_prompt_tokens;
  record.cached_tokens = output.num_cached_tokens;
  if (output.failure) record.error = output.failure->message.empty() ? "failed" : output.failure->message;
}

std::vector<TokenId> chat_tokens(const Engine& engine, const std::string& chat) {
  const auto fields = parse_request_json(chat, "the conversation");
  auto request = fields.ok() ? read_chat_request(*fields) : fields.failure();
  if (!request.ok()) throw Error(request.failure().message);
  if (engine.chat_templates().empty() && request->chat_template.empty())
    throw Error("the dataset has messages but the model has no chat template; use --chat-template FILE");
  const auto prompt = render_chat(engine.chat_templates(), engine.tokenizer(), std::move(request).value());
  if (!prompt)
    throw Error(cat("the chat template rejects a prompt of the dataset: ", prompt.failure().message));
  return engine.tokenizer()->encode_rendered(*prompt);
}

}  // namespace

void tokenize_requests(std::vector<BenchRequest>& requests, const Engine& engine, uint64_t seed) {
  const Tokenizer* tokenizer = engine.tokenizer();
  fill_tokens(requests, 0, engine.model().vocab_size, seed,
              [tokenizer](TokenId id) { return tokenizer == nullptr || !tokenizer->is_special(id); });
  for (auto& request : requests) {
    if (!request.token_ids.empty()) continue;
    if (tokenizer == nullptr)
      throw Error("the dataset has texts but the model has no tokenizer; use prompts given as token ids");
    request.token_ids =
        request.chat.empty() ? tokenizer->encode(request.text, true) : chat_tokens(engine, request.chat);
    request.input_len = static_cast<int32_t>(request.token_ids.size());
  }
}

std::vector<RequestRecord> run_batch(Engine& engine, const std::vector<BenchRequest>& requests,
                                     const OfflineSampling& sampling, const BatchOptions& options) {
  const double cpu_begin = options.cpu_time ? idle_engine_cpu_seconds(engine) : 0.0;
  const auto batch = std::make_shared<Batch>();
  if (options.cpu_time) batch->clock = thread_cpu_seconds;
  batch->records.resize(requests.size());
  size_t num_submitted = 0;
  std::string refusal;
  const double begin = monotonic_seconds();
  for (size_t i = 0; i < requests.size(); ++i) {
    Request request;
    request.prompt_token_ids = requests[i].token_ids;
    request.adapter_name = requests[i].lora;
    request.sampling.edit().max_tokens = requests[i].output_len;
    request.sampling.edit().temperature = sampling.temperature;
    request.sampling.edit().top_p = sampling.top_p;
    request.sampling.edit().ignore_eos = sampling.ignore_eos;
    if (!options.arrivals.empty()) {
      const double wait = begin + options.arrivals[i] - monotonic_seconds();
      if (wait > 0.0) std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    }
    batch->records[i].begin = options.cpu_time ? cpu_begin : monotonic_seconds();
    const auto submitted = engine.submit(std::move(request), [batch, i](RequestOutput&& output) {
      take_output(batch->records[i], output, batch->clock());
      if (!output.finished) return;
      {
        const std::lock_guard lock(batch->mutex);
        ++batch->num_done;
      }
      batch->all_done.notify_all();
    });
    if (!submitted) {
      refusal = submitted.failure().message;
      break;
    }
    ++num_submitted;
  }
  {
    std::unique_lock lock(batch->mutex);
    batch->all_done.wait(lock, [&] { return batch->num_done == num_submitted; });
  }
  if (!refusal.empty()) throw Error(cat("request ", num_submitted + 1, " was rejected: ", refusal));
  for (const auto& record : batch->records) {
    if (!record.ok()) throw Error(cat("a request failed: ", record.error));
  }
  return std::move(batch->records);
}

BatchProgress::BatchProgress(const Engine& engine, std::string label, int64_t num_requests,
                             int64_t max_tokens)
    : num_requests_(num_requests),
      max_tokens_(max_tokens),
      begin_(engine.stats()),
      bar_(std::move(label), {.items = "requests", .rate = "tokens"}) {}

std::vector<RequestRecord> BatchProgress::run(Engine& engine, const std::vector<BenchRequest>& requests,
                                              const OfflineSampling& sampling, const BatchOptions& options) {
  return run_with_reports(
      [&] {
        const double begin = monotonic_seconds();
        auto records = run_batch(engine, requests, sampling, options);
        seconds_ = monotonic_seconds() - begin;
        return records;
      },
      [&] {
        const EngineStats now = engine.stats();
        bar_.update(generation_progress(now.num_finished - begin_.num_finished, num_requests_,
                                        now.generation_tokens - begin_.generation_tokens, max_tokens_));
      });
}

void add_cpu_time_flag(CLI::App& command, bool& cpu_time) {
  command
      .add_flag("--cpu-time", cpu_time,
                "Measure CPU time of the engine thread instead of elapsed time; for busy machines, needs "
                "--threads 1")
      ->group("Measurement");
}

void check_cpu_time(const Engine& engine, bool cpu_time) {
  if (cpu_time && engine.model().num_threads != 1)
    throw Error(cat("--cpu-time needs one compute thread, but the engine uses ", engine.model().num_threads,
                    "; give --threads 1"));
}

BenchReport describe(const Engine& engine) {
  const ModelInfo& model = engine.model();
  BenchReport report;
  report.model = model.name;
  report.dtype = model.weight_dtype;
  if (!model.quantization.empty()) report.quantization = model.quantization;
  report.threads = model.num_threads;
  report.weight_bytes = model.weight_bytes;
  report.load_s = model.load_seconds;
  return report;
}

}  // namespace quire::cli
