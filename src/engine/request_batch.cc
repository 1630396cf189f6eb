#include "engine/request_batch.h"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace quire {
namespace {

template <typename T>
void move_to_end(std::vector<T>& to, std::vector<T>&& from) {
  if (to.empty()) {
    to = std::move(from);
  } else {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  }
}

void join_delta(std::vector<CompletionDelta>& outputs, CompletionDelta&& delta) {
  const auto index = static_cast<size_t>(delta.index);
  for (size_t i = outputs.size(); i <= index; ++i) outputs.emplace_back().index = static_cast<int32_t>(i);
  CompletionDelta& joined = outputs[index];
  joined.text += delta.text;
  move_to_end(joined.token_ids, std::move(delta.token_ids));
  move_to_end(joined.logprobs, std::move(delta.logprobs));
  joined.cumulative_logprob = delta.cumulative_logprob;
  joined.finish_reason = delta.finish_reason;
  joined.stop_reason = std::move(delta.stop_reason);
}

// Appends an output to what its request sent before.
void join_output(RequestOutput& joined, RequestOutput&& output) {
  for (CompletionDelta& delta : output.outputs) join_delta(joined.outputs, std::move(delta));
  move_to_end(joined.prompt_logprobs, std::move(output.prompt_logprobs));
  if (!output.pooled.empty()) joined.pooled = std::move(output.pooled);
  joined.num_prompt_tokens = output.num_prompt_tokens;
  joined.num_cached_tokens = output.num_cached_tokens;
  joined.finished = output.finished;
  joined.failure = std::move(output.failure);
  joined.times = output.times;
}

}  // namespace

Status RequestBatch::submit(std::vector<Request> requests, const Sink& sink) {
  const std::shared_ptr<RequestPort> port = port_.lock();
  if (port == nullptr) return Failure{ErrorKind::kOverloaded, "The engine was shut down.", ""};
  const size_t count = requests.size();
  const auto shared_sink = std::make_shared<const Sink>(sink);
  state_->num_running = count;
  std::vector<Submission> submissions;
  submissions.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    submissions.push_back({std::move(requests[i]), [state = state_, shared_sink, i](RequestOutput&& output) {
                             if (output.finished) --state->num_running;
                             (*shared_sink)(i, std::move(output));
                           }});
  }
  const Result<RequestId> first = port->submit(std::move(submissions));
  if (!first.ok()) return first.failure();
  bool aborted = false;
  {
    const std::lock_guard lock(mutex_);
    first_ = *first;
    count_ = count;
    aborted = aborted_;
  }
  // abort() may have run before it could see the requests. The lock is released: the engine has one of its
  // own, and may hold it while it calls a sink.
  if (aborted) port->abort(*first, count);
  return {};
}

Status RequestBatch::submit(std::vector<Request> requests) {
  state_->outputs.resize(requests.size());
  return submit(std::move(requests), [state = state_](size_t index, RequestOutput&& output) {
    state->take(index, std::move(output));
  });
}

void RequestBatch::abort() noexcept {
  std::optional<RequestId> first;
  size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(aborted_, true)) return;
    first = first_;
    count = count_;
  }
  const std::shared_ptr<RequestPort> port = port_.lock();
  if (!first || port == nullptr || state_->num_running == 0) return;
  try {
    port->abort(*first, count);
  } catch (...) {
    // Without memory to abort the requests, they run to their end and their outputs are dropped.
  }
}

RequestBatch::Progress RequestBatch::wait(double seconds) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  const auto done = [&state] { return state.done(); };
  if (seconds < 0.0) {
    state.changed.wait(lock, done);
  } else {
    state.changed.wait_for(lock, std::chrono::duration<double>(seconds), done);
  }
  return state.progress;
}

RequestOutput RequestBatch::next() {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  state.streams = true;
  state.changed.wait(lock, [&state] { return state.has_next || state.done(); });
  state.has_next = false;
  RequestOutput& output = state.outputs.front();
  const bool finished = output.finished;
  RequestOutput taken = std::exchange(output, {});
  output.finished = finished;
  return taken;
}

// Engine thread. wait() is woken only when everything has finished: a step of many requests would wake it for
// each of them.
void RequestBatch::State::take(size_t index, RequestOutput&& output) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex);
    RequestOutput& joined = outputs[index];
    join_output(joined, std::move(output));
    has_next = true;
    if (joined.finished) {
      ++progress.num_finished;
      const auto num_outputs = static_cast<int64_t>(std::max<size_t>(1, joined.outputs.size()));
      progress.num_prompt_tokens += joined.num_prompt_tokens * num_outputs;
      for (const CompletionDelta& completion : joined.outputs)
        progress.num_output_tokens += static_cast<int64_t>(completion.token_ids.size());
      if (joined.failure && !failed) failed.emplace(index, *joined.failure);
    }
    wake = streams || done();
  }
  if (wake) changed.notify_all();
}

}  // namespace quire
