#include "sample/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "base/rng.h"
#include "base/strings.h"
#include "sample/beam_search.h"
#include "sample/buffers.h"
#include "sample/logit_edits.h"
#include "sample/race.h"
#include "sample/select.h"
#include "sample/truncate.h"

namespace quire {
namespace {

constexpr uint32_t kBitsPerWord = 32;

// log sum exp of a row, as max + log(sum).
struct LogNorm {
  float max = 0.0F;
  double log_sum = 0.0;
  bool as_logits = false;  // LogprobsMode: logits are reported as they are

  float logprob(float logit) const {
    return as_logits ? logit : static_cast<float>(double{logit} - double{max} - log_sum);
  }
};

Failure not_numbers() {
  return {ErrorKind::kInternal,
          "The model's output is not a finite number for at least one token, so no token can be chosen.",
          {}};
}

Result<LogNorm> log_norm(std::span<const float> logits, SamplerBuffers& buffers) {
  const RowMax top = block_maxima(logits, buffers.block_max.data());
  if (!top.is_numbers || top.max == -std::numeric_limits<float>::infinity()) {
    return not_numbers();
  }
  return LogNorm{top.max, std::log(sum_exp(logits, top.max, 1.0F, buffers.block_sum.data()))};
}

// A row after masks, edits and truncation.
struct Filtered {
  LogNorm raw;
  Row row;
};

bool in_mask(TokenMask mask, size_t token) {
  return ((mask[token / kBitsPerWord] >> (token % kBitsPerWord)) & 1U) != 0;
}

// Replaces the row by the list of tokens that both the request and the grammar allow.
void keep_allowed(Row& row, const SamplingRules& rules, TokenMask grammar, SamplerBuffers& buffers) {
  size_t count = 0;
  const auto keep = [&](size_t token) {
    buffers.values[count] = row.values[token];
    buffers.ids[count] = static_cast<TokenId>(token);
    ++count;
  };
  if (!rules.allows_all) {
    for (const TokenId token : rules.allowed) {
      if (grammar.empty() || in_mask(grammar, static_cast<size_t>(token))) {
        keep(static_cast<size_t>(token));
      }
    }
  } else {
    const size_t vocab_size = row.values.size();
    for (size_t word = 0; word * kBitsPerWord < vocab_size; ++word) {
      for (uint32_t bits = grammar[word]; bits != 0; bits &= bits - 1) {
        const size_t token = word * kBitsPerWord + static_cast<size_t>(std::countr_zero(bits));
        if (token < vocab_size) {
          keep(token);
        }
      }
    }
  }
  take_list(row, count, buffers);
}

Status check_shapes(std::span<const float> logits, const SamplingState& state,
                    const SamplerWorkspace& workspace, TokenMask grammar) {
  const auto vocab_size = static_cast<size_t>(workspace.vocab_size());
  if (logits.size() != vocab_size || state.vocab_size() != workspace.vocab_size() ||
      (!grammar.empty() && grammar.size() * kBitsPerWord < vocab_size)) {
    return Failure{ErrorKind::kInternal,
                   cat("The sampler is set up for ", vocab_size, " tokens, but was given ", logits.size(),
                       " logits, a sequence of ", state.vocab_size(), " tokens and a mask of ",
                       grammar.size() * kBitsPerWord, "."),
                   {}};
  }
  return {};
}

// Applies masks, logit_bias and penalties.
Result<Filtered> filter(LogitEdits& edits, std::span<const float> logits, const SamplingState& state,
                        TokenMask grammar, SamplerBuffers& buffers) {
  Result<LogNorm> raw = log_norm(logits, buffers);
  if (!raw) {
    return raw.failure();
  }
  const SamplingRules& rules = state.rules();
  Filtered filtered;
  filtered.raw = *raw;
  filtered.row.values = logits;
  filtered.row.max = raw->max;
  edits.apply(state, buffers);
  if (!rules.allows_all || !grammar.empty()) {
    keep_allowed(filtered.row, rules, grammar, buffers);
  } else if (edits.any()) {
    filtered.row.max = block_maxima(logits, buffers.block_max.data()).max;
  }
  if (filtered.row.max == -std::numeric_limits<float>::infinity()) {
    return invalid_argument(
        "No token is left to choose from: allowed_token_ids, bad_words, min_tokens, logit_bias and the "
        "requested output format exclude every token between them.",
        rules.allows_all ? "" : "allowed_token_ids");
  }
  return filtered;
}

// Applies masks and edits, returns use(filtered, edits), and undoes the edits afterwards.
template <typename Use>
std::invoke_result_t<Use, Filtered&, LogitEdits&> with_filtered(std::span<float> logits,
                                                                const SamplingState& state,
                                                                SamplerWorkspace& workspace,
                                                                TokenMask grammar, Use use) {
  if (Status shapes = check_shapes(logits, state, workspace, grammar); !shapes) {
    return shapes.failure();
  }
  LogitEdits edits(logits, workspace.buffers().edits);
  Result<Filtered> filtered = filter(edits, logits, state, grammar, workspace.buffers());
  if (!filtered) {
    return filtered.failure();
  }
  return use(*filtered, edits);
}

// Returns the row's entries by decreasing value; valid until buffers.ranked is used again.
std::span<const Ranked> sorted(const Row& row, SamplerBuffers& buffers) {
  for (size_t i = 0; i < row.values.size(); ++i) {
    buffers.ranked[i] = {row.values[i], row.id(i), 0.0F};
  }
  const std::span<Ranked> entries = std::span(buffers.ranked).first(row.values.size());
  std::sort(entries.begin(), entries.end(),
            [](const Ranked& a, const Ranked& b) { return more_likely(a.value, a.id, b.value, b.id); });
  return entries;
}

// Returns the k most probable tokens of a row, most probable first. buffers.block_max must describe this row.
std::vector<TokenLogprob> most_likely(std::span<const float> logits, const LogNorm& norm, int32_t k,
                                      SamplerBuffers& buffers) {
  std::vector<TokenLogprob> top;
  if (k == 0) {
    return top;
  }
  Row row;
  row.values = logits;
  row.max = norm.max;
  if (k > 0) {
    keep_top_k(row, k, buffers);
  }
  top.reserve(row.values.size());
  for (const Ranked& entry : sorted(row, buffers)) {
    top.push_back({entry.id, norm.logprob(entry.value)});
  }
  return top;
}

PositionLogprobs describe(std::span<const float> logits, const LogNorm& norm, TokenId chosen,
                          const Alternatives& alternatives, SamplerBuffers& buffers) {
  const auto index = static_cast<size_t>(chosen);
  PositionLogprobs position;
  position.chosen = {chosen, norm.logprob(logits[index])};
  position.rank = 1 + static_cast<int32_t>(count_before(logits, logits[index], index));
  if (alternatives.ids.empty()) {
    position.top = most_likely(logits, norm, alternatives.count, buffers);
    return position;
  }
  position.given = true;
  position.top.reserve(alternatives.ids.size());
  for (const TokenId token : alternatives.ids) {
    if (token < 0 || static_cast<size_t>(token) >= logits.size()) continue;
    position.top.push_back({token, norm.logprob(logits[static_cast<size_t>(token)])});
  }
  return position;
}

// Writes the logits that a token is drawn from to buffers.processed, -infinity for excluded tokens.
void spread(const Row& row, SamplerBuffers& buffers) {
  if (row.ids != nullptr) {
    std::fill(buffers.processed.begin(), buffers.processed.end(), -std::numeric_limits<float>::infinity());
  }
  for (size_t i = 0; i < row.values.size(); ++i) {
    buffers.processed[static_cast<size_t>(row.id(i))] = row.values[i] * row.scale;
  }
}

}  // namespace

Result<SampleOutcome> sample_token(std::span<float> logits, const SamplingState& state, int64_t position,
                                   SamplerWorkspace& workspace, TokenMask grammar) {
  const auto choose = [&](Filtered& filtered, LogitEdits& edits) -> Result<SampleOutcome> {
    SamplerBuffers& buffers = workspace.buffers();
    const SamplingParams& params = state.params();
    truncate(filtered.row, state, position, buffers);
    const Row& row = filtered.row;
    size_t index = 0;
    if (params.greedy()) {
      index = find_max(row.values, buffers.block_max.data(), row.max);
    } else {
      index = win_race(row,
                       random_words(state.seed(), static_cast<uint64_t>(state.sample_index()),
                                    static_cast<uint64_t>(position)),
                       buffers);
    }
    SampleOutcome outcome;
    outcome.token = row.id(index);
    if (params.mirostat_mode != 0 && !params.greedy()) outcome.surprise = surprise_of(row, index, buffers);
    std::span<const float> reported = logits;
    LogNorm norm = filtered.raw;
    bool row_changed = edits.any() || row.ids != nullptr;
    if (is_processed(workspace.logprobs_mode())) {
      spread(row, buffers);
      reported = buffers.processed;
      const Result<LogNorm> processed = log_norm(reported, buffers);
      if (!processed) {
        return processed.failure();
      }
      norm = *processed;
      row_changed = false;
    }
    norm.as_logits = is_logits(workspace.logprobs_mode());
    edits.undo();
    outcome.logprob = norm.logprob(reported[static_cast<size_t>(outcome.token)]);
    if (params.wants_logprobs()) {
      if (row_changed) {
        block_maxima(reported, buffers.block_max.data());
      }
      const Alternatives alternatives{params.logprobs.value_or(0), params.logprob_token_ids};
      outcome.logprobs = describe(reported, norm, outcome.token, alternatives, buffers);
    }
    return outcome;
  };
  return with_filtered(logits, state, workspace, grammar, choose);
}

Result<std::vector<TokenProbability>> filtered_distribution(std::span<float> logits,
                                                            const SamplingState& state,
                                                            SamplerWorkspace& workspace, TokenMask grammar,
                                                            int64_t position) {
  using Distribution = std::vector<TokenProbability>;
  const auto list = [&](Filtered& filtered, LogitEdits&) -> Result<Distribution> {
    SamplerBuffers& buffers = workspace.buffers();
    truncate(filtered.row, state, position, buffers);
    const Row& row = filtered.row;
    Distribution distribution;
    if (state.params().greedy()) {
      distribution.push_back({row.id(find_max(row.values, buffers.block_max.data(), row.max)), 1.0F});
      return distribution;
    }
    const double total =
        weigh(row.values, row.max, row.scale, buffers.weights.data(), buffers.block_sum.data());
    for (size_t i = 0; i < row.values.size(); ++i) {
      if (buffers.weights[i] > 0.0F) {
        distribution.push_back({row.id(i), static_cast<float>(double{buffers.weights[i]} / total)});
      }
    }
    return distribution;
  };
  return with_filtered(logits, state, workspace, grammar, list);
}

Status fill_beam_row(std::span<float> logits, const SamplingState& state, size_t count,
                     SamplerWorkspace& workspace, BeamRow& beam_row, TokenMask grammar) {
  const auto fill = [&](Filtered& filtered, LogitEdits& edits) -> Status {
    SamplerBuffers& buffers = workspace.buffers();
    Row& row = filtered.row;
    const LogNorm& norm = filtered.raw;
    const bool raw_order = !edits.any() && row.ids == nullptr;
    keep_top_k(row, static_cast<int64_t>(count), buffers);
    std::vector<BeamCandidate>& candidates = beam_row.candidates;
    candidates.clear();
    for (const Ranked& entry : sorted(row, buffers)) {
      const float gain = norm.logprob(entry.value);
      if (gain == -std::numeric_limits<float>::infinity()) {
        break;
      }
      candidates.push_back({entry.id, gain, gain, 0});
    }
    const bool row_changed = edits.any() || row.ids != nullptr;
    edits.undo();
    for (BeamCandidate& candidate : candidates) {
      candidate.logprob = norm.logprob(logits[static_cast<size_t>(candidate.token)]);
    }
    if (!state.params().logprobs) {
      return {};
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
      const auto token = static_cast<size_t>(candidates[i].token);
      const size_t before = raw_order ? i : count_before(logits, logits[token], token);
      candidates[i].rank = 1 + static_cast<int32_t>(before);
    }
    if (row_changed) {
      block_maxima(logits, buffers.block_max.data());
    }
    beam_row.top = most_likely(logits, norm, *state.params().logprobs, buffers);
    return {};
  };
  return with_filtered(logits, state, workspace, grammar, fill);
}

Result<PositionLogprobs> position_logprobs(std::span<const float> logits, TokenId chosen,
                                           const Alternatives& alternatives, SamplerWorkspace& workspace) {
  if (logits.size() != static_cast<size_t>(workspace.vocab_size()) || chosen < 0 ||
      chosen >= workspace.vocab_size()) {
    return Failure{ErrorKind::kInternal,
                   cat("The sampler is set up for ", workspace.vocab_size(), " tokens, but was given ",
                       logits.size(), " logits and token ", chosen, "."),
                   {}};
  }
  SamplerBuffers& buffers = workspace.buffers();
  Result<LogNorm> norm = log_norm(logits, buffers);
  if (!norm) {
    return norm.failure();
  }
  norm->as_logits = is_logits(workspace.logprobs_mode());
  return describe(logits, *norm, chosen, alternatives, buffers);
}

}  // namespace quire
