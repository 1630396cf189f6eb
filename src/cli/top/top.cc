// quire top: a live view of a running server.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "cli/bench/http_client.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/terminal.h"
#include "cli/top/screen.h"
#include "cli/top/server_metrics.h"
#include "cli/top/view.h"

namespace quire::cli {
namespace {

constexpr double kTimeout = 5.0;  // seconds per scrape
constexpr double kWindow = 60.0;  // latencies and hit rate are those of the last minute

struct TopFlags {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;
  double interval = 1.0;
  bool once = false;
  bool json = false;
};

// Reads the metrics of one server.
class Scraper {
 public:
  explicit Scraper(const TopFlags& flags) : url_(parse_url(flags.url)), address_(url_), url_text_(flags.url) {
    HttpHeaders headers;
    if (!flags.api_key.empty()) headers.emplace_back("Authorization", "Bearer " + flags.api_key);
    request_ = request_text(url_, "GET", "/metrics", headers, "");
  }
  // Throws Error if the server cannot be reached or has no metrics.
  ServerMetrics scrape() const {
    const HttpResponse response = get();
    if (response.status == 401 || response.status == 403)
      throw Error("the server refuses /metrics without a valid API key; use --api-key or QUIRE_API_KEY");
    if (response.status != 200) throw Error(cat("GET /metrics returned status ", response.status));
    return parse_metrics(response.body, monotonic_seconds());
  }

 private:
  Url url_;
  Address address_;
  HttpResponse get() const {
    try {
      return http_request(address_, request_, kTimeout);
    } catch (const Error& error) {
      throw Error(cat("cannot read ", url_text_, "/metrics: ", error.what()));
    }
  }

  std::string url_text_;
  std::string request_;
};

nlohmann::ordered_json json_or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json latency_json(const std::optional<HistogramSummary>& latency) {
  if (!latency) return nullptr;
  return {{"mean", 1e3 * latency->mean},
          {"p50", 1e3 * latency->p50.value},
          {"p90", 1e3 * latency->p90.value},
          {"p99", 1e3 * latency->p99.value}};
}

std::string json_line(const TopFlags& flags, const std::string& model, const ServerActivity& a) {
  const nlohmann::ordered_json object = {{"url", flags.url},
                                         {"model", model},
                                         {"requests_running", json_or_null(a.running)},
                                         {"requests_waiting", json_or_null(a.waiting)},
                                         {"requests_finished", json_or_null(a.finished)},
                                         {"requests_per_s", json_or_null(a.request_rate)},
                                         {"kv_cache_usage", json_or_null(a.kv_usage)},
                                         {"prefix_cache_hit_rate", json_or_null(a.prefix_hit_rate)},
                                         {"num_preemptions", json_or_null(a.preemptions)},
                                         {"prompt_tokens_per_s", json_or_null(a.prompt_rate)},
                                         {"generation_tokens_per_s", json_or_null(a.generation_rate)},
                                         {"ttft_ms", latency_json(a.ttft)},
                                         {"tpot_ms", latency_json(a.tpot)},
                                         {"itl_ms", latency_json(a.itl)},
                                         {"e2e_ms", latency_json(a.e2e)},
                                         {"queue_ms", latency_json(a.queue)}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string clock_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%H:%M:%S", &parts)};
}

int run_live(const TopFlags& flags, const Scraper& scraper) {
  std::deque<ServerMetrics> scrapes{scraper.scrape()};  // the last minute, oldest first
  TopHistory history;
  std::string error;
  const bool colors = has_styles(STDOUT_FILENO);
  Screen screen;
  while (true) {
    const ServerMetrics& now = scrapes.back();
    const ServerMetrics& previous = scrapes.size() > 1 ? scrapes[scrapes.size() - 2] : now;
    ServerActivity activity = activity_of(scrapes.front(), previous, now);
    // A server that was idle shows the latencies since its start.
    const bool recent = activity.ttft || activity.e2e;
    if (!recent) activity = activity_of({}, previous, now);
    history.add(activity);
    const std::string read_at = clock_text();
    for (bool scraped = false; !scraped;) {
      const auto draw = [&] {
        const ViewStyle style{terminal_size(STDOUT_FILENO).columns, colors};
        std::vector<std::string> lines = {cat("quire top  ", flags.url, "  ", read_at), ""};
        for (std::string& line :
             server_view(now.model, activity, recent ? "last minute" : "since the start of the server", style,
                         &history))
          lines.push_back(std::move(line));
        lines.emplace_back();
        lines.push_back(error.empty() ? "q: quit"
                        : colors      ? cat("q: quit   \x1b[31m", error, "\x1b[0m")
                                      : cat("q: quit   ", error));
        screen.draw(lines);
      };
      draw();
      Screen::Event event;
      const double next = monotonic_seconds() + flags.interval;
      while ((event = screen.wait(next)) == Screen::Event::kResize) draw();
      if (event == Screen::Event::kQuit) return 0;
      try {
        scrapes.push_back(scraper.scrape());
        scraped = true;
        error.clear();
      } catch (const Error& failure) {
        error = cat("[", clock_text(), "] ", without_controls(failure.what()));
      }
    }
    while (scrapes.back().time - scrapes.front().time > kWindow && scrapes.size() > 2) scrapes.pop_front();
  }
}

int run_top(TopFlags flags) {
  if (const char* key = std::getenv("QUIRE_API_KEY"); key != nullptr && flags.api_key.empty())
    flags.api_key = key;
  const auto unprintable = [](unsigned char c) { return c <= 0x20 || c >= 0x7F; };
  if (std::ranges::any_of(flags.api_key, unprintable))
    throw Error("--api-key: the key contains spaces or characters that are not ASCII");
  const Scraper scraper(flags);
  const bool live = !flags.once && !flags.json && is_terminal(STDIN_FILENO) && has_escapes(STDOUT_FILENO);
  if (live) return run_live(flags, scraper);
  ServerMetrics previous = scraper.scrape();
  do {
    poll(nullptr, 0, static_cast<int>(1e3 * flags.interval));
    const ServerMetrics now = scraper.scrape();
    const ServerActivity activity = activity_of({}, previous, now);
    if (flags.json) {
      std::cout << json_line(flags, now.model, activity) << std::endl;
    } else {
      const ViewStyle style{.colors = has_styles(STDOUT_FILENO)};
      for (const std::string& line :
           server_view(now.model, activity, "since the start of the server", style, nullptr))
        std::cout << line << "\n";
    }
    previous = now;
  } while (flags.json && !flags.once && std::cout);
  return 0;
}

}  // namespace

void add_top(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "top", "Show what a running server does: quire or vLLM");
  auto flags = std::make_shared<TopFlags>();
  command->add_option("URL", flags->url, "Address of the server (default: http://127.0.0.1:8000)")
      ->type_name("")
      ->default_str("");
  command->add_option("--api-key", flags->api_key, "API key of the server (default: QUIRE_API_KEY)")
      ->type_name("TEXT");
  command->add_option("--interval", flags->interval, "Time between two readings of /metrics")
      ->transform(duration())
      ->check(CLI::Range(0.1, 3600.0).description(""));
  command->add_flag("--once", flags->once, "Print one snapshot, with rates over one interval, and exit");
  command->add_flag("--json", flags->json, "Print one JSON object per interval");
  command->callback([flags, &exit_code] { exit_code = run_top(*flags); });
}

}  // namespace quire::cli
