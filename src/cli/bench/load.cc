#include "cli/bench/load.h"

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "base/strings.h"

namespace quire::cli {
namespace {

using nlohmann::json;

constexpr size_t kMaxErrorBytes = 300;

// The text of a choice: completions have `text`, chats a delta of contents. Tool calls count as something
// said.
bool says_something(const json& choice) {
  const auto filled = [](const json& object, const char* key) {
    const auto it = object.find(key);
    if (it == object.end()) return false;
    return it->is_string() ? !it->get_ref<const std::string&>().empty() : it->is_array() && !it->empty();
  };
  if (filled(choice, "text")) return true;
  const auto delta = choice.find("delta");
  if (delta == choice.end() || !delta->is_object()) return false;
  return filled(*delta, "content") || filled(*delta, "reasoning") || filled(*delta, "reasoning_content") ||
         filled(*delta, "tool_calls");
}

int64_t count_of(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<int64_t>() : -1;
}

// Lets so many connections be open, as far as the system allows.
void allow_connections(size_t count) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(count) + 64;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// All requests of a run. One thread.
class Load {
 public:
  Load(const Address& address, const std::vector<std::string>& requests, const std::vector<double>& arrivals,
       const LoadOptions& options)
      : address_(address), requests_(requests), arrivals_(arrivals), options_(options) {
    result_.records.resize(requests.size());
  }

  LoadResult run(const std::function<void(const LoadProgress&)>& on_progress) {
    begin_ = monotonic_seconds();
    while (num_done_ < requests_.size()) {
      start_due();
      wait();
      advance_all();
      if (on_progress) on_progress(progress());
    }
    result_.elapsed_s = monotonic_seconds() - begin_;
    return std::move(result_);
  }

 private:
  struct Flight {
    Flight(size_t i, Socket socket, bool reused, const std::string& request, RequestRecord& record)
        : index(i), exchange(std::move(socket), reused, request), recorder(record) {}
    size_t index;
    HttpExchange exchange;
    StreamRecorder recorder;
    std::string error_body;
    double last_heard = 0.0;
  };

  LoadProgress progress() const {
    LoadProgress progress{num_done_, num_finished_tokens_};
    for (const auto& flight : flights_)
      progress.num_tokens += static_cast<int64_t>(result_.records[flight->index].chunk_times.size());
    return progress;
  }

  bool may_start() const {
    return next_ < requests_.size() &&
           (options_.max_concurrency == 0 || flights_.size() < options_.max_concurrency);
  }

  void start_due() {
    while (may_start() && begin_ + arrivals_[next_] <= monotonic_seconds()) {
      start(next_++, true);
      result_.peak_concurrency = std::max(result_.peak_concurrency, static_cast<int64_t>(flights_.size()));
    }
  }

  void start(size_t index, bool may_reuse) {
    RequestRecord& record = result_.records[index];
    record = {};
    record.begin = monotonic_seconds();
    try {
      const bool reuse = may_reuse && !idle_.empty();
      Socket socket;
      if (reuse) {
        socket = std::move(idle_.back());
        idle_.pop_back();
      } else {
        socket = address_.connect();
      }
      flights_.push_back(std::make_unique<Flight>(index, std::move(socket), reuse, requests_[index], record));
      flights_.back()->last_heard = record.begin;
    } catch (const Error& error) {
      record.error = error.what();
      ++num_done_;
    }
  }

  void wait() {
    polls_.clear();
    for (const auto& flight : flights_)
      polls_.push_back({flight->exchange.fd(), flight->exchange.wanted(), 0});
    double seconds = 1.0;  // interval of the timeout checks
    if (may_start()) seconds = std::clamp(begin_ + arrivals_[next_] - monotonic_seconds(), 0.0, 1.0);
    timespec limit{};
    limit.tv_sec = static_cast<time_t>(seconds);
    limit.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
    // After an interrupted wait revents is still 0 everywhere.
    ppoll(polls_.data(), polls_.size(), &limit, nullptr);
  }

  void advance_all() {
    const double now = monotonic_seconds();
    std::vector<size_t> again;
    for (size_t i = 0; i < polls_.size(); ++i) {
      Flight& flight = *flights_[i];
      if (polls_[i].revents == 0) {
        if (now - flight.last_heard > options_.timeout_s)
          fail(i, cat("no data for ", options_.timeout_s, " s"));
        continue;
      }
      try {
        advance(i, now, again);
      } catch (const Error& error) {
        fail(i, error.what());
      }
    }
    std::erase(flights_, nullptr);
    for (const size_t index : again) start(index, false);
  }

  void advance(size_t place, double now, std::vector<size_t>& again) {
    Flight& flight = *flights_[place];
    body_.clear();
    flight.exchange.advance(body_);
    if (flight.exchange.stale()) {
      again.push_back(flight.index);
      flights_[place] = nullptr;
      return;
    }
    if (!body_.empty()) flight.last_heard = now;
    if (flight.exchange.response().status() == 200) {
      flight.recorder.feed(body_, now);
      if (flight.error_body.size() < kMaxErrorBytes) flight.error_body += body_.substr(0, kMaxErrorBytes);
    } else {
      flight.error_body += body_;
    }
    if (!flight.exchange.done()) return;
    flight.recorder.finish(flight.exchange.response().status(), flight.error_body);
    if (flight.exchange.response().keep_alive()) idle_.push_back(flight.exchange.take_socket());
    num_finished_tokens_ += result_.records[flight.index].output_tokens;
    flights_[place] = nullptr;
    ++num_done_;
  }

  void fail(size_t place, const std::string& message) {
    result_.records[flights_[place]->index].error = message;
    flights_[place] = nullptr;
    ++num_done_;
  }

  const Address& address_;
  const std::vector<std::string>& requests_;
  const std::vector<double>& arrivals_;
  LoadOptions options_;
  LoadResult result_;
  double begin_ = 0.0;
  size_t next_ = 0;
  size_t num_done_ = 0;
  int64_t num_finished_tokens_ = 0;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<pollfd> polls_;  // [flights]
  std::vector<Socket> idle_;   // open connections for reuse
  std::string body_;
};

}  // namespace

std::vector<double> arrival_times(size_t count, double rate, double burstiness, uint64_t seed) {
  std::vector<double> times(count, 0.0);
  if (!std::isfinite(rate) || count == 0) return times;
  std::mt19937_64 engine(seed);
  std::gamma_distribution<double> gaps(burstiness, 1.0 / (rate * burstiness));
  double sum = 0.0;
  for (auto& time : times) time = sum += gaps(engine);
  if (sum > 0.0) {
    for (auto& time : times) time *= static_cast<double>(count) / rate / sum;
  }
  return times;
}

void StreamRecorder::feed(std::string_view bytes, double now) {
  events_.feed(bytes, [&](const std::string& data) { take_event(data, now); });
}

void StreamRecorder::take_event(const std::string& data, double now) {
  if (data == "[DONE]") return;
  const json event = json::parse(data, nullptr, false);
  if (!event.is_object()) {
    record_.error =
        cat("the stream contains an event that is not a JSON object: ", data.substr(0, kMaxErrorBytes));
    return;
  }
  if (const auto error = event.find("error"); error != event.end() && !error->is_null()) {
    record_.error = error_message(200, data);
    return;
  }
  if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
    has_usage_ = true;
    record_.prompt_tokens = std::max<int64_t>(0, count_of(*usage, "prompt_tokens"));
    record_.output_tokens = std::max<int64_t>(0, count_of(*usage, "completion_tokens"));
    const auto details = usage->find("prompt_tokens_details");
    if (details != usage->end() && details->is_object()) {
      record_.cached_tokens = std::max<int64_t>(0, count_of(*details, "cached_tokens"));
    }
  }
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array() || choices->empty() || !choices->front().is_object())
    return;
  // The first chunk of a chat has only the role and the last only the finish reason; they contain no token.
  // A completions chunk with empty text is counted, because its token may be an incomplete character.
  const json& choice = choices->front();
  const bool ended = choice.contains("finish_reason") && !choice["finish_reason"].is_null();
  const bool completion = choice.contains("text");
  if (!says_something(choice) && (ended || !completion)) {
    // An output without any text still needs one chunk time, for its TTFT.
    if (ended && record_.chunk_times.empty()) {
      record_.chunk_times.push_back(now);
      record_.chunk_tokens.push_back(0);
    }
    return;
  }
  record_.chunk_times.push_back(now);
  record_.chunk_tokens.push_back(0);
}

void StreamRecorder::finish(int status, const std::string& body) {
  if (!record_.error.empty()) return;
  if (status != 200) {
    record_.error = error_message(status, body);
  } else if (record_.chunk_times.empty()) {
    record_.error = cat("expected an event stream, got: ", body.substr(0, kMaxErrorBytes));
  } else if (!has_usage_ || record_.output_tokens == 0) {
    record_.output_tokens = static_cast<int64_t>(record_.chunk_times.size());
  }
}

std::string error_message(int status, const std::string& body) {
  const json object = json::parse(body, nullptr, false);
  std::string message = body.substr(0, kMaxErrorBytes);
  if (object.is_object()) {
    const auto error = object.find("error");
    const json& holder = error != object.end() && error->is_object() ? *error : object;
    const auto text = holder.find("message");
    if (text != holder.end() && text->is_string()) {
      message = text->get<std::string>();
    } else if (error != object.end() && error->is_string()) {
      message = error->get<std::string>();
    }
  }
  return status == 200 ? message : cat("HTTP ", status, ": ", message);
}

LoadResult run_load(const Address& address, const std::vector<std::string>& requests,
                    const std::vector<double>& arrivals, const LoadOptions& options,
                    const std::function<void(const LoadProgress&)>& on_progress) {
  allow_connections(options.max_concurrency == 0 ? requests.size()
                                                 : std::min(requests.size(), options.max_concurrency));
  return Load(address, requests, arrivals, options).run(on_progress);
}

}  // namespace quire::cli
