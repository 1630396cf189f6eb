#include "engine/engine.h"

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "engine/engine_core.h"
#include "engine/loader.h"
#include "sample/validate.h"

namespace quire {
namespace {

constexpr double kLogInterval = 10.0;  // seconds

struct AddMessage {
  RequestId id;
  GenerateRequest request;
  OutputSink sink;
  double arrival;
};
struct AbortMessage {
  RequestId id;
};
// Runs on the engine thread between two steps.
struct CallMessage {
  std::function<void(EngineCore&)> call;
};
using Message = std::variant<AddMessage, AbortMessage, CallMessage>;

// "Avg prompt throughput: …" every ten seconds while there is work.
class ActivityLog {
 public:
  void after_step(const EngineStats& stats) {
    const double now = monotonic_seconds();
    if (last_time_ == 0.0 || stats.num_steps == 0) {
      last_time_ = now;
      return;
    }
    if (now - last_time_ < kLogInterval) return;
    const double elapsed = now - last_time_;
    const double hit_rate = stats.prefix_cache_queries == 0
                                ? 0.0
                                : 100.0 * static_cast<double>(stats.prefix_cache_hits) /
                                      static_cast<double>(stats.prefix_cache_queries);
    const std::string preemptions =
        stats.num_preemptions > last_.num_preemptions
            ? cat(" Preemptions: ", stats.num_preemptions - last_.num_preemptions, ",")
            : "";
    log_info("Engine 000: Avg prompt throughput: ",
             fixed(static_cast<double>(stats.prompt_tokens - last_.prompt_tokens) / elapsed, 1),
             " tokens/s, Avg generation throughput: ",
             fixed(static_cast<double>(stats.generation_tokens - last_.generation_tokens) / elapsed, 1),
             " tokens/s, Running: ", stats.num_running, " reqs, Waiting: ", stats.num_waiting, " reqs,",
             preemptions, " KV cache usage: ", fixed(100.0 * stats.kv_cache_usage, 1),
             "%, Prefix cache hit rate: ", fixed(hit_rate, 1), "%");
    last_time_ = now;
    last_ = stats;
  }
  // Averages begin anew after a pause.
  void idle(const EngineStats& stats) {
    last_time_ = 0.0;
    last_ = stats;
  }

 private:
  double last_time_ = 0.0;
  EngineStats last_;
};

// Tells an observer when each step was. Engine thread only.
class StepWatch {
 public:
  void observe(StepObserver observer) {
    observer_ = std::move(observer);
    begin_ = monotonic_seconds();
  }
  // The engine has been woken by a message, of a request that was submitted at `begin` or of something else.
  void resume(double begin) {
    begin_ = begin;
    after_pause_ = true;
  }
  void step_ended(const StepPlan* plan) {
    if (!observer_) return;
    const double end = monotonic_seconds();
    const bool ran = plan != nullptr && !plan->scheduled.empty();
    if (ran) observer_(*plan, {begin_, end, after_pause_});
    begin_ = end;
    // A message alone, such as the observer's own, ends no pause.
    if (ran) after_pause_ = false;
  }

 private:
  StepObserver observer_;
  double begin_ = 0.0;
  bool after_pause_ = false;
};

}  // namespace

struct Engine::Impl {
  explicit Impl(std::unique_ptr<LoadedModel> loaded, const EngineConfig& config);
  ~Impl();

  void run();
  void take_messages(std::unique_lock<std::mutex>& lock);
  double time_of_first_message() const;
  void handle(Message& message);
  void publish();
  void count_requests();
  Status check(const GenerateRequest& request) const;
  Status check_task(const GenerateRequest& request) const;
  bool post(Message message);

  std::unique_ptr<LoadedModel> model;
  EngineConfig config;
  MetricsRegistry metrics;
  std::atomic<int32_t> num_unstarted{0};
  EngineCore core;  // engine thread only, once it runs

  std::mutex mutex;  // guards the mailbox and the snapshot, never the core
  std::condition_variable wake;
  std::condition_variable idle;
  std::vector<Message> mailbox;
  EngineStats snapshot;
  size_t num_requests = 0;  // alive, those in the mailbox included
  bool stopping = false;

  std::vector<Message> taken;  // engine thread's half of the double buffer
  ActivityLog activity;
  StepWatch watch;
  std::atomic<bool> draining{false};
  std::atomic<bool> broken{false};
  std::atomic<RequestId> next_id{0};
  std::thread thread;  // last: started when all else is there
};

Engine::Impl::Impl(std::unique_ptr<LoadedModel> loaded, const EngineConfig& engine_config)
    : model(std::move(loaded)),
      config(engine_config),
      metrics({{"model_name", model->info.name}, {"engine", "0"}}),
      core(model->scheduler, model->layout, model->runtime->executor(), model->tokenizer.get(), metrics,
           model->info, config.seed, num_unstarted) {
  core.restore_disk(model->stored_blocks);
  model->stored_blocks = {};
  publish();
  thread = std::thread([this] { run(); });
}

Engine::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_one();
  thread.join();
}

void Engine::Impl::run() {
  std::unique_lock lock(mutex);
  while (true) {
    if (mailbox.empty() && !core.has_work()) {
      activity.idle(snapshot);
      idle.notify_all();
      wake.wait(lock, [this] { return stopping || !mailbox.empty(); });
      watch.resume(time_of_first_message());
    }
    if (stopping) break;
    take_messages(lock);
    lock.unlock();
    const StepPlan* plan = nullptr;
    try {
      if (core.has_work()) {
        plan = &core.step();
      } else {
        core.refresh_metrics();
      }
    } catch (const std::exception& error) {
      // Whatever the bookkeeping is worth now, nobody may wait for it forever.
      log_error("the engine failed and takes no more requests: ", error.what());
      broken = true;
      core.fail_all({ErrorKind::kInternal, cat("the engine failed: ", error.what()), ""});
      lock.lock();
      num_requests = 0;
      idle.notify_all();
      wake.wait(lock, [this] { return stopping; });
      break;
    }
    publish();
    // Statistics are up to date before an owner learns that its request is over, and the request counts until
    // then.
    core.deliver();
    watch.step_ended(plan);
    lock.lock();
    count_requests();
    activity.after_step(snapshot);
  }
  lock.unlock();
  try {
    if (!broken) core.flush_disk();
  } catch (const std::exception& error) {
    log_error("the end of the disk cache's writes failed: ", error.what());
  }
  lock.lock();
  taken.clear();
  taken.swap(mailbox);
  lock.unlock();
  for (auto& message : taken) handle(message);  // requests and calls that nobody may wait for in vain
  core.fail_all({ErrorKind::kOverloaded, "the engine was shut down", ""});
}

// Under the lock.
double Engine::Impl::time_of_first_message() const {
  const auto* add = mailbox.empty() ? nullptr : std::get_if<AddMessage>(&mailbox.front());
  return add != nullptr ? add->arrival : monotonic_seconds();
}

void Engine::Impl::take_messages(std::unique_lock<std::mutex>& lock) {
  taken.clear();
  taken.swap(mailbox);
  lock.unlock();
  for (auto& message : taken) handle(message);
  lock.lock();
}

void Engine::Impl::handle(Message& message) {
  if (auto* add = std::get_if<AddMessage>(&message)) {
    core.add(add->id, std::move(add->request), std::move(add->sink), add->arrival);
  } else if (auto* abort_message = std::get_if<AbortMessage>(&message)) {
    core.abort(abort_message->id);
  } else {
    std::get<CallMessage>(message).call(core);
  }
}

// Makes the core's state visible to other threads.
void Engine::Impl::publish() {
  const EngineStats stats = core.stats();
  const std::lock_guard lock(mutex);
  snapshot = stats;
}

// Under the lock.
void Engine::Impl::count_requests() {
  size_t waiting_in_mailbox = 0;
  for (const auto& message : mailbox)
    waiting_in_mailbox += std::holds_alternative<AddMessage>(message) ? 1 : 0;
  num_requests = core.num_requests() + waiting_in_mailbox;
}

bool Engine::Impl::post(Message message) {
  {
    const std::lock_guard lock(mutex);
    if (stopping || broken) return false;
    if (std::holds_alternative<AddMessage>(message)) ++num_requests;
    mailbox.push_back(std::move(message));
  }
  wake.notify_one();
  return true;
}

Status Engine::Impl::check(const GenerateRequest& request) const {
  const ModelInfo& info = model->info;
  if (broken) return Failure{ErrorKind::kInternal, "the engine failed; see its log and start it again", ""};
  if (draining) return Failure{ErrorKind::kOverloaded, "the server is shutting down", ""};
  const auto num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  if (num_prompt == 0) return invalid_argument("the prompt is empty", "prompt");
  if (const Status status = check_task(request); !status.ok()) return status;
  const int64_t longest = request.sampling.max_tokens == 0 ? info.max_model_len : info.max_model_len - 1;
  if (num_prompt > longest) {
    return invalid_argument(
        cat("the prompt has ", num_prompt, " tokens, the model takes ", info.max_model_len,
            request.pooling ? "" : " with the answer", " (--max-model-len)"),
        "prompt");
  }
  for (const TokenId id : request.prompt_token_ids) {
    if (id < 0 || id >= info.vocab_size) {
      return invalid_argument(
          cat("the prompt holds token id ", id, ", the vocabulary ends at ", info.vocab_size - 1), "prompt");
    }
  }
  if (const int32_t count = request.sampling.num_sequences(); count > info.max_num_seqs) {
    const char* name = count > request.sampling.n ? "best_of" : "n";
    return invalid_argument(
        cat(name, " is ", count, ", at most ", info.max_num_seqs, " sequences run at once (--max-num-seqs)"),
        name);
  }
  return validate(request.sampling, info.vocab_size, config.max_logprobs);
}

// Whether the model gives what is asked for.
Status Engine::Impl::check_task(const GenerateRequest& request) const {
  const ModelInfo& info = model->info;
  if (!request.pooling) {
    if (info.task == ModelTask::kGenerate) return {};
    return invalid_argument(
        cat("the model ", info.name, " (", info.architecture, ") gives ",
            info.task == ModelTask::kEmbed ? "embeddings" : "scores", " and generates no text"),
        "model");
  }
  if (info.task == ModelTask::kGenerate) {
    return invalid_argument(cat("the model ", info.name, " (", info.architecture,
                                ") generates text; started with --runner pooling it gives embeddings"),
                            "model");
  }
  const int64_t dimensions = request.pooling->params.dimensions;
  if (dimensions < 0 || (info.task == ModelTask::kEmbed && dimensions > info.embedding_size)) {
    return invalid_argument(
        cat("dimensions is ", dimensions, ", the model's vectors have ", info.embedding_size, " numbers"),
        "dimensions");
  }
  return {};
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

std::unique_ptr<Engine> Engine::start(const EngineConfig& config, const LoadProgressCallback& progress) {
  EngineConfig effective = config;
  auto model = load_model(effective, progress);
  // The prefix cache's names must not be guessable; the samples' seeds must be repeatable.
  // With a disk cache they are as old as its folder.
  std::random_device device;
  if (model->scheduler.hash_seed == 0) model->scheduler.hash_seed = (uint64_t{device()} << 32) | device();
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(std::move(model), effective)));
}

const ModelInfo& Engine::model() const {
  return impl_->model->info;
}
const Tokenizer* Engine::tokenizer() const {
  return impl_->model->tokenizer.get();
}
const ChatTemplate* Engine::chat_template() const {
  return impl_->model->chat_template ? &*impl_->model->chat_template : nullptr;
}
const SamplingParams& Engine::default_sampling() const {
  return impl_->model->default_sampling;
}

Result<RequestId> Engine::submit(GenerateRequest request, OutputSink sink) {
  if (const Status status = impl_->check(request); !status.ok()) return status.failure();
  if (impl_->num_unstarted.fetch_add(1) > impl_->config.max_num_queued_requests) {
    impl_->num_unstarted.fetch_sub(1);
    return Failure{ErrorKind::kOverloaded,
                   cat("the queue is full: ", impl_->config.max_num_queued_requests,
                       " requests wait already; try again later"),
                   ""};
  }
  // Of models without types of tokens all are of one.
  if (request.pooling && !model().has_token_types) request.pooling->second_text = 0;
  const RequestId id = impl_->next_id.fetch_add(1);
  if (!impl_->post(AddMessage{id, std::move(request), std::move(sink), monotonic_seconds()})) {
    impl_->num_unstarted.fetch_sub(1);
    return Failure{ErrorKind::kOverloaded, "the engine is shutting down", ""};
  }
  return id;
}

void Engine::abort(RequestId request) {
  impl_->post(AbortMessage{request});
}

bool Engine::drain(std::chrono::milliseconds timeout) {
  impl_->draining = true;
  std::unique_lock lock(impl_->mutex);
  const auto none_left = [this] { return impl_->num_requests == 0 && impl_->mailbox.empty(); };
  if (impl_->idle.wait_for(lock, timeout, none_left)) return true;
  lock.unlock();
  impl_->post(CallMessage{[](EngineCore& core) {
    core.abort_all({ErrorKind::kOverloaded, "the server was shut down before the answer was complete", ""});
  }});
  return false;
}

bool Engine::draining() const {
  return impl_->draining;
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->snapshot;
}

MetricsRegistry& Engine::metrics() {
  return impl_->metrics;
}

void Engine::observe_steps(StepObserver observer) {
  auto done = std::make_shared<std::promise<void>>();
  auto result = done->get_future();
  Impl& impl = *impl_;
  const bool posted =
      impl.post(CallMessage{[done, &impl, observer = std::move(observer)](EngineCore&) mutable {
        impl.watch.observe(std::move(observer));
        done->set_value();
      }});
  if (posted) result.get();
}

bool Engine::reset_prefix_cache() {
  auto done = std::make_shared<std::promise<bool>>();
  auto result = done->get_future();
  if (!impl_->post(CallMessage{[done](EngineCore& core) { done->set_value(core.reset_prefix_cache()); }}))
    return false;
  return result.get();
}

void Engine::check_integrity() {
  {
    std::unique_lock lock(impl_->mutex);
    impl_->idle.wait(lock, [this] { return impl_->num_requests == 0 && impl_->mailbox.empty(); });
  }
  auto done = std::make_shared<std::promise<void>>();
  auto result = done->get_future();
  const bool posted = impl_->post(CallMessage{[done](EngineCore& core) {
    try {
      core.check_integrity();
      const EngineStats stats = core.stats();
      if (stats.num_free_blocks != stats.num_blocks) {
        throw Error(cat("the engine is idle and ", stats.num_blocks - stats.num_free_blocks,
                        " KV blocks are not free"));
      }
      done->set_value();
    } catch (...) {
      done->set_exception(std::current_exception());
    }
  }});
  if (!posted) throw Error("the engine does not run");
  result.get();
}

}  // namespace quire
