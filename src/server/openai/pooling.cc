#include "server/openai/pooling.h"

#include <algorithm>
#include <numeric>

#include "base/log.h"
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

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) word = (word << 8) | (k < count ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) out += k <= count ? kLetters[(word >> (18 - 6 * k)) & 63U] : '=';
  }
  return out;
}

Pooling::Pooling(ServingEngine& engine, PoolingSpec spec, std::shared_ptr<ResponseWriter> writer,
                 bool log_requests)
    : engine_(engine), spec_(std::move(spec)), writer_(std::move(writer)), log_requests_(log_requests) {
  texts_.resize(spec_.texts.size());
  num_unfinished_ = texts_.size();
}

void Pooling::start() {
  const auto self = shared_from_this();
  for (size_t i = 0; i < spec_.texts.size(); ++i) {
    GenerateRequest request;
    request.prompt_token_ids = spec_.texts[i].ids;
    request.sampling.max_tokens = 0;
    request.pooling =
        PoolingRequest{spec_.params, spec_.texts[i].second_text, engine_.model().pools_all_tokens};
    request.priority = spec_.priority;
    request.client = spec_.client;
    request.cache_salt = spec_.cache_salt;
    auto id = engine_.submit(std::move(request),
                             [self, i](RequestOutput&& output) { self->receive(i, std::move(output)); });
    if (!id.ok()) return fail(id.failure());
    const std::lock_guard lock(mutex_);
    texts_[i].request = id.value();
  }
  writer_->on_gone([self] { self->abort_all(); });
}

void Pooling::receive(size_t index, RequestOutput&& output) {
  if (deaf_.load(std::memory_order_relaxed)) return;
  if (output.failure) {
    return writer_->post([self = shared_from_this(), failure = *output.failure] { self->fail(failure); });
  }
  if (!output.finished) return;
  const bool whole = !output.pooled.empty();
  {
    const std::lock_guard lock(mutex_);
    Text& text = texts_[index];
    text.finished = true;
    text.cached_tokens = output.num_cached_tokens;
    text.vector = std::move(output.pooled);
    if (--num_unfinished_ > 0 && whole) return;
  }
  if (!whole) {
    const Failure failure{ErrorKind::kOverloaded, "the request was ended before its vector was computed", ""};
    return writer_->post([self = shared_from_this(), failure] { self->fail(failure); });
  }
  writer_->post([self = shared_from_this()] { self->finish(); });
}

void Pooling::abort_all() {
  closed_ = true;
  deaf_.store(true, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  for (const Text& text : texts_) {
    if (text.request >= 0 && !text.finished) engine_.abort(text.request);
  }
}

void Pooling::fail(const Failure& failure) {
  if (closed_) return;
  abort_all();
  writer_->send(error_response(failure));
}

void Pooling::finish() {
  if (closed_) return;
  closed_ = true;
  deaf_.store(true, std::memory_order_relaxed);
  if (log_requests_) {
    log_info(spec_.id, ": ", texts_.size(), " texts, ", usage().prompt_tokens, " tokens, ",
             fixed(monotonic_seconds() - begin_, 3), " s");
  }
  HttpResponse response;
  if (!spec_.ignored_params.empty())
    response.headers.add("X-Ignored-Params", ignored_header(spec_.ignored_params));
  response.body = answer();
  writer_->send(std::move(response));
}

Usage Pooling::usage() const {
  Usage usage;
  for (size_t i = 0; i < texts_.size(); ++i) {
    usage.prompt_tokens += static_cast<int64_t>(spec_.texts[i].ids.size());
    usage.cached_tokens += texts_[i].cached_tokens;
  }
  return usage;
}

// Of each document.
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
      // This machine's numbers are little-endian, as clients expect them.
      out.string(base64_of({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)}));
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

std::string Pooling::answer() const {
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
