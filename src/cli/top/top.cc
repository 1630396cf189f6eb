// quire top: a live view of a running server.
#include <poll.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
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
#include "cli/top/server_metrics.h"

namespace quire::cli {
namespace {

constexpr double kTimeout = 5.0;  // seconds per scrape
constexpr double kWindow = 60.0;  // latencies and hit rate are those of the last minute
constexpr int kBarWidth = 30;
constexpr size_t kMaxRates = 200;

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
          {"p50", 1e3 * latency->p50},
          {"p90", 1e3 * latency->p90},
          {"p99", 1e3 * latency->p99}};
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

std::string text_of(const std::optional<double>& value, int decimals) {
  return value ? fixed(*value, decimals) : "-";
}

std::string right_aligned(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string latency_row(const std::string& name, const std::optional<HistogramSummary>& latency) {
  std::string row = name + std::string(14 - name.size(), ' ');
  if (!latency) return row + "        -";
  for (const double seconds : {latency->mean, latency->p50, latency->p90, latency->p99})
    row += right_aligned(fixed(1e3 * seconds, 1), 9);
  return row;
}

std::string bar(double fraction) {
  const auto filled = static_cast<size_t>(std::lround(std::clamp(fraction, 0.0, 1.0) * kBarWidth));
  return "[" + std::string(filled, '#') + std::string(kBarWidth - filled, '.') + "]";
}

// The latest values as columns of block characters, scaled to the largest of them.
std::string chart(const std::deque<double>& values, size_t width) {
  static constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string out;
  const double largest = values.empty() ? 0.0 : *std::ranges::max_element(values);
  const size_t shown = std::min(width, values.size());
  for (size_t i = values.size() - shown; i < values.size(); ++i)
    out += kBlocks[largest > 0.0 ? std::lround(8.0 * values[i] / largest) : 0];
  return out;
}

// The lines of the view.
std::vector<std::string> view(const std::string& model, const ServerActivity& a, const std::string& period) {
  std::vector<std::string> lines;
  lines.push_back("Model         " + without_controls(model));
  lines.push_back(cat("Requests      ", text_of(a.running, 0), " running, ", text_of(a.waiting, 0),
                      " waiting, ", text_of(a.finished, 0), " finished (", text_of(a.request_rate, 1),
                      "/s)"));
  lines.push_back(cat("KV cache      ",
                      a.kv_usage ? bar(*a.kv_usage) + " " + fixed(100.0 * *a.kv_usage, 1) + " %" : "-", ", ",
                      text_of(a.preemptions, 0), " preemptions"));
  lines.push_back(cat("Prefix cache  ",
                      a.prefix_hit_rate ? fixed(100.0 * *a.prefix_hit_rate, 1) + " %" : std::string("-"),
                      " hit rate"));
  lines.push_back(cat("Prompt        ", text_of(a.prompt_rate, 1), " tokens/s"));
  lines.push_back(cat("Generation    ", text_of(a.generation_rate, 1), " tokens/s"));
  lines.emplace_back();
  lines.push_back("Latency (ms)       mean      p50      p90      p99   " + period);
  lines.push_back(latency_row("TTFT", a.ttft));
  lines.push_back(latency_row("TPOT", a.tpot));
  lines.push_back(latency_row("ITL", a.itl));
  lines.push_back(latency_row("End to end", a.e2e));
  lines.push_back(latency_row("Queue", a.queue));
  return lines;
}

// Takes over the terminal: alternate screen, no echo, and keys and signals as file descriptors. The
// destructor restores it.
class Screen {
 public:
  Screen() {
    tcgetattr(STDIN_FILENO, &original_);
    termios keys = original_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    signal_fd_ = signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK);
    std::cout << "\x1b[?1049h\x1b[?25l" << std::flush;
  }
  ~Screen() {
    std::cout << "\x1b[?25h\x1b[?1049l" << std::flush;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &original_);
    if (signal_fd_ >= 0) close(signal_fd_);
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Draws the lines that fit.
  void draw(const std::vector<std::string>& lines) const {
    const TerminalSize size = terminal_size(STDOUT_FILENO);
    std::string out = "\x1b[H";
    for (size_t i = 0; i < std::min(lines.size(), static_cast<size_t>(size.rows)); ++i) {
      std::string_view left = lines[i];
      int column = 0;
      if (i > 0) out += "\r\n";
      while (!left.empty()) {
        const std::string_view character = left.substr(0, character_bytes(left));
        column += display_width(character);
        if (column > size.columns) break;
        out += character;
        left.remove_prefix(character.size());
      }
      if (column < size.columns) out += "\x1b[K";
    }
    std::cout << out << "\x1b[J" << std::flush;
  }

  enum class Event { kTime, kResize, kQuit };
  // Waits for a key, a signal, or until the monotonic time `end`.
  Event wait(double end) const {
    while (true) {
      const double left = end - monotonic_seconds();
      if (left <= 0.0) return Event::kTime;
      pollfd inputs[] = {{STDIN_FILENO, POLLIN, 0}, {signal_fd_, POLLIN, 0}};
      if (poll(inputs, 2, static_cast<int>(std::ceil(1e3 * left))) <= 0) continue;
      if (inputs[0].revents != 0) {
        char key = 0;
        if (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q' || key == '\x03')
          return Event::kQuit;
      }
      if (inputs[1].revents != 0) {
        signalfd_siginfo info{};
        if (read(signal_fd_, &info, sizeof info) != sizeof info) continue;
        return info.ssi_signo == SIGWINCH ? Event::kResize : Event::kQuit;
      }
    }
  }

 private:
  termios original_{};
  sigset_t signals_{};
  int signal_fd_ = -1;
};

std::string clock_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%H:%M:%S", &parts)};
}

int run_live(const TopFlags& flags, const Scraper& scraper) {
  std::deque<ServerMetrics> scrapes{scraper.scrape()};  // the last minute, oldest first
  std::deque<double> rates;
  std::vector<std::string> lines;
  Screen screen;
  while (true) {
    const ServerMetrics& now = scrapes.back();
    const ServerMetrics& previous = scrapes.size() > 1 ? scrapes[scrapes.size() - 2] : now;
    ServerActivity activity = activity_of(scrapes.front(), previous, now);
    // A server that was idle shows the latencies since its start.
    const bool recent = activity.ttft || activity.e2e;
    if (!recent) activity = activity_of({}, previous, now);
    if (activity.generation_rate) rates.push_back(*activity.generation_rate);
    if (rates.size() > kMaxRates) rates.pop_front();
    lines = view(now.model, activity, recent ? "last minute" : "since the start of the server");
    lines.insert(lines.begin() + 6, "              " + chart(rates, 60));
    lines.insert(lines.begin(), {cat("quire top  ", flags.url, "  ", clock_text()), ""});
    lines.insert(lines.end(), {"", "q: quit"});
    for (bool scraped = false; !scraped;) {
      screen.draw(lines);
      Screen::Event event;
      const double next = monotonic_seconds() + flags.interval;
      while ((event = screen.wait(next)) == Screen::Event::kResize) screen.draw(lines);
      if (event == Screen::Event::kQuit) return 0;
      try {
        scrapes.push_back(scraper.scrape());
        scraped = true;
      } catch (const Error& error) {
        lines.back() = cat("q: quit   [", clock_text(), "] ", error.what());
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
      for (const std::string& line : view(now.model, activity, "since the start of the server"))
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
