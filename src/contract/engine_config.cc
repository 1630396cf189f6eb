#include "contract/engine_config.h"

#include <limits>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "base/strings.h"

namespace quire {
namespace {

using Field = std::variant<int32_t EngineConfig::*, int64_t EngineConfig::*, double EngineConfig::*>;

constexpr double kAny = std::numeric_limits<double>::infinity();

struct Range {
  std::string_view flag;
  Field field;
  double min;
  double max;
  std::string_view meaning_of_min;  // empty = it is a number like any other
};

constexpr Range kRanges[] = {
    {"--max-model-len", &EngineConfig::max_model_len, 0, kAny, "for the model's"},
    {"--block-size", &EngineConfig::block_size, 1, 1024, ""},
    {"--kv-cache-memory", &EngineConfig::kv_cache_memory, 0, kAny, "for the default"},
    {"--max-num-seqs", &EngineConfig::max_num_seqs, 1, 65536, ""},
    {"--max-num-batched-tokens", &EngineConfig::max_num_batched_tokens, 0, 1 << 20, "for the default"},
    {"--long-prefill-token-threshold", &EngineConfig::long_prefill_token_threshold, 0, kAny, "for no limit"},
    {"--max-num-partial-prefills", &EngineConfig::max_num_partial_prefills, 0, kAny, "for no limit"},
    {"--max-num-queued-reqs", &EngineConfig::max_num_queued_requests, 1, kAny, ""},
    {"--max-logprobs", &EngineConfig::max_logprobs, -1, kAny, "for the whole vocabulary"},
    {"--grammar-cache-size", &EngineConfig::grammar_cache_size, 0, kAny, "to keep only the last constraint"},
    {"--swap-space", &EngineConfig::swap_space, 0, kAny, "for none"},
    {"--kv-disk-cache-size", &EngineConfig::kv_disk_cache_size, 0, kAny, "for none"},
    {"--ttft-slo", &EngineConfig::ttft_slo, 0, kAny, "for none"},
    {"--tpot-slo", &EngineConfig::tpot_slo, 0, kAny, "for none"},
    {"--max-loras", &EngineConfig::max_loras, 1, kAny, ""},
    {"--lora-memory", &EngineConfig::lora_memory, 0, kAny, "for the default"},
    {"--max-cpu-loras", &EngineConfig::max_cpu_loras, 0, kAny, "for no limit"},
    {"--threads", &EngineConfig::threads, 0, 1023, "for the physical cores"},
};

std::string describe(const Range& range) {
  const bool special = !range.meaning_of_min.empty();
  const double first = special ? range.min + 1 : range.min;
  std::string text =
      range.max < kAny ? cat("must be ", first, " to ", range.max) : cat("must be at least ", first);
  if (special && range.max == kAny && std::holds_alternative<double EngineConfig::*>(range.field))
    text = "must be positive and finite";
  return special ? cat(text, ", or ", range.min, " ", range.meaning_of_min) : text;
}

}  // namespace

void check_config(const EngineConfig& config) {
  for (const Range& range : kRanges) {
    std::visit(
        [&](auto field) {
          const auto value = config.*field;
          const auto number = static_cast<double>(value);
          // Infinity is no time.
          if (number >= range.min && number <= range.max && number < kAny) return;
          throw Error(cat(range.flag, " is ", value, "; it ", describe(range), "."));
        },
        range.field);
  }
}

}  // namespace quire
