#include "engine/request_admission.h"

#include <utility>

#include "base/counted.h"
#include "base/strings.h"
#include "sample/validate.h"

namespace quire {

Status RequestAdmission::admit(std::vector<Submission>& requests) {
  const auto count = static_cast<int32_t>(requests.size());
  Status status = check_all(requests);
  if (status.ok()) status = enter_queue(count);
  if (!status.ok()) core_.count_rejected(status.failure().kind, count);
  return status;
}

Status RequestAdmission::check_all(std::vector<Submission>& requests) {
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i].request;
    // The prompts of a call share their parameters, and so their constraint and words.
    if (i > 0 && request.sampling.same_as(requests[i - 1].request.sampling)) {
      // With a budget they differ in whether reasoning has begun.
      if (request.constraint == nullptr && request.sampling->thinking_token_budget < 0)
        request.constraint = requests[i - 1].request.constraint;
      request.words = requests[i - 1].request.words;
    }
    Status status = check(requests[i]);
    if (status.ok()) continue;
    if (requests.size() == 1) return status;
    const Failure& failure = status.failure();
    return Failure{failure.kind, cat("prompt ", i, ": ", failure.message), failure.param};
  }
  return {};
}

Status RequestAdmission::check(Submission& submission) {
  Request& request = submission.request;
  if (Status status = check_task(request); !status.ok()) return status;
  if (Status status = find_adapter(submission); !status.ok()) return status;
  const int32_t vocab_size = model_.vocab_size;
  for (const TokenId id : request.prompt_token_ids) {
    if (id < 0 || id >= vocab_size) {
      return invalid_argument(
          cat("The prompt contains the token ", id,
              ", which is out of vocabulary: the model has the tokens 0 to ", vocab_size - 1, "."),
          "prompt");
    }
  }
  if (Status status = check_sampling(request.sampling); !status.ok()) return status;
  if (Status status = core_.check(request); !status.ok()) return status;
  if (Status status = tokenize_words(request); !status.ok()) return status;
  return compile_constraint(request);
}

Status RequestAdmission::find_adapter(Submission& submission) {
  Request& request = submission.request;
  if (request.adapter_name.empty()) return {};
  auto acquired = adapters_.acquire(request.adapter_name);
  if (!acquired.ok()) return acquired.failure();
  request.adapter = std::move(acquired->ref);
  if (request.adapter.weights == nullptr) submission.adapter = std::move(acquired->version);
  return {};
}

Status RequestAdmission::tokenize_words(Request& request) {
  if (request.words != nullptr) return {};
  Result<SharedSamplingWords> words = words_.tokenize(*request.sampling);
  if (!words.ok()) return words.failure();
  request.words = std::move(*words);
  return {};
}

Status RequestAdmission::compile_constraint(Request& request) {
  if (request.constraint != nullptr) return {};
  if (request.sampling->thinking_token_budget >= 0) {
    Result<SharedConstraint> limited = reasoning_.limit(request, constraints_);
    if (!limited.ok()) return limited.failure();
    request.constraint = std::move(*limited);
    return {};
  }
  const std::optional<StructuredOutputs>& wanted = request.sampling->structured_outputs;
  if (!wanted) return {};
  Result<SharedConstraint> compiled = constraints_.compile(*wanted);
  if (!compiled.ok()) return compiled.failure();
  request.constraint = std::move(*compiled);
  return {};
}

// Takes `count` places in the queue, or none.
Status RequestAdmission::enter_queue(int32_t count) {
  const int32_t limit = max_queued_;
  if (count > limit) {
    return invalid_argument(cat("The request has ", counted(count, "prompt"), "; at most ", limit,
                                " can wait (--max-num-queued-reqs)."),
                            "prompt");
  }
  int32_t queued = num_unstarted_.load();
  while (queued <= limit - count) {
    if (num_unstarted_.compare_exchange_weak(queued, queued + count)) return {};
  }
  return Failure{ErrorKind::kOverloaded,
                 cat("The queue is full: ", counted(queued, "request"), queued == 1 ? " waits" : " wait",
                     ", and at most ", limit, " can (--max-num-queued-reqs); try again later."),
                 ""};
}

// The prompts of one request share their parameters, which may hold long lists: they are checked once.
Status RequestAdmission::check_sampling(const SharedSamplingParams& params) {
  {
    const std::lock_guard lock(checked_mutex_);
    if (checked_ && checked_->same_as(params)) return {};
  }
  Status status = validate(*params, model_.vocab_size, max_logprobs_);
  const std::lock_guard lock(checked_mutex_);
  checked_ = status.ok() ? std::optional(params) : std::nullopt;
  return status;
}

// Checks that the model supports the requested task.
Status RequestAdmission::check_task(const Request& request) const {
  const ModelInfo& info = model_;
  if (!request.pooling) {
    if (info.task == ModelTask::kGenerate) return {};
    return invalid_argument(
        cat("The model ", info.name, " (", info.architecture, ") returns ",
            info.task == ModelTask::kEmbed ? "embeddings" : "scores", " and does not generate text."),
        "model");
  }
  if (info.task == ModelTask::kGenerate) {
    return invalid_argument(cat("The model ", info.name, " (", info.architecture,
                                ") generates text; start it with --runner pooling for embeddings."),
                            "model");
  }
  const int64_t dimensions = request.pooling->params.dimensions;
  if (dimensions < 0 || (info.task == ModelTask::kEmbed && dimensions > info.embedding_size)) {
    return invalid_argument(
        cat("dimensions is ", dimensions, "; the model's embeddings have ", info.embedding_size, "."),
        "dimensions");
  }
  return {};
}

}  // namespace quire
