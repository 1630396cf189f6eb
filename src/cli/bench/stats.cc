#include "cli/bench/stats.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>

#include "base/error.h"
#include "base/strings.h"

namespace quire::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kLabelWidth = 40;

template <typename T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

std::string padded(const std::string& text, size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string latency_row(const char* name, const LatencySummary& s) {
  std::string row = name;
  row.resize(8, ' ');
  for (const double value : {s.mean, s.p50, s.p90, s.p99}) row += padded(fixed(value, 2), 12);
  return row + "\n";
}

}  // namespace

double RequestRecord::ttft() const {
  return chunk_times.empty() ? 0.0 : chunk_times.front() - begin;
}

double RequestRecord::e2e() const {
  return chunk_times.empty() ? 0.0 : chunk_times.back() - begin;
}

double RequestRecord::tpot() const {
  return output_tokens > 1 ? (e2e() - ttft()) / static_cast<double>(output_tokens - 1) : 0.0;
}

double percentile(const std::vector<double>& ascending, double q) {
  if (ascending.empty()) return 0.0;
  const double place = std::clamp(q, 0.0, 100.0) / 100.0 * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] + (ascending[above] - ascending[below]) * (place - static_cast<double>(below));
}

nlohmann::ordered_json summary_json(const LatencySummary& s) {
  return {{"mean", s.mean}, {"p50", s.p50}, {"p90", s.p90}, {"p99", s.p99}};
}

LatencySummary summarize(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {1e3 * sum / static_cast<double>(seconds.size()), 1e3 * percentile(seconds, 50),
          1e3 * percentile(seconds, 90), 1e3 * percentile(seconds, 99)};
}

LatencyReport latencies(const std::vector<RequestRecord>& records) {
  std::vector<double> ttft, tpot, itl, e2e;
  for (const auto& record : records) {
    if (!record.ok() || record.chunk_times.empty()) continue;
    ttft.push_back(record.ttft());
    e2e.push_back(record.e2e());
    if (record.output_tokens > 1) tpot.push_back(record.tpot());
    for (size_t i = 1; i < record.chunk_times.size(); ++i)
      itl.push_back(record.chunk_times[i] - record.chunk_times[i - 1]);
  }
  return {summarize(std::move(ttft)), summarize(std::move(tpot)), summarize(std::move(itl)),
          summarize(std::move(e2e))};
}

Objectives parse_objectives(const std::string& text) {
  Objectives objectives;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    at = end + 1;
    const size_t colon = part.find(':');
    const std::string name = part.substr(0, colon);
    const std::string number = colon == std::string::npos ? "" : part.substr(colon + 1);
    char* rest = nullptr;
    const double value = std::strtod(number.c_str(), &rest);
    if (number.empty() || *rest != '\0' || !std::isfinite(value) || value < 0.0) {
      throw Error(
          cat("'", part, "' is not a valid SLO; use for example ttft:500,tpot:50,e2e:10000 (milliseconds)"));
    }
    if (name == "ttft") {
      objectives.ttft = value;
    } else if (name == "tpot") {
      objectives.tpot = value;
    } else if (name == "e2e" || name == "e2el") {
      objectives.e2e = value;
    } else {
      throw Error(cat("'", name, "' is not a valid SLO; use ttft, tpot or e2e"));
    }
  }
  return objectives;
}

bool meets(const RequestRecord& record, const Objectives& o) {
  return record.ok() && (!o.ttft || 1e3 * record.ttft() <= *o.ttft) &&
         (!o.tpot || 1e3 * record.tpot() <= *o.tpot) && (!o.e2e || 1e3 * record.e2e() <= *o.e2e);
}

Phases& Phases::operator+=(const Phases& other) {
  prefill_tokens += other.prefill_tokens;
  decode_tokens += other.decode_tokens;
  prefill_s += other.prefill_s;
  decode_s += other.decode_s;
  return *this;
}

Phases phases_of(const std::vector<RequestRecord>& batch) {
  Phases phases;
  double begin = 0.0, turn = 0.0, end = 0.0;
  bool first = true;
  for (const auto& record : batch) {
    if (!record.ok() || record.chunk_times.empty()) continue;
    begin = first ? record.begin : std::min(begin, record.begin);
    turn = std::max(turn, record.chunk_times.front());
    end = std::max(end, record.chunk_times.back());
    phases.prefill_tokens += record.prompt_tokens - record.cached_tokens;
    first = false;
  }
  for (const auto& record : batch) {
    if (!record.ok()) continue;
    for (size_t i = 0; i < record.chunk_times.size(); ++i) {
      if (record.chunk_times[i] > turn) phases.decode_tokens += record.chunk_tokens[i];
    }
  }
  phases.prefill_s = turn - begin;
  phases.decode_s = end - turn;
  return phases;
}

void add_records(BenchReport& report, const std::vector<RequestRecord>& records) {
  for (const auto& record : records) {
    if (!record.ok()) continue;
    ++report.num_requests;
    report.prompt_tokens += record.prompt_tokens;
    report.output_tokens += record.output_tokens;
  }
  report.latency = latencies(records);
}

ordered_json to_json(const BenchReport& r) {
  return {{"model", r.model},
          {"dtype", or_null(r.dtype)},
          {"quantization", or_null(r.quantization)},
          {"threads", or_null(r.threads)},
          {"batch_size", or_null(r.batch_size)},
          {"input_len", r.input_len},
          {"output_len", r.output_len},
          {"num_requests", r.num_requests},
          {"elapsed_s", r.elapsed_s},
          {"prefill_tokens_per_s", r.prefill_tokens_per_s},
          {"decode_tokens_per_s", r.decode_tokens_per_s},
          {"output_tokens_per_s", r.per_second(r.output_tokens)},
          {"total_tokens_per_s", r.per_second(r.prompt_tokens + r.output_tokens)},
          {"requests_per_s", r.per_second(r.num_requests)},
          {"prompt_tokens", r.prompt_tokens},
          {"output_tokens", r.output_tokens},
          {"load_s", or_null(r.load_s)},
          {"peak_memory_bytes", or_null(r.peak_memory_bytes)},
          {"weight_bytes", or_null(r.weight_bytes)},
          {"ttft_ms", summary_json(r.latency.ttft)},
          {"tpot_ms", summary_json(r.latency.tpot)},
          {"itl_ms", summary_json(r.latency.itl)},
          {"e2e_ms", summary_json(r.latency.e2e)}};
}

std::string table_line(const std::string& label, const std::string& value) {
  std::string line = label + ":";
  if (line.size() < kLabelWidth) line.resize(kLabelWidth, ' ');
  return line + padded(value, 20) + "\n";
}

std::string to_table(const BenchReport& r, const std::string& title, const std::vector<std::string>& extra) {
  std::string out = "== " + title + " ==\n";
  const std::optional<std::string>& format = r.quantization ? r.quantization : r.dtype;
  out += table_line("Model", format ? r.model + " (" + *format + ")" : r.model);
  if (r.threads) out += table_line("Threads", cat(*r.threads));
  if (r.batch_size) out += table_line("Batch size", cat(*r.batch_size));
  out += table_line("Requests done", cat(r.num_requests));
  for (const auto& line : extra) out += line;
  out += table_line("Time (s)", fixed(r.elapsed_s, 3));
  out += table_line("Prompt tokens", cat(r.prompt_tokens));
  out += table_line("Output tokens", cat(r.output_tokens));
  out += table_line("Requests/s", fixed(r.per_second(r.num_requests), 2));
  out += table_line("Output tokens/s", fixed(r.per_second(r.output_tokens), 2));
  out += table_line("Total tokens/s", fixed(r.per_second(r.prompt_tokens + r.output_tokens), 2));
  out += table_line("Prefill tokens/s", fixed(r.prefill_tokens_per_s, 2));
  out += table_line("Decode tokens/s (all sequences)", fixed(r.decode_tokens_per_s, 2));
  if (r.load_s) out += table_line("Load (s)", fixed(*r.load_s, 3));
  if (r.weight_bytes) out += table_line("Weights", format_bytes(*r.weight_bytes));
  if (r.peak_memory_bytes) out += table_line("Peak memory", format_bytes(*r.peak_memory_bytes));
  out += "ms              mean         p50         p90         p99\n";
  out += latency_row("TTFT", r.latency.ttft);
  out += latency_row("TPOT", r.latency.tpot);
  out += latency_row("ITL", r.latency.itl);
  out += latency_row("E2E", r.latency.e2e);
  return out;
}

void print_report(const std::string& table, const std::string& json_path, const ordered_json& object) {
  const std::string text = object.dump(2, ' ', false, ordered_json::error_handler_t::replace);
  if (json_path == "-") {
    std::cout << text << std::endl;
    return;
  }
  std::cout << table << std::flush;
  if (json_path.empty()) return;
  write_text(json_path, text + "\n");
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw Error(cat("cannot write ", path));
}

int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;  // ru_maxrss is in KiB on Linux
}

}  // namespace quire::cli
