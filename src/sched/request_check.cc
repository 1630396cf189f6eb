#include "sched/request_check.h"

#include <algorithm>
#include <string>

#include "base/counted.h"
#include "base/strings.h"

namespace quire {

namespace {

Status check_prompt(const Request& request, const SchedulerConfig& config) {
  const auto num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  if (Status status = check_prompt_length(num_prompt, request.sampling->max_tokens > 0, config.max_model_len);
      !status.ok()) {
    return status;
  }
  if (config.whole_prompts && num_prompt > config.max_num_batched_tokens) {
    return invalid_argument(cat("The prompt has ", counted(num_prompt, "token"),
                                "; this model computes a prompt in one step, of at most ",
                                config.max_num_batched_tokens, " (--max-num-batched-tokens)."),
                            "prompt");
  }
  return {};
}

Status check_samples(const SamplingParams& sampling, const SchedulerConfig& config) {
  const int32_t width = sampling.num_sequences();
  const bool beams = sampling.use_beam_search;
  const int32_t limit =
      beams ? std::min(config.max_num_seqs, config.max_num_batched_tokens) : config.max_num_seqs;
  if (width <= limit) return {};
  const char* name = width > sampling.n ? "best_of" : "n";
  return invalid_argument(cat(name, " is ", width, "; at most ", counted(limit, beams ? "beam" : "sample"),
                              limit == 1 ? " runs" : " run", " at once (--max-num-seqs",
                              beams ? ", --max-num-batched-tokens" : "", ")."),
                          name);
}

// Checks the blocks of the longest sample when it runs alone. Its last token is sampled and never computed.
Status check_blocks(const Request& request, const SchedulerConfig& config, const KvManager& kv) {
  const SamplingParams& sampling = *request.sampling;
  const auto num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  const int64_t num_tokens = std::min<int64_t>(num_prompt + sampling.max_tokens, config.max_model_len);
  const int64_t num_computed = sampling.max_tokens > 0 ? num_tokens - 1 : num_tokens;
  int64_t needed = kv.max_blocks(num_computed, config.max_num_batched_tokens);
  if (sampling.use_beam_search) {
    // Beams run together, and in the worst case share only the prompt's blocks in full groups. The chunks of
    // one step add up to max_num_batched_tokens: they are counted once, for the first beam. Each further beam
    // may begin its chunk in a block of its own.
    const int64_t shared = kv.num_full_groups() * (num_prompt / kv.block_size());
    const int64_t per_beam = kv.max_blocks(num_computed, 1 + kv.block_size()) - shared;
    needed += (sampling.num_sequences() - 1) * per_beam;
  }
  if (needed <= kv.num_blocks()) return {};
  const bool prompt_fits = kv.max_blocks(num_prompt, config.max_num_batched_tokens) <= kv.num_blocks();
  return invalid_argument(
      cat("The prompt of ", counted(num_prompt, "token"), " with max_tokens ", sampling.max_tokens,
          sampling.use_beam_search
              ? cat(" and ", counted(sampling.num_sequences(), "beam"), " that run together")
              : std::string(),
          " needs ", counted(needed, "block"), " of ", counted(kv.block_size(), "token"),
          "; the KV cache has ", kv.num_blocks(), " (--kv-cache-memory)."),
      sampling.max_tokens > 0 && prompt_fits ? "max_tokens" : "prompt");
}

}  // namespace

Status check_request(const Request& request, const SchedulerConfig& config, const KvManager& kv) {
  if (Status status = check_prompt(request, config); !status.ok()) return status;
  if (Status status = check_samples(*request.sampling, config); !status.ok()) return status;
  return check_blocks(request, config, kv);
}

}  // namespace quire
