#include "exec/local_executor.h"

#include <algorithm>

#include "base/clock.h"

namespace quire {
namespace {

// Rows whose logits are computed and consumed at a time, so that their memory does not grow with the batch.
constexpr int64_t kLogitRowsAtOnce = 64;

size_t kernel_workspace(const Model& model, Device& device, const LocalExecutorOptions& options) {
  const AttentionLimits limits = attention_limits(model.spec(), options.max_model_len);
  return device.ops().workspace_bytes(options.max_num_batched_tokens, limits.slots, limits.num_heads,
                                      limits.head_dim, device.threads().num_threads());
}

// Appends a generated token. Returns whether a constraint allows nothing after it.
bool append(SequenceRecord& record, TokenId token, float surprise = 0.0F) {
  record.tokens.push_back(token);
  record.sampling.append(token, surprise);
  return record.constrained && record.constrained->append(token);
}

}  // namespace

LocalExecutor::LocalExecutor(const Model& model, Device& device, const LocalExecutorOptions& options)
    : model_(model),
      pool_(device.threads()),
      vocab_size_(static_cast<int32_t>(model.spec().vocab_size)),
      max_model_len_(options.max_model_len),
      jump_ahead_(options.jump_ahead),
      stream_(device.create_stream()),
      kv_(device, model.spec(), options.kv_dtype, options.layout),
      shares_host_memory_(device.shares_host_memory()),
      disk_(options.disk),
      sequences_(static_cast<int32_t>(options.layout.groups.size()), vocab_size_),
      builder_(device, options.layout, model.step_tables(options.layout.block_size)),
      workspace_(device.allocate(kernel_workspace(model, device, options), MemoryKind::kDevice)),
      context_{
          &pool_, {workspace_.data(), workspace_.size()}, options.profile, options.tuning, stream_.get()},
      activations_(model.make_buffers(options.max_num_batched_tokens)),
      outcomes_(kLogitRowsAtOnce) {
  if (disk_ != nullptr && !shares_host_memory_)
    staged_ = device.allocate(static_cast<size_t>(DiskCache::staging_bytes(options.layout.bytes_per_block)),
                              MemoryKind::kPinned);
  if (model.pooler() != nullptr) {
    text_pooler_.emplace(model, device, options.profile != nullptr ? options.profile->table() : device.ops(),
                         options.max_num_batched_tokens);
    return;
  }
  logits_ = MirroredBuffer(device, static_cast<size_t>(kLogitRowsAtOnce * vocab_size_) * sizeof(float));
  for (int i = 0; i < pool_.num_threads(); ++i) {
    sampler_workspaces_.emplace_back(vocab_size_, options.logprobs_mode);
    masks_.emplace_back(static_cast<size_t>(vocab_size_ + 31) / 32);
  }
}

int64_t LocalExecutor::workspace_bytes(const Model& model, Device& device,
                                       const LocalExecutorOptions& options) {
  const int64_t vocab_row = model.spec().vocab_size * static_cast<int64_t>(sizeof(float));
  const int64_t body = static_cast<int64_t>(kernel_workspace(model, device, options)) +
                       model.activation_bytes(options.max_num_batched_tokens);
  if (model.pooler() != nullptr) return body + TextPooler::workspace_bytes(model);
  // A sampler's workspace holds about six and a half words for each entry of the vocabulary.
  const int64_t words = is_processed(options.logprobs_mode) ? 8 : 7;
  return body + (kLogitRowsAtOnce + words * device.threads().num_threads()) * vocab_row;
}

void LocalExecutor::begin(const StepPlan& plan) {
  plan_ = &plan;
  sequences_.apply(plan);
  start_beam_searches(plan);
  copy_blocks(plan);
  if (!plan.scheduled.empty()) {
    builder_.build(plan, sequences_, *stream_, kv_.layers(), kv_.states());
    adapters_.build(plan, sequences_);
    begin_s_ = monotonic_seconds();
    ForwardBatch batch = builder_.batch();
    batch.adapters = adapters_.rows();
    hidden_ = model_.forward(context_, batch, activations_, builder_.kv_groups());
    if (text_pooler_) {
      text_pooler_->submit_copy(hidden_, *stream_);
    } else {
      submit_logits(0);
    }
  }
  submitted_ = stream_->record();
}

const StepResult& LocalExecutor::finish() {
  result_.step = plan_->step;
  result_.forks.clear();
  result_.sampled.clear();
  result_.dropped.clear();
  result_.prompt_logprobs.clear();
  result_.failures.clear();
  result_.pooled.clear();
  result_.disk_outcomes.clear();
  result_.beams.clear();
  // Copies of blocks alone are not waited for: later work of the stream follows them.
  if (!plan_->scheduled.empty() || !plan_->disk_writes.empty()) stream_->synchronize(submitted_);
  write_staged_blocks();
  if (!plan_->scheduled.empty()) {
    if (text_pooler_) {
      text_pooler_->take(context_, pool_, *stream_, *plan_, builder_.pooled_parts(), sequences_, adapters_,
                         result_);
    }
    // Rows past the first ones, of prompts whose log-probabilities are wanted, are computed after the rows
    // before them have been sampled, and waited for.
    const size_t num_rows = builder_.logit_rows().size();
    for (size_t first = 0; first < num_rows; first += kLogitRowsAtOnce) {
      if (first > 0) {
        submit_logits(first);
        stream_->synchronize(stream_->record());
      }
      sample(rows_from(first));
    }
    note(kStepEvent, begin_s_, builder_.batch().num_tokens());
  }
  if (disk_ != nullptr) disk_->take_outcomes(result_.disk_outcomes);
  return result_;
}

// Copies between tiers, in the order of the plan: blocks are written to disk before they are overwritten, and
// read into blocks that have been copied.
void LocalExecutor::copy_blocks(const StepPlan& plan) {
  for (size_t i = 0; disk_ != nullptr && i < plan.disk_writes.size(); ++i) {
    const DiskWrite& write = plan.disk_writes[i];
    const std::span<const std::byte> block = kv_.block(write.src_tier, write.src);
    if (shares_host_memory_) {
      disk_->write(write.slot, write.key, block);
    } else {
      stream_->copy(staged_.data() + i * block.size(), block.data(), block.size());
    }
  }
  kv_.copy(plan.copies, *stream_);
  if (disk_ == nullptr || plan.disk_reads.empty()) return;
  // The I/O thread overwrites blocks that earlier copies may still read.
  stream_->synchronize(stream_->record());
  for (const DiskRead& read : plan.disk_reads)
    disk_->read(read.slot, read.host_block, kv_.block(KvTier::kHost, read.host_block));
}

void LocalExecutor::write_staged_blocks() {
  if (staged_.size() == 0) return;
  const size_t bytes = staged_.size() / DiskCache::kMaxWrites;
  for (size_t i = 0; i < plan_->disk_writes.size(); ++i) {
    const DiskWrite& write = plan_->disk_writes[i];
    disk_->write(write.slot, write.key, {staged_.data() + i * bytes, bytes});
  }
}

// Records an event from begin_s until now, if steps are profiled.
void LocalExecutor::note(std::string_view event, double begin_s, int64_t rows) {
  if (context_.profile == nullptr) return;
  context_.profile->add(
      {.name = event, .begin_s = begin_s, .seconds = monotonic_seconds() - begin_s, .rows = rows});
}

void LocalExecutor::clear_disk_cache() {
  if (disk_ != nullptr) disk_->clear();
}

std::span<const LogitRow> LocalExecutor::rows_from(size_t first) const {
  const auto rows = builder_.logit_rows();
  return rows.subspan(first, std::min<size_t>(kLogitRowsAtOnce, rows.size() - first));
}

void LocalExecutor::submit_logits(size_t first) {
  const size_t count = rows_from(first).size();
  const StepArray<int32_t>& rows = builder_.logit_row_indices();
  const TensorView logits =
      make_view(logits_.device(), DType::kF32, Shape{static_cast<int64_t>(count), vocab_size_});
  const std::span<const int32_t> host_rows = rows.host.subspan(first, count);
  model_.logits(context_, hidden_, host_rows, activations_, logits, rows.device.subspan(first, count),
                adapters_.select(host_rows));
  logits_.copy_to_host(*stream_, count * static_cast<size_t>(vocab_size_) * sizeof(float));
}

void LocalExecutor::sample(std::span<const LogitRow> rows) {
  const double sampling_begin = monotonic_seconds();
  const auto num_rows = static_cast<int64_t>(rows.size());
  auto* logits = reinterpret_cast<float*>(logits_.host());
  pool_.parallel_for(num_rows, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const auto index = static_cast<size_t>(i);
      process_row(rows[index], {logits + i * vocab_size_, static_cast<size_t>(vocab_size_)}, outcomes_[index],
                  thread);
    }
  });
  for (size_t i = 0; i < rows.size(); ++i) collect(rows[i], outcomes_[i]);
  note(kSampleEvent, sampling_begin, num_rows);
}

// The tokens that the sequence's constraint allows next; empty for all.
Result<TokenMask> LocalExecutor::allowed_tokens(SequenceRecord& record, int thread) {
  if (!record.constrained || record.constrained->unrestricted()) return TokenMask();
  std::vector<uint32_t>& mask = masks_[static_cast<size_t>(thread)];
  if (Status filled = record.constrained->fill(mask); !filled.ok()) return filled.failure();
  return TokenMask(mask);
}

void LocalExecutor::process_row(const LogitRow& row, std::span<float> logits, RowOutcome& outcome,
                                int thread) {
  outcome.sampled.clear();
  outcome.surprises.clear();
  outcome.failure.clear();
  const SeqId seq = plan_->scheduled[static_cast<size_t>(row.scheduled)].seq;
  SequenceRecord& record = sequences_.at(seq);
  const SamplingParams& params = record.sampling.params();
  SamplerWorkspace& workspace = sampler_workspaces_[static_cast<size_t>(thread)];
  const int64_t next = int64_t{row.position} + 1;
  if (row.prompt) {
    auto prompt =
        position_logprobs(logits, record.tokens[static_cast<size_t>(next)],
                          {params.prompt_logprobs.value_or(0), params.prompt_logprob_token_ids}, workspace);
    if (!prompt.ok()) {
      outcome.failure = prompt.failure().message;
      return;
    }
    outcome.prompt = std::move(*prompt);
  }
  if (!row.sample) return;

  const Result<TokenMask> allowed = allowed_tokens(record, thread);
  if (!allowed.ok()) {
    outcome.failure = allowed.failure().message;
    return;
  }
  if (record.beams != nullptr) {
    BeamSearch& search = record.beams->search;
    const Status filled = fill_beam_row(logits, record.sampling, search.candidates_per_row(), workspace,
                                        search.row(record.sampling.sample_index()), *allowed);
    if (!filled.ok()) outcome.failure = filled.failure().message;
    return;
  }

  // The first token after the prompt is drawn once for each of the request's samples, all from this row.
  const int32_t num_samples = record.sampling.num_generated() == 0 ? params.n : 1;
  for (int32_t i = 0; i < num_samples; ++i) {
    auto drawn = i == 0 ? sample_token(logits, record.sampling, next, workspace, *allowed)
                        : sample_token(logits, record.sampling.fork(i), next, workspace, *allowed);
    if (!drawn.ok()) {
      outcome.failure = drawn.failure().message;
      return;
    }
    SampledToken& token = outcome.sampled.emplace_back();
    token.seq = seq + i;
    token.token = drawn->token;
    const bool forced = record.constrained && record.constrained->forced() >= 0;
    token.logprob = forced && !params.wants_logprobs() ? 0.0F : drawn->logprob;
    outcome.surprises.push_back(drawn->surprise);
    if (drawn->logprobs) token.logprobs.push_back(std::move(*drawn->logprobs));
  }
}

void LocalExecutor::collect(const LogitRow& row, RowOutcome& outcome) {
  const SeqId seq = plan_->scheduled[static_cast<size_t>(row.scheduled)].seq;
  if (!outcome.failure.empty()) {
    result_.failures.push_back({seq, outcome.failure});
    return;
  }
  if (row.prompt) {
    if (result_.prompt_logprobs.empty() || result_.prompt_logprobs.back().seq != seq) {
      result_.prompt_logprobs.push_back({seq, row.position + 1, {}});
    }
    result_.prompt_logprobs.back().positions.push_back(std::move(outcome.prompt));
  }
  if (row.sample && sequences_.at(seq).beams != nullptr) return count_row(*sequences_.at(seq).beams);
  for (size_t i = 1; i < outcome.sampled.size(); ++i) {
    const SeqId child = seq + static_cast<SeqId>(i);
    sequences_.fork(seq, child, static_cast<int32_t>(i));
    result_.forks.push_back({seq, child});
  }
  for (size_t i = 0; i < outcome.sampled.size(); ++i) {
    SampledToken& token = outcome.sampled[i];
    token.completes = append(sequences_.at(token.seq), token.token, outcome.surprises[i]);
    result_.sampled.push_back(std::move(token));
    if (const SampledToken& last = result_.sampled.back(); !last.completes) append_forced(last.seq);
  }
}

// Tokens that follow without a choice need no logits: they are appended at once, and the next step computes
// them as a chunk.
void LocalExecutor::append_forced(SeqId seq) {
  SequenceRecord& record = sequences_.at(seq);
  if (!jump_ahead_ || !record.constrained || record.sampling.params().wants_logprobs()) return;
  for (TokenId token = record.constrained->forced(); token >= 0; token = record.constrained->forced()) {
    const bool completes = append(record, token);
    result_.sampled.push_back({.seq = seq, .token = token, .completes = completes});
    if (completes) return;
  }
}

void LocalExecutor::start_beam_searches(const StepPlan& plan) {
  for (const SequenceInit& init : plan.inits) {
    if (!init.sampling->use_beam_search) continue;
    const auto num_prompt_tokens = static_cast<int32_t>(init.prompt_token_ids.size());
    const int32_t max_new_tokens = std::min(init.sampling->max_tokens, max_model_len_ - num_prompt_tokens);
    sequences_.at(init.seq).beams = std::make_shared<BeamGroup>(
        BeamGroup{.first = init.seq,
                  .search = BeamSearch(*init.sampling, init.end_token_ids, std::max(1, max_new_tokens))});
  }
}

// A beam search takes its step when the rows of all active beams are complete. If one failed, it takes none:
// the failure ends the request.
void LocalExecutor::count_row(BeamGroup& group) {
  if (group.step != plan_->step) {
    group.step = plan_->step;
    group.num_rows = 0;
  }
  if (++group.num_rows == group.search.num_open()) advance(group);
}

void LocalExecutor::advance(BeamGroup& group) {
  const BeamSearch::Step& step = group.search.advance();
  if (step.done) {
    result_.beams.push_back({group.first, group.search.hypotheses()});
    return;
  }
  for (const auto& [parent, child] : step.forks) {
    sequences_.fork(group.first + parent, group.first + child, child);
    result_.forks.push_back({group.first + parent, group.first + child});
  }
  for (const int32_t slot : step.dropped) result_.dropped.push_back(group.first + slot);
  for (const auto& [slot, token, logprob] : step.tokens) {
    append(sequences_.at(group.first + slot), token);
    result_.sampled.push_back({group.first + slot, token, logprob, {}});
  }
}

}  // namespace quire
