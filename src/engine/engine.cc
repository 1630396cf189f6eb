#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/thread_name.h"
#include "engine/constraint_compiler.h"
#include "engine/engine_core.h"
#include "engine/engine_view.h"
#include "engine/loader.h"
#include "engine/reasoning_limits.h"
#include "engine/request_admission.h"
#include "engine/word_tokenizer.h"

namespace quire {
namespace {

constexpr double kLogInterval = 10.0;  // seconds

using AddMessage = Submission;
struct AbortMessage {
  RequestId first;
  size_t count;
};
// Runs on the engine thread between two steps. Gets null if the engine has failed.
struct CallMessage {
  std::function<void(EngineCore*)> call;
};
using Message = std::variant<AddMessage, AbortMessage, CallMessage>;

// Logs "Avg prompt throughput: …" every ten seconds while requests run.
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
  // Averages restart after a pause.
  void idle(const EngineStats& stats) {
    last_time_ = 0.0;
    last_ = stats;
  }

 private:
  double last_time_ = 0.0;
  EngineStats last_;
};

// Reports the times of each step to an observer. Engine thread only.
class StepWatch {
 public:
  void observe(StepObserver observer) {
    observer_ = std::move(observer);
    begin_ = monotonic_seconds();
  }
  // A message has woken the engine. begin: when its request was submitted, or now for another message.
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
    // A message without a step, such as observe_steps() itself, does not end a pause.
    if (ran) after_pause_ = false;
  }

 private:
  StepObserver observer_;
  double begin_ = 0.0;
  bool after_pause_ = false;
};

}  // namespace

struct Engine::Impl {
  Impl(std::unique_ptr<LoadedModel> loaded, const EngineConfig& config, const EngineHooks& hooks);
  ~Impl();

  void run();
  void run_steps();
  void take_messages();
  double time_of_first_message() const;
  void handle(Message& message);
  void fail(const std::string& reason) noexcept;
  void reject(Message& message, const Failure& failure) noexcept;
  void finish_disk_writes() noexcept;
  void end_remaining() noexcept;
  void publish();
  void count_requests();
  Status closed() const;
  bool post(Message message);
  // Asks the engine thread between two steps, with null if the engine has failed. Returns `closed` if the
  // thread takes no messages.
  template <typename T>
  T ask(const std::function<T(EngineCore*)>& question, T closed) {
    auto answer = std::make_shared<std::promise<T>>();
    auto result = answer->get_future();
    const bool posted =
        post(CallMessage{[answer, question](EngineCore* running) { answer->set_value(question(running)); }});
    return posted ? result.get() : closed;
  }
  bool post_all(std::vector<Submission> requests);
  std::optional<std::string> failure() const;

  std::unique_ptr<LoadedModel> model;
  EngineConfig config;
  MetricsRegistry metrics;
  std::atomic<int32_t> num_unstarted{0};  // the queue: submitted requests that have neither started nor ended
  EngineCore core;                        // engine thread only, once it runs
  ConstraintCompiler constraints;
  ReasoningLimits reasoning;
  WordTokenizer words;
  RequestAdmission admission;

  mutable std::mutex mutex;  // guards the mailbox, the snapshot and the failure, never the core
  std::condition_variable wake;
  std::condition_variable idle;
  std::vector<Message> mailbox;
  EngineStats snapshot;
  size_t num_requests = 0;    // not finished, including those in the mailbox
  bool disk_done = false;     // a disk operation has ended since the last step began
  bool adapter_done = false;  // the load of an adapter has ended
  bool stopping = false;
  bool failed = false;
  std::string failure_reason;

  std::mutex callback_mutex;  // held while on_failure runs
  std::function<void()> on_failure;

  // Engine thread only: the messages taken from the mailbox; those before next_message have been handled.
  std::vector<Message> taken;
  size_t next_message = 0;
  ActivityLog activity;
  StepWatch watch;
  std::atomic<bool> draining{false};
  std::atomic<RequestId> next_id{0};
  std::thread thread;                                // started when everything above exists
  std::unique_ptr<WeightVerification> verification;  // ends first
};

Engine::Impl::Impl(std::unique_ptr<LoadedModel> loaded, const EngineConfig& engine_config,
                   const EngineHooks& hooks)
    : model(std::move(loaded)),
      config(engine_config),
      metrics({{"model_name", model->info.name}, {"engine", "0"}}),
      core(model->scheduler, model->layout,
           hooks.executor ? hooks.executor(model->runtime->executor()) : model->runtime->executor(),
           model->tokenizer.get(), metrics, model->info, config.seed, num_unstarted, hooks,
           model->adapters->enabled() ? &model->adapters->store() : nullptr),
      constraints(model->tokenizer.get(), model->info.vocab_size, model->info.end_token_ids,
                  static_cast<size_t>(config.grammar_cache_size)),
      reasoning(model->tokenizer.get(), model->chat_templates, model->info.vocab_size),
      words(model->tokenizer.get(), model->info.vocab_size),
      admission(model->info, *model->adapters, config, constraints, reasoning, words, core, num_unstarted) {
  core.restore_disk(model->stored_blocks);
  model->stored_blocks = {};
  core.on_disk_outcome([this] {
    {
      const std::lock_guard lock(mutex);
      disk_done = true;
    }
    wake.notify_one();
  });
  const auto on_adapter = [this] {
    {
      const std::lock_guard lock(mutex);
      adapter_done = true;
    }
    wake.notify_one();
  };
  model->adapters->start(on_adapter, hooks.before_adapter);
  publish();
  thread = std::thread([this] { run(); });
  // Text that was generated from damaged weights may have been delivered by then; no more follows.
  const auto on_damage = [this](const std::string& reason) {
    post(CallMessage{[reason](EngineCore* running) {
      if (running != nullptr) throw Error(reason);
    }});
  };
  try {
    verification = model->runtime->model().verify_weights(on_damage);
  } catch (const std::exception& error) {  // the engine thread runs already
    log_warning("--weight-cache: the weights are not verified: ", error.what());
  }
}

Engine::Impl::~Impl() {
  verification.reset();
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_one();
  thread.join();
  core.on_disk_outcome({});
  model->adapters->stop();
}

namespace {

// The message of an exception. Never throws; a message that does not fit into memory is lost.
std::string describe(const std::exception_ptr& error) noexcept {
  try {
    try {
      std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
      return "out of memory";
    } catch (const std::exception& exception) {
      return exception.what();
    } catch (...) {
      return "unknown";
    }
  } catch (...) {
    return {};
  }
}

}  // namespace

void Engine::Impl::run() {
  name_this_thread("quire-engine");
  std::exception_ptr error;
  try {
    run_steps();
  } catch (...) {
    error = std::current_exception();
  }
  if (error != nullptr) {
    fail(describe(error));
  } else {
    finish_disk_writes();
  }
  end_remaining();
}

// Runs until the engine is stopped. All code of the engine thread that can throw is called from here.
void Engine::Impl::run_steps() {
  std::unique_lock lock(mutex);
  while (true) {
    if (mailbox.empty() && !core.has_work()) {
      activity.idle(snapshot);
      idle.notify_all();
      wake.wait(lock, [this] { return stopping || !mailbox.empty() || adapter_done; });
      watch.resume(time_of_first_message());
    } else if (core.waits_for_disk()) {
      wake.wait(lock, [this] { return stopping || !mailbox.empty() || disk_done || adapter_done; });
    }
    if (stopping) return;
    disk_done = false;
    const bool has_adapters = std::exchange(adapter_done, false);
    taken.clear();
    taken.swap(mailbox);
    next_message = 0;
    lock.unlock();
    if (has_adapters) core.take_adapters();
    take_messages();
    const StepPlan* plan = nullptr;
    if (core.has_work()) {
      plan = &core.step();
    } else {
      core.refresh_metrics();
    }
    publish();
    // The statistics are up to date before a caller learns that its request has finished, and the request is
    // counted until then.
    core.deliver();
    watch.step_ended(plan);
    lock.lock();
    count_requests();
    activity.after_step(snapshot);
  }
}

// Ends every request with an error and rejects all further ones. The state of the scheduler and the executor
// is unknown after an exception, so neither is called again.
void Engine::Impl::fail(const std::string& reason) noexcept {
  try {
    log_error("the engine failed and accepts no more requests: ", reason);
  } catch (...) {  // out of memory: continue without the line
  }
  std::vector<Message> unread;
  Failure failure{ErrorKind::kInternal, "", ""};
  {
    const std::lock_guard lock(mutex);
    failed = true;
    unread.swap(mailbox);
    try {
      failure_reason = reason;
      failure.message = cat("The engine failed: ", reason);
    } catch (...) {  // out of memory: an empty message
    }
  }
  core.fail_all(failure);
  for (size_t i = next_message; i < taken.size(); ++i) reject(taken[i], failure);
  next_message = taken.size();
  for (Message& message : unread) reject(message, failure);
  {
    const std::lock_guard lock(mutex);
    num_requests = 0;
  }
  idle.notify_all();
  {
    const std::lock_guard lock(callback_mutex);
    const std::function<void()> callback = std::exchange(on_failure, {});
    try {
      if (callback) callback();
    } catch (...) {  // the callback is the caller's; it must not end the process
    }
  }
  std::unique_lock lock(mutex);
  wake.wait(lock, [this] { return stopping; });
}

// Answers a message that the core never got.
void Engine::Impl::reject(Message& message, const Failure& failure) noexcept {
  if (auto* add = std::get_if<AddMessage>(&message); add != nullptr && add->sink) {
    num_unstarted.fetch_sub(1, std::memory_order_relaxed);
    send_failure(add->sink, add->request.id, failure);
  } else if (auto* call = std::get_if<CallMessage>(&message); call != nullptr) {
    try {
      call->call(nullptr);
    } catch (...) {  // its promise is broken when the message is destroyed
    }
  }
}

void Engine::Impl::finish_disk_writes() noexcept {
  try {
    core.flush_disk();
  } catch (...) {
    try {
      log_error("cannot finish the writes of the disk cache: ", describe(std::current_exception()));
    } catch (...) {  // out of memory: continue without the line
    }
  }
}

// After the last step: no caller may wait for a request or a call that nothing will answer.
void Engine::Impl::end_remaining() noexcept {
  Failure failure{ErrorKind::kOverloaded, "", ""};
  try {
    failure.message = "The engine was shut down.";
  } catch (const std::bad_alloc&) {  // callers are answered without a message
  }
  std::vector<Message> unread;
  {
    const std::lock_guard lock(mutex);
    unread.swap(mailbox);
  }
  for (Message& message : unread) reject(message, failure);
  core.fail_all(failure);
}

// Under the lock.
double Engine::Impl::time_of_first_message() const {
  const auto* add = mailbox.empty() ? nullptr : std::get_if<AddMessage>(&mailbox.front());
  return add != nullptr ? add->request.arrival : monotonic_seconds();
}

void Engine::Impl::take_messages() {
  core.before(StepPhase::kMessages);
  for (; next_message < taken.size(); ++next_message) handle(taken[next_message]);
}

void Engine::Impl::handle(Message& message) {
  if (auto* add = std::get_if<AddMessage>(&message)) {
    core.add(std::move(*add));
  } else if (auto* abort_message = std::get_if<AbortMessage>(&message)) {
    for (size_t i = 0; i < abort_message->count; ++i)
      core.abort(abort_message->first + static_cast<RequestId>(i));
  } else {
    std::get<CallMessage>(message).call(&core);
  }
}

// Makes the statistics visible to other threads.
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
    if (stopping || failed) return false;
    mailbox.push_back(std::move(message));
  }
  wake.notify_one();
  return true;
}

bool Engine::Impl::post_all(std::vector<Submission> requests) {
  {
    const std::lock_guard lock(mutex);
    if (stopping || failed) return false;
    if (const size_t size = mailbox.size() + requests.size(); size > mailbox.capacity())
      mailbox.reserve(std::max(size, 2 * mailbox.capacity()));
    for (Submission& request : requests) mailbox.emplace_back(std::move(request));  // does not throw
    num_requests += requests.size();
  }
  wake.notify_one();
  return true;
}

std::optional<std::string> Engine::Impl::failure() const {
  const std::lock_guard lock(mutex);
  return failed ? std::optional(failure_reason) : std::nullopt;
}

// Why no request is accepted at all; ok while some are.
Status Engine::Impl::closed() const {
  if (const auto reason = failure())
    return Failure{ErrorKind::kInternal, cat("The engine failed: ", *reason), ""};
  if (draining) return Failure{ErrorKind::kOverloaded, "The server is shutting down.", ""};
  return {};
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

std::unique_ptr<Engine> Engine::start(const EngineConfig& config, const LoadProgressCallback& progress,
                                      const EngineHooks& hooks) {
  check_config(config);
  EngineConfig effective = config;
  auto model = load_model(effective, progress, hooks.open_device);
  // Block hashes must not be guessable; the seeds of samples must be reproducible. With a disk cache the hash
  // seed is the one stored in its folder.
  std::random_device device;
  if (model->scheduler.hash_seed == 0) model->scheduler.hash_seed = (uint64_t{device()} << 32) | device();
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(std::move(model), effective, hooks)));
}

const ModelInfo& Engine::model() const {
  return impl_->model->info;
}
const Tokenizer* Engine::tokenizer() const {
  return impl_->model->tokenizer.get();
}
const ChatTemplates& Engine::chat_templates() const {
  return impl_->model->chat_templates;
}
const SamplingParams& Engine::default_sampling() const {
  return impl_->model->default_sampling;
}

Result<SharedConstraint> Engine::compile(const StructuredOutputs& spec, const CompileOptions& options) {
  return impl_->constraints.compile(spec, options);
}

Result<SharedConstraint> Engine::limit_reasoning(int32_t tokens, OutputParserOptions reading,
                                                 SharedConstraint within) {
  return impl_->reasoning.limit(tokens, std::move(reading), std::move(within));
}

Result<RequestId> Engine::submit(Request request, OutputSink sink) {
  std::vector<Submission> requests;
  requests.push_back({std::move(request), std::move(sink)});
  return submit(std::move(requests));
}

std::vector<AdapterDescription> Engine::adapters() const {
  return impl_->model->adapters->list();
}

std::optional<AdapterDescription> Engine::find_adapter(std::string_view name) const {
  return impl_->model->adapters->find(name);
}

Status Engine::require_adapter(std::string_view name) {
  return impl_->model->adapters->require(name);
}

Status Engine::load_adapter(const LoraModule& module, bool replace) {
  return impl_->model->adapters->load(module, replace);
}

Status Engine::unload_adapter(const std::string& name) {
  Status unloaded = impl_->model->adapters->unload(name);
  if (unloaded.ok()) impl_->post(CallMessage{[](EngineCore*) {}});  // the metrics have changed
  return unloaded;
}

Result<RequestId> Engine::submit(std::vector<Submission> requests) {
  Impl& impl = *impl_;
  if (Status open = impl.closed(); !open.ok()) return open.failure();
  if (Status admitted = impl.admission.admit(requests); !admitted.ok()) return admitted.failure();
  const auto count = static_cast<int32_t>(requests.size());
  const RequestId first = impl.next_id.fetch_add(count);
  bool posted = false;
  try {
    for (int32_t i = 0; i < count; ++i) {
      Request& request = requests[static_cast<size_t>(i)].request;
      request.id = first + i;
      request.arrival = monotonic_seconds();
      // A model without token types has a single one.
      if (request.pooling && !model().has_token_types) request.pooling->second_text = 0;
    }
    posted = impl.post_all(std::move(requests));
  } catch (...) {
    impl.num_unstarted.fetch_sub(count);
    throw;
  }
  if (posted) return first;
  impl.num_unstarted.fetch_sub(count);
  if (Status open = impl.closed(); !open.ok()) return open.failure();
  return Failure{ErrorKind::kOverloaded, "The engine is shutting down.", ""};
}

void Engine::abort(RequestId first, size_t count) {
  impl_->post(AbortMessage{first, count});
}

bool Engine::drain(std::chrono::milliseconds timeout) {
  impl_->draining = true;
  std::unique_lock lock(impl_->mutex);
  const auto none_left = [this] { return impl_->num_requests == 0 && impl_->mailbox.empty(); };
  if (impl_->idle.wait_for(lock, timeout, none_left)) return true;
  lock.unlock();
  impl_->post(CallMessage{[](EngineCore* core) {
    if (core == nullptr) return;
    core->abort_all(
        {ErrorKind::kOverloaded, "The server was shut down before the response was complete.", ""});
  }});
  return false;
}

bool Engine::busy() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->num_requests > 0;
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->snapshot;
}

std::shared_ptr<const EngineView> Engine::view() {
  using View = std::shared_ptr<const EngineView>;
  return impl_->ask<View>(
      [](EngineCore* core) {
        try {
          return core == nullptr ? View() : std::make_shared<const EngineView>(core->view());
        } catch (const std::bad_alloc&) {  // a display is no reason for the engine to fail
          return View();
        }
      },
      View());
}

MetricsRegistry& Engine::metrics() {
  return impl_->metrics;
}

std::optional<std::string> Engine::failure() const {
  return impl_->failure();
}

void Engine::on_failure(std::function<void()> callback) {
  const std::lock_guard lock(impl_->callback_mutex);
  if (callback && impl_->failure()) {
    callback();
  } else {
    impl_->on_failure = std::move(callback);
  }
}

void Engine::observe_steps(StepObserver observer) {
  impl_->ask<bool>(
      [&impl = *impl_, &observer](EngineCore* core) {
        if (core != nullptr) impl.watch.observe(std::move(observer));
        return true;
      },
      false);
}

bool Engine::reset_prefix_cache() {
  return impl_->ask<bool>([](EngineCore* core) { return core != nullptr && core->reset_prefix_cache(); },
                          false);
}

void Engine::check_integrity() {
  {
    std::unique_lock lock(impl_->mutex);
    impl_->idle.wait(lock, [this] { return impl_->num_requests == 0 && impl_->mailbox.empty(); });
  }
  const auto check = [](EngineCore* core) -> std::exception_ptr {
    try {
      if (core == nullptr) throw Error("the engine has failed");
      core->check_integrity();
      const EngineStats stats = core->stats();
      if (stats.num_free_blocks != stats.num_blocks) {
        throw Error(cat("the engine is idle and ", stats.num_blocks - stats.num_free_blocks,
                        " KV blocks are not free"));
      }
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  };
  const auto problem =
      impl_->ask<std::exception_ptr>(check, std::make_exception_ptr(Error("the engine is not running")));
  if (problem != nullptr) std::rethrow_exception(problem);
}

}  // namespace quire
