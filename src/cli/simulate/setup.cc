// Builds the input of a simulation: model shape, KV pool, trace, cost model.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/bench/dataset.h"
#include "cli/bench/offline.h"
#include "cli/bench/steps.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "cli/simulate/simulate.h"
#include "engine/loader.h"
#include "text/chat/messages.h"

namespace quire::cli {
namespace {

constexpr int64_t kDefaultDrawn = 1000;  // synthetic requests
constexpr double kMeasureSeconds = 20.0;
constexpr int64_t kMaxBlocks = int64_t{1} << 24;

double parse_rate(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  char* rest = nullptr;
  const double rate = std::strtod(text.c_str(), &rest);
  if (text.empty() || *rest != '\0' || !(rate > 0.0) || !std::isfinite(rate))
    throw Error(cat("--request-rate '", text,
                    "' is not a valid rate; use requests per second, or inf for all at once"));
  return rate;
}

// A trace of lengths has "input_length" in its first line; other JSON lines files contain prompts.
bool is_length_trace(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line) && line.find_first_not_of(" \t\r") == std::string::npos) {
  }
  const auto object = nlohmann::json::parse(line, nullptr, false);
  return object.is_object() && object.contains("input_length");
}

// The texts of a conversation; empty if there is none.
std::vector<std::string> texts_of_chat(const std::string& chat) {
  std::vector<std::string> texts;
  const auto fields = parse_request_json(chat, "the conversation");
  if (!fields.ok()) return texts;
  for (const Json& message : fields->at("messages")) {
    const Json& content = message.contains("content") ? message["content"] : Json();
    if (content.is_string()) texts.push_back(content.get<std::string>());
    if (!content.is_array()) continue;
    for (const Json& part : content)
      texts.push_back(part.is_string() ? part.get<std::string>() : part.value("text", ""));
  }
  return texts;
}

// Reads texts (ShareGPT, prompts) and counts their tokens with MODEL's tokenizer. The simulated prompts share
// no prefixes.
sim::Trace read_texts(const SimulateFlags& flags, int64_t max_requests) {
  const auto tokenizer = load_text(flags.config.model, "", flags.config.revision).tokenizer;
  DatasetOptions options;
  options.num_prompts = max_requests;
  options.output_len = static_cast<int32_t>(flags.distribution.output_mean);
  const auto count = [&](const std::string& text) {
    if (tokenizer == nullptr) return static_cast<int64_t>(text.size() / 4);
    return static_cast<int64_t>(tokenizer->encode(text, false).size());
  };
  sim::Trace trace;
  for (const BenchRequest& request : read_dataset(flags.trace, options, count)) {
    sim::TraceRequest& added = trace.requests.emplace_back();
    int64_t length = request.input_len;
    if (length == 0) length = count(request.text);
    for (const std::string& text : texts_of_chat(request.chat)) length += count(text);
    added.input_len = static_cast<int32_t>(std::max<int64_t>(1, length));
    added.output_len = request.output_len;
  }
  return trace;
}

sim::Trace read_trace(const SimulateFlags& flags) {
  const int64_t max_requests = flags.num_requests > 0 ? flags.num_requests : sim::kAllRequests;
  sim::Trace trace;
  if (flags.trace.empty()) {
    sim::Distribution distribution = flags.distribution;
    distribution.num_requests = flags.num_requests > 0 ? flags.num_requests : kDefaultDrawn;
    if (flags.config.max_model_len > 0) distribution.max_len = flags.config.max_model_len;
    trace = sim::draw_trace(distribution, flags.config.seed);
  } else if (flags.trace.ends_with(".csv")) {
    trace = sim::read_csv_trace(flags.trace, max_requests, flags.request_rate.empty());
  } else if (flags.trace.ends_with(".jsonl") && is_length_trace(flags.trace)) {
    trace = sim::read_jsonl_trace(flags.trace, max_requests);
  } else {
    trace = read_texts(flags, max_requests);
  }
  if (!flags.request_rate.empty() || !trace.has_times) {
    const double rate = flags.request_rate.empty() ? 1.0 : parse_rate(flags.request_rate);
    sim::set_arrivals(trace, rate, flags.burstiness, flags.config.seed);
  }
  sim::speed_up(trace, flags.speed);
  return trace;
}

// Returns the maximum sequence length: --max-model-len, otherwise what the trace needs, even if that exceeds
// MODEL's limit.
int32_t choose_max_len(const SimulateFlags& flags, const ModelReport& model, const sim::Trace& trace) {
  if (flags.config.max_model_len > 0) return flags.config.max_model_len;
  const int32_t longest = trace.longest();
  if (longest <= model.max_model_len) return static_cast<int32_t>(model.max_model_len);
  log_info("the longest request of the trace has ", longest, " tokens, more than the ", model.max_model_len,
           " of ", model.name, "; simulating without that limit (--max-model-len truncates requests)");
  return longest;
}

// Returns MODEL's KV layout, or one with --kv-bytes-per-token.
KvLayout choose_layout(const SimulateFlags& flags, const ModelReport& model) {
  KvLayout layout = model.kv_layout;
  if (flags.kv_bytes_per_token > 0) {
    layout = KvLayout{.block_size = flags.config.block_size};
    layout.bytes_per_block = flags.kv_bytes_per_token * layout.block_size;
  }
  if (model.state_bytes > 0 && flags.kv_bytes_per_token == 0 &&
      (flags.memory != sim::MemoryManager::kPaged || flags.compare_memory)) {
    throw Error(
        "the model has recurrent state, which only --memory paged supports; use --kv-bytes-per-token to "
        "simulate a model without it");
  }
  int64_t blocks = flags.num_kv_blocks;
  if (blocks == 0) blocks = model.kv_memory / layout.bytes_per_block;
  if (blocks < 1) {
    throw Error(cat("a KV block of ", layout.block_size, " tokens needs ",
                    format_bytes(layout.bytes_per_block), ", but the KV pool has ",
                    format_bytes(model.kv_memory), "; increase --kv-cache-memory"));
  }
  layout.num_blocks = static_cast<int32_t>(std::min(blocks, kMaxBlocks));
  return layout;
}

// Loads MODEL and measures its steps on this machine.
sim::CostModel measure_cost_model(const SimulateFlags& flags) {
  const std::unique_ptr<Engine> engine = start_engine(flags.config);
  log_info("measuring steps of ", engine->model().name,
           "; to measure only once, use `quire bench steps --json FILE` and --cost-model FILE");
  ProgressBar bar("Measuring");
  StepGrid grid;
  grid.max_seconds = kMeasureSeconds;
  const auto steps = measure_steps(*engine, grid, flags.config.seed, [&](double done) { bar.update(done); });
  return sim::CostModel(sim::fit_linear(steps));
}

}  // namespace

SimulateSetup make_setup(const SimulateFlags& flags) {
  SimulateSetup setup;
  setup.objectives = parse_objectives(flags.goodput);
  if (flags.ttft_slo_ms) setup.objectives.ttft = flags.ttft_slo_ms;
  if (flags.tpot_slo_ms) setup.objectives.tpot = flags.tpot_slo_ms;
  fetch_with_progress(flags.config);
  setup.model = inspect_model(flags.config);
  // With --num-params the report must not name MODEL.
  if (flags.num_params > 0.0) setup.model.name = cat(fixed(flags.num_params / 1e9, 1), "G parameters");
  setup.trace = read_trace(flags);
  setup.trace_name = flags.trace.empty() ? "distribution" : flags.trace.substr(flags.trace.rfind('/') + 1);
  const EngineConfig& config = flags.config;
  SchedulerConfig scheduler = scheduler_config(config);
  scheduler.max_model_len = choose_max_len(flags, setup.model, setup.trace);
  // If all requests arrive at once, the queue limit must not reject them.
  setup.options.replica.max_num_queued_requests =
      setup.trace.duration() <= 0.0 ? std::numeric_limits<int32_t>::max() : config.max_num_queued_requests;
  setup.options.replica.scheduler = scheduler;
  setup.options.replica.layout = choose_layout(flags, setup.model);
  setup.options.replica.num_samples = flags.num_samples;
  setup.options.replica.memory = flags.memory;
  setup.options.replica.allocator = flags.allocator;
  setup.options.num_replicas = flags.replicas;
  setup.options.routing = flags.routing;
  setup.num_cut = sim::cut_lengths(setup.trace, scheduler.max_model_len);
  if (setup.num_cut > 0) {
    log_warning(setup.num_cut, " of ", counted(static_cast<int64_t>(setup.trace.requests.size()), "request"),
                " truncated to ", scheduler.max_model_len, " tokens (--max-model-len)");
  }
  return setup;
}

sim::CostModel make_cost_model(const SimulateFlags& flags, const ModelReport& model) {
  if (!flags.cost_model.empty()) return sim::read_cost_model(flags.cost_model);
  if (flags.flops <= 0.0 && flags.bandwidth <= 0.0) return measure_cost_model(flags);
  sim::RooflineCost cost;
  cost.flops = flags.flops;
  cost.bandwidth = flags.bandwidth;
  cost.overhead = flags.step_overhead_ms / 1e3;
  // The input embedding is a lookup and costs no operations, unless it is also the output matrix.
  const double embedding =
      model.tied_embeddings ? 0.0 : static_cast<double>(model.vocab_size * model.hidden_size);
  const double params =
      flags.num_params > 0.0 ? flags.num_params : static_cast<double>(model.num_parameters) - embedding;
  cost.flops_per_token = 2.0 * params;
  const double width = flags.attention_width > 0.0
                           ? flags.attention_width
                           : static_cast<double>(model.num_layers) * model.num_heads * model.head_dim;
  cost.flops_per_pair = 4.0 * width;
  cost.weight_bytes = flags.weight_bytes > 0.0 ? flags.weight_bytes : static_cast<double>(model.weight_bytes);
  cost.kv_bytes_per_token =
      static_cast<double>(flags.kv_bytes_per_token > 0 ? flags.kv_bytes_per_token : model.kv_bytes_per_token);
  if (flags.kv_bytes_per_token == 0) cost.state_bytes = 2.0 * static_cast<double>(model.state_bytes);
  return sim::CostModel(cost);
}

}  // namespace quire::cli
