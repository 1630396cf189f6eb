#include "server/openai/pooling.h"

#include <algorithm>
#include <numeric>

#include "base/base64.h"
#include "base/counted.h"
#include "base/strings.h"
#include "server/openai/errors.h"

namespace quire {
namespace {

void write_numbers(JsonOut& out, const std::vector<float>& values) {
  out.begin_array();
  for (const float v : values) out.number(v);
  out.end_array();
}

}  // namespace

Pooling::Pooling(ServingEngine& engine, PoolingSpec spec, std::shared_ptr<ResponseWriter> writer,
                 std::shared_ptr<WorkPool> pool, std::stop_source stop)
    : engine_(engine),
      spec_(std::move(spec)),
      writer_(std::move(writer)),
      pool_(std::move(pool)),
      stop_(std::move(stop)) {
  texts_.resize(spec_.texts.size());
  num_unfinished_ = texts_.size();
}

void Pooling::start() {
  on_stop_.emplace(stop_.get_token(), Abort{this});
  if (const Status submitted = submit_all(); !submitted.ok()) fail(submitted.failure());
}

Status Pooling::submit_all() {
  SharedSamplingParams sampling;
  sampling.edit().max_tokens = 0;
  std::vector<Request> requests(spec_.texts.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    PooledText& text = spec_.texts[i];
    texts_[i].num_tokens = static_cast<int64_t>(text.ids.size());
    requests[i].prompt_token_ids = std::move(text.ids);
    requests[i].sampling = sampling;
    requests[i].pooling = PoolingRequest{spec_.params, text.second_text, engine_.model().pools_all_tokens};
    requests[i].priority = spec_.priority;
    requests[i].client = spec_.client;
    requests[i].cache_salt = spec_.cache_salt;
    requests[i].adapter_name = spec_.adapter;
  }
  return requests_.submit(std::move(requests), [self = shared_from_this()](size_t i, RequestOutput&& output) {
    self->receive(i, std::move(output));
  });
}

void Pooling::receive(size_t index, RequestOutput&& output) noexcept {
  if (closed_.load(std::memory_order_relaxed)) return;
  if (output.failure) return fail(*output.failure);
  if (!output.finished) return;
  if (output.pooled.empty()) {
    return fail(ErrorKind::kOverloaded, "the request was aborted before its result was computed");
  }
  {
    const std::lock_guard lock(mutex_);
    Text& text = texts_[index];
    text.finished = true;
    text.cached_tokens = output.num_cached_tokens;
    text.vector = std::move(output.pooled);
    if (--num_unfinished_ > 0) return;
  }
  size_t num_values = 0;
  for (const Text& text : texts_) num_values += text.vector.size();
  bool queued = false;
  try {
    // Not with stop_: a response that is complete is written while the server shuts down, too.
    queued = pool_->submit(num_values * 16, std::stop_source(),
                           [self = shared_from_this()](const YieldPoint&) { self->finish(); });
  } catch (...) {
  }
  if (!queued) fail(ErrorKind::kOverloaded, "the server is overloaded; try again later");
}

// Any thread.
void Pooling::abort_all() noexcept {
  if (!closed_.exchange(true)) requests_.abort();
}

void Pooling::fail(const Failure& failure) noexcept {
  if (closed_.load()) return;
  abort_all();
  try {
    reply(error_response(failure));
  } catch (...) {
    writer_->post_failure();
  }
}

void Pooling::fail(ErrorKind kind, const char* message) noexcept {
  if (closed_.load()) return;
  try {
    fail(Failure{kind, message, ""});
  } catch (...) {
    abort_all();
    writer_->post_failure();
  }
}

void Pooling::finish() noexcept {
  if (closed_.exchange(true)) return;
  try {
    HttpResponse response;
    response.remark = cat(spec_.id, ", ", counted(static_cast<int64_t>(texts_.size()), "text"), ", ",
                          counted(usage().prompt_tokens, "token"));
    if (!spec_.ignored_params.empty())
      response.headers.add("X-Ignored-Params", ignored_header(spec_.ignored_params));
    response.body = response_body();
    reply(std::move(response));
  } catch (...) {
    writer_->post_failure();
  }
}

void Pooling::reply(HttpResponse response) {
  const auto shared = std::make_shared<HttpResponse>(std::move(response));
  writer_->post([self = shared_from_this(), shared] { self->writer_->send(std::move(*shared)); });
}

Usage Pooling::usage() const {
  Usage usage;
  for (const Text& text : texts_) {
    usage.prompt_tokens += text.num_tokens;
    usage.cached_tokens += text.cached_tokens;
  }
  return usage;
}

// One score per document.
std::vector<double> Pooling::scores() const {
  std::vector<double> scores;
  for (size_t i = spec_.num_left; i < texts_.size(); ++i) {
    if (!spec_.compare) {
      scores.push_back(texts_[i].vector.front());
    } else {
      const size_t left = spec_.num_left == 1 ? 0 : i - spec_.num_left;
      scores.push_back(cosine(texts_[left].vector, texts_[i].vector));
    }
  }
  return scores;
}

void Pooling::write_vectors(JsonOut& out) const {
  const bool embeddings = spec_.answer == PoolingAnswer::kEmbeddings;
  out.key("data").begin_array();
  for (size_t i = 0; i < texts_.size(); ++i) {
    const std::vector<float>& vector = texts_[i].vector;
    out.begin_object().key("object").string(embeddings ? "embedding" : "pooling").key("index").integer(i);
    out.key(embeddings ? "embedding" : "data");
    if (spec_.base64) {
      // Clients expect little-endian values, which is the byte order of every supported machine.
      out.string(base64({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)}));
    } else {
      write_numbers(out, vector);
    }
    out.end_object();
  }
  out.end_array();
}

void Pooling::write_ranks(JsonOut& out) const {
  const std::vector<double> all = scores();
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return all[a] > all[b]; });
  if (spec_.top_n > 0 && spec_.top_n < order.size()) order.resize(spec_.top_n);
  out.key("results").begin_array();
  for (const size_t i : order) {
    out.begin_object().key("index").integer(i);
    if (spec_.return_documents)
      out.key("document").begin_object().key("text").string(spec_.documents[i]).end_object();
    out.key("relevance_score").number(all[i]).end_object();
  }
  out.end_array();
}

void Pooling::write_scores(JsonOut& out) const {
  const std::vector<double> all = scores();
  out.key("data").begin_array();
  for (size_t i = 0; i < all.size(); ++i)
    out.begin_object()
        .key("index")
        .integer(i)
        .key("object")
        .string("score")
        .key("score")
        .number(all[i])
        .end_object();
  out.end_array();
}

void Pooling::write_classes(JsonOut& out) const {
  const std::vector<std::string>& labels = engine_.model().labels;
  out.key("data").begin_array();
  for (size_t i = 0; i < texts_.size(); ++i) {
    const std::vector<float>& vector = texts_[i].vector;
    const auto best = static_cast<size_t>(std::max_element(vector.begin(), vector.end()) - vector.begin());
    out.begin_object().key("index").integer(i).key("label").string_or_null(best < labels.size() ? labels[best]
                                                                                                : "");
    out.key("probs");
    write_numbers(out, vector);
    out.key("num_classes").integer(vector.size()).end_object();
  }
  out.end_array();
}

std::string Pooling::response_body() const {
  std::string body;
  JsonOut out(body);
  out.begin_object().key("id").string(spec_.id);
  if (spec_.answer != PoolingAnswer::kRerank)
    out.key("object").string("list").key("created").integer(spec_.created);
  out.key("model").string(spec_.model);
  switch (spec_.answer) {
    case PoolingAnswer::kEmbeddings:
    case PoolingAnswer::kPooled:
      write_vectors(out);
      break;
    case PoolingAnswer::kRerank:
      write_ranks(out);
      break;
    case PoolingAnswer::kScores:
      write_scores(out);
      break;
    case PoolingAnswer::kClasses:
      write_classes(out);
      break;
  }
  out.key("usage");
  write_usage(out, usage());
  out.end_object();
  return body;
}

}  // namespace quire
