#include "sched/request_check.h"

#include <algorithm>
#include <string>

#include "base/strings.h"

namespace quire {

namespace {

Status check_prompt(const Request& request, const SchedulerConfig& config) {
  const auto num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  if (num_prompt == 0)
    return invalid_argument("The prompt is empty; it must have at least one token.", "prompt");
  if (num_prompt > config.max_model_len) {
    return invalid_argument(cat("The prompt has ", num_prompt, " tokens; the maximum is ",
                                config.max_model_len, " (--max-model-len)."),
                            "prompt");
  }
  if (config.whole_prompts && num_prompt > config.max_num_batched_tokens) {
    return invalid_argument(
        cat("The prompt has ", num_prompt, " tokens. This model computes a prompt in one step, of at most ",
            config.max_num_batched_tokens, " tokens (--max-num-batched-tokens)."),
        "prompt");
  }
  if (request.sampling->max_tokens > 0 && num_prompt == config.max_model_len) {
    return invalid_argument(cat("The prompt has ", num_prompt,
                                " tokens, which leaves no room for generated tokens: the maximum is ",
                                config.max_model_len, " together (--max-model-len)."),
                            "prompt");
  }
  return {};
}

Status check_samples(const SamplingParams& sampling, const SchedulerConfig& config) {
  if (sampling.max_tokens < 0) {
    return invalid_argument(cat("max_tokens is ", sampling.max_tokens, "; it must be 0 or more."),
                            "max_tokens");
  }
  if (sampling.n < 1) return invalid_argument(cat("n is ", sampling.n, "; it must be at least 1."), "n");
  if (const int32_t width = sampling.num_sequences(); sampling.use_beam_search) {
    const int32_t max_width = std::min(config.max_num_seqs, config.max_num_batched_tokens);
    if (width > max_width) {
      return invalid_argument(cat("The beam width is ", width, "; at most ", max_width,
                                  " beams run at once (--max-num-seqs, --max-num-batched-tokens)."),
                              width > sampling.n ? "best_of" : "n");
    }
    if (sampling.max_tokens < 1)
      return invalid_argument("max_tokens is 0; a beam search generates at least one token.", "max_tokens");
  }
  if (sampling.n > config.max_num_seqs) {
    return invalid_argument(
        cat("n is ", sampling.n, "; at most ", config.max_num_seqs, " samples run at once (--max-num-seqs)."),
        "n");
  }
  return {};
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
      cat("The prompt of ", num_prompt, " tokens with max_tokens ", sampling.max_tokens,
          sampling.use_beam_search ? cat(" and ", sampling.num_sequences(), " beams that run together")
                                   : std::string(),
          " needs ", needed, " blocks of ", kv.block_size(), " tokens; the KV cache has ", kv.num_blocks(),
          " (--kv-cache-memory)."),
      sampling.max_tokens > 0 && prompt_fits ? "max_tokens" : "prompt");
}

}  // namespace

Status check_request(const Request& request, const SchedulerConfig& config, const KvManager& kv) {
  if (Status status = check_prompt(request, config); !status.ok()) return status;
  if (Status status = check_samples(*request.sampling, config); !status.ok()) return status;
  if (request.priority != 0 && config.policy != SchedulingPolicy::kPriority) {
    return invalid_argument(
        cat("priority is ", request.priority, "; it must be 0 unless --scheduling-policy is priority."),
        "priority");
  }
  return check_blocks(request, config, kv);
}

}  // namespace quire
