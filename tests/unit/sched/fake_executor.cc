#include "unit/sched/fake_executor.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace quire::test {

namespace {

uint64_t mix(uint64_t value) {
  value ^= value >> 30;
  value *= 0xBF58476D1CE4E5B9;
  value ^= value >> 27;
  value *= 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

SequenceInit init_of(const Request& request) {
  SequenceInit init;
  init.prompt_token_ids = request.prompt_token_ids;
  init.sampling = request.sampling;
  init.end_token_ids = request.end_token_ids;
  init.seed = request.seed;
  init.adapter = request.adapter;
  return init;
}

}  // namespace

uint64_t history_root(int32_t adapter) {
  return mix(static_cast<uint64_t>(adapter) + 17);
}

uint64_t history_hash(uint64_t before, TokenId token) {
  return mix(before * 31 + static_cast<uint64_t>(token) + 1);
}

TokenId draw(const SequenceInit& init, int32_t sample_index, uint64_t history, int32_t num_generated) {
  const uint64_t random = mix(history ^ mix(init.seed * 1000 + static_cast<uint64_t>(sample_index)));
  TokenId token = static_cast<TokenId>(random % kVocabulary);
  // With few tokens, sequences often continue alike after they differed.
  if (init.sampling->top_k > 0) token = kVocabulary - 1 - token % init.sampling->top_k;
  if (num_generated < init.sampling->min_tokens) {
    while (contains(init.sampling->stop_token_ids, token) || contains(init.end_token_ids, token)) {
      token = (token + 1) % kVocabulary;
    }
  }
  return token;
}

Expected expected_sample(const Request& request, int32_t index, int32_t max_model_len) {
  const SequenceInit init = init_of(request);
  const SamplingParams& sampling = *request.sampling;
  Expected expected;
  uint64_t history = history_root(request.adapter.id);
  for (const TokenId token : request.prompt_token_ids) history = history_hash(history, token);
  expected.finish_reason = FinishReason::kLength;
  const int64_t room = max_model_len - static_cast<int64_t>(request.prompt_token_ids.size());
  const int64_t limit = std::min<int64_t>(sampling.max_tokens, room);
  while (static_cast<int64_t>(expected.token_ids.size()) < limit) {
    const TokenId token = draw(init, index, history, static_cast<int32_t>(expected.token_ids.size()));
    expected.token_ids.push_back(token);
    history = history_hash(history, token);
    if (static_cast<int32_t>(expected.token_ids.size()) <= sampling.min_tokens) continue;
    if (!sampling.ignore_eos && contains(request.end_token_ids, token)) {
      expected.finish_reason = FinishReason::kStop;
      break;
    }
    if (contains(sampling.stop_token_ids, token)) {
      expected.finish_reason = FinishReason::kStop;
      expected.stop_token = token;
      break;
    }
  }
  return expected;
}

FakeBeamSearch::FakeBeamSearch(const SequenceInit& init, int32_t max_model_len)
    : init_(init),
      max_new_tokens_(std::min(init.sampling->max_tokens,
                               max_model_len - static_cast<int32_t>(init.prompt_token_ids.size()))),
      beams_(static_cast<size_t>(init.sampling->num_sequences())) {
  uint64_t history = history_root(init.adapter.id);
  for (const TokenId token : init.prompt_token_ids) history = history_hash(history, token);
  beams_[0] = Beam{{}, history};
}

FakeBeamSearch::Step FakeBeamSearch::advance() {
  uint64_t random = mix(init_.seed + 7);
  for (const auto& beam : beams_) random = mix(random * 5 + (beam ? beam->history : 3));
  const auto below = [&random](size_t limit) {
    return static_cast<size_t>((random = mix(random + 11)) % limit);
  };
  Step step;
  step.done = num_generated_ + 1 >= max_new_tokens_ || below(19) == 0;
  if (step.done) return step;
  std::vector<size_t> parents;
  for (size_t slot = 0; slot < beams_.size(); ++slot) {
    if (beams_[slot] && below(3) != 0) parents.push_back(slot);
  }
  for (size_t slot = 0; parents.empty(); ++slot) {
    if (beams_[slot]) parents.push_back(slot);
  }
  std::vector<std::optional<Beam>> next(beams_.size());
  for (const size_t slot : parents) next[slot] = beams_[slot];
  for (size_t slot = 0; slot < beams_.size(); ++slot) {
    if (next[slot]) continue;
    if (below(4) != 0) {
      const size_t parent = parents[below(parents.size())];
      next[slot] = beams_[parent];
      step.forks.emplace_back(static_cast<int32_t>(parent), static_cast<int32_t>(slot));
    } else if (beams_[slot]) {
      step.dropped.push_back(static_cast<int32_t>(slot));
    }
  }
  beams_ = std::move(next);
  for (size_t slot = 0; slot < beams_.size(); ++slot) {
    if (!beams_[slot]) continue;
    Beam& beam = *beams_[slot];
    beam.token_ids.push_back(draw(init_, static_cast<int32_t>(slot), beam.history, num_generated_));
    beam.history = history_hash(beam.history, beam.token_ids.back());
  }
  ++num_generated_;
  return step;
}

std::vector<BeamHypothesis> FakeBeamSearch::hypotheses() const {
  std::vector<BeamHypothesis> texts;
  for (const auto& beam : beams_) {
    if (!beam || static_cast<int32_t>(texts.size()) == init_.sampling->n) continue;
    BeamHypothesis& text = texts.emplace_back();
    text.token_ids = beam->token_ids;
    text.token_ids.push_back(draw(init_, 0, beam->history, num_generated_));
    text.stopped = num_generated_ + 1 < max_new_tokens_;
  }
  return texts;
}

std::vector<BeamHypothesis> expected_beams(const Request& request, int32_t max_model_len) {
  FakeBeamSearch search(init_of(request), max_model_len);
  while (!search.advance().done) {
  }
  return search.hypotheses();
}

FakeExecutor::FakeExecutor(const KvLayout& layout, int32_t max_model_len)
    : layout_(layout),
      max_model_len_(max_model_len),
      content_(static_cast<size_t>(layout.num_blocks) * static_cast<size_t>(layout.block_size), 0),
      host_(static_cast<size_t>(layout.num_host_blocks) * static_cast<size_t>(layout.block_size), 0) {}

uint64_t& FakeExecutor::slot(size_t group, const State& state, int32_t position) {
  static uint64_t nowhere = 0;
  const std::vector<BlockId>& table = state.tables[group];
  const size_t index = static_cast<size_t>(position / layout_.block_size);
  if (index >= table.size() || table[index] < 0 || table[index] >= layout_.num_blocks) {
    ADD_FAILURE() << "position " << position << " has no block in group " << group;
    return nowhere = 0;
  }
  return content_[static_cast<size_t>(table[index]) * static_cast<size_t>(layout_.block_size) +
                  static_cast<size_t>(position % layout_.block_size)];
}

void FakeExecutor::append(State& state, TokenId token) {
  const uint64_t before = state.hashes.empty() ? history_root(state.init.adapter.id) : state.hashes.back();
  state.token_ids.push_back(token);
  state.hashes.push_back(history_hash(before, token));
}

void FakeExecutor::learn(const StepPlan& plan) {
  for (const SeqId seq : plan.finished) {
    EXPECT_EQ(sequences_.erase(seq), 1U) << "forgets unknown sequence " << seq;
    searches_.erase(seq);
  }
  for (const SequenceInit& init : plan.inits) {
    State& state = sequences_[init.seq];
    EXPECT_TRUE(state.token_ids.empty()) << "sequence " << init.seq << " is described twice";
    state.init = init;
    state.forked = init.sampling->n == 1;
    if (init.sampling->use_beam_search)
      searches_.emplace(init.seq, Search{FakeBeamSearch(init, max_model_len_), {}});
    state.tables.resize(layout_.groups.size());
    for (const TokenId token : init.prompt_token_ids) append(state, token);
  }
}

void FakeExecutor::update_tables(const StepPlan& plan) {
  for (const BlockTableUpdate& update : plan.block_table_updates) {
    ASSERT_TRUE(sequences_.contains(update.seq));
    std::vector<BlockId>& table = sequences_[update.seq].tables[static_cast<size_t>(update.group)];
    ASSERT_LE(static_cast<size_t>(update.first_index), table.size());
    ASSERT_LE(static_cast<size_t>(update.begin + update.count), plan.block_ids.size());
    table.resize(static_cast<size_t>(update.first_index));
    table.insert(table.end(), plan.block_ids.begin() + update.begin,
                 plan.block_ids.begin() + update.begin + update.count);
  }
  for (const DiskWrite& write : plan.disk_writes) begin_disk_io(write);
  for (const BlockCopy& copy : plan.copies) perform(copy);
  for (const DiskRead& read : plan.disk_reads) begin_disk_io(read);
}

void FakeExecutor::begin_disk_io(const DiskWrite& write) {
  const std::vector<uint64_t>& src = write.src_tier == KvTier::kHost ? host_ : content_;
  const auto begin = src.begin() + static_cast<ptrdiff_t>(write.src) * layout_.block_size;
  disk_random_ = mix(disk_random_ + 1);
  const bool ok = static_cast<int>(disk_random_ % 10) >= disk_failures;
  disk_io_.push_back({static_cast<int>(disk_random_ / 16 % 4),
                      {write.slot, -1, true, ok},
                      {begin, begin + layout_.block_size},
                      write.key});
}

void FakeExecutor::begin_disk_io(const DiskRead& read) {
  disk_random_ = mix(disk_random_ + 1);
  const bool ok = static_cast<int>(disk_random_ % 10) >= disk_failures;
  disk_io_.push_back(
      {static_cast<int>(disk_random_ / 16 % 4), {read.slot, read.host_block, false, ok}, {}, {}});
}

void FakeExecutor::end_disk_io(StepResult& result) {
  std::vector<DiskIo> in_flight;
  for (DiskIo& io : disk_io_) {
    if (--io.num_steps > 0) {
      in_flight.push_back(std::move(io));
      continue;
    }
    std::vector<uint64_t> bytes(static_cast<size_t>(layout_.block_size), 1);
    if (disk != nullptr) {
      if (io.outcome.write) {
        io.outcome.ok = io.outcome.ok && disk->write(io.outcome.slot, io.key, io.bytes);
      } else if (auto read = io.outcome.ok ? disk->read(io.outcome.slot) : std::nullopt) {
        bytes = std::move(*read);
      } else {
        io.outcome.ok = false;
      }
    } else if (io.outcome.write) {
      if (io.outcome.ok) disk_[io.outcome.slot] = io.bytes;
    } else if (io.outcome.ok) {
      bytes = disk_.at(io.outcome.slot);
    }
    result.disk_outcomes.push_back(io.outcome);
    if (io.outcome.write) continue;
    std::copy(bytes.begin(), bytes.end(),
              host_.begin() + static_cast<ptrdiff_t>(io.outcome.host_block) * layout_.block_size);
  }
  disk_io_ = std::move(in_flight);
}

void FakeExecutor::perform(const BlockCopy& copy) {
  EXPECT_FALSE(copy.src_tier == copy.dst_tier && copy.src == copy.dst);
  std::vector<uint64_t>& src = copy.src_tier == KvTier::kHost ? host_ : content_;
  std::vector<uint64_t>& dst = copy.dst_tier == KvTier::kHost ? host_ : content_;
  const size_t size = static_cast<size_t>(layout_.block_size);
  const size_t from = static_cast<size_t>(copy.src) * size;
  const size_t to = static_cast<size_t>(copy.dst) * size;
  ASSERT_LE(from + size, src.size());
  ASSERT_LE(to + size, dst.size());
  std::copy_n(src.begin() + static_cast<ptrdiff_t>(from), size, dst.begin() + static_cast<ptrdiff_t>(to));
}

void FakeExecutor::write(const ScheduledSequence& scheduled, std::map<BlockId, SeqId>& writers) {
  State& state = sequences_[scheduled.seq];
  const int32_t end = scheduled.num_computed_tokens + scheduled.num_new_tokens;
  for (size_t g = 0; g < state.tables.size(); ++g) {
    if (is_state(g)) {
      ASSERT_EQ(state.tables[g].size(), 1U) << "sequence " << scheduled.seq << " has one live state";
      if (scheduled.num_computed_tokens > 0) {
        ASSERT_EQ(slot(g, state, 0), state.hashes[static_cast<size_t>(scheduled.num_computed_tokens - 1)] + g)
            << "sequence " << scheduled.seq << " continues from another state";
      }
      slot(g, state, 0) = state.hashes[static_cast<size_t>(end - 1)] + g;
      const auto [writer, first] = writers.emplace(state.tables[g][0], scheduled.seq);
      EXPECT_EQ(writer->second, scheduled.seq) << "two sequences share the live state " << state.tables[g][0];
      continue;
    }
    for (int32_t p = scheduled.num_computed_tokens; p < end; ++p) {
      slot(g, state, p) = state.hashes[static_cast<size_t>(p)] + g;
      const BlockId block = state.tables[g][static_cast<size_t>(p / layout_.block_size)];
      const auto [writer, first] = writers.emplace(block, scheduled.seq);
      EXPECT_EQ(writer->second, scheduled.seq) << "two sequences write into block " << block;
    }
  }
}

void FakeExecutor::read(const ScheduledSequence& scheduled) {
  State& state = sequences_[scheduled.seq];
  const int32_t end = scheduled.num_computed_tokens + scheduled.num_new_tokens;
  for (size_t g = 0; g < state.tables.size(); ++g) {
    if (is_state(g)) continue;  // write() looked at it before it changed
    const KvGroupSpec& group = layout_.groups[g];
    int32_t begin = 0;
    if (group.kind == KvGroupKind::kSlidingWindow)
      begin = std::max(0, scheduled.num_computed_tokens - group.window + 1);
    if (group.kind == KvGroupKind::kChunked)
      begin = scheduled.num_computed_tokens - scheduled.num_computed_tokens % group.window;
    for (int32_t p = begin; p < end; ++p) {
      ASSERT_EQ(slot(g, state, p), state.hashes[static_cast<size_t>(p)] + g)
          << "sequence " << scheduled.seq << " reads another history at position " << p << " of group " << g;
    }
  }
}

void FakeExecutor::sample(const ScheduledSequence& scheduled, StepResult& result) {
  const SeqId seq = scheduled.seq;
  State& state = sequences_[seq];
  const int32_t end = scheduled.num_computed_tokens + scheduled.num_new_tokens;
  if (state.init.sampling->prompt_logprobs &&
      scheduled.num_computed_tokens < static_cast<int32_t>(state.init.prompt_token_ids.size())) {
    PromptLogprobs logprobs{seq, std::max(1, scheduled.num_computed_tokens), {}};
    logprobs.positions.resize(static_cast<size_t>(end - logprobs.first_position));
    result.prompt_logprobs.push_back(logprobs);
  }
  if (!scheduled.sample || silent.contains(seq)) return;
  const SeqId first = seq - state.index;
  if (const auto search = searches_.find(first); search != searches_.end()) {
    search->second.drawn.insert(seq);
    size_t num_open = 0;
    for (const auto& beam : search->second.beams.beams()) num_open += beam ? 1 : 0;
    if (search->second.drawn.size() == num_open) sample_beam(first, result);
    return;
  }
  const int32_t num_prompt = static_cast<int32_t>(state.init.prompt_token_ids.size());
  std::vector<SeqId> drawing = {seq};
  if (!state.forked) {
    EXPECT_EQ(end, num_prompt);
    state.forked = true;
    for (int32_t i = 1; i < state.init.sampling->n; ++i) {
      EXPECT_FALSE(sequences_.contains(seq + i));
      fork(seq, seq + i, i, result);
      drawing.push_back(seq + i);
    }
  }
  for (const SeqId each : drawing) {
    State& drawn = sequences_[each];
    const TokenId token = draw(drawn.init, drawn.index, drawn.hashes.back(), end - num_prompt);
    append(drawn, token);
    result.sampled.push_back({each, token, -1.0F, {}});
  }
}

void FakeExecutor::fork(SeqId parent, SeqId child, int32_t index, StepResult& result) {
  State copy = sequences_[parent];
  copy.index = index;
  sequences_[child] = std::move(copy);
  result.forks.push_back({parent, child});
}

void FakeExecutor::sample_beam(SeqId first, StepResult& result) {
  Search& search = searches_.at(first);
  search.drawn.clear();
  const FakeBeamSearch::Step step = search.beams.advance();
  if (step.done) {
    result.beams.push_back({first, search.beams.hypotheses()});
    return;
  }
  for (const auto& [parent, child] : step.forks) fork(first + parent, first + child, child, result);
  for (const int32_t slot : step.dropped) result.dropped.push_back(first + slot);
  // The best beam may be any of them: from the last to the first.
  for (size_t slot = search.beams.beams().size(); slot-- > 0;) {
    const auto& beam = search.beams.beams()[slot];
    if (!beam) continue;
    const SeqId seq = first + static_cast<SeqId>(slot);
    append(sequences_[seq], beam->token_ids.back());
    result.sampled.push_back({seq, beam->token_ids.back(), -1.0F, {}});
  }
}

StepResult FakeExecutor::execute(const StepPlan& plan) {
  StepResult result;
  result.step = plan.step;
  learn(plan);
  update_tables(plan);
  std::map<BlockId, SeqId> writers;
  int32_t num_tokens = 0;
  std::set<SeqId> seen;
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    if (!sequences_.contains(scheduled.seq)) {
      ADD_FAILURE() << "sequence " << scheduled.seq << " is not known";
      return result;
    }
    const State& state = sequences_[scheduled.seq];
    const size_t end = static_cast<size_t>(scheduled.num_computed_tokens + scheduled.num_new_tokens);
    EXPECT_TRUE(seen.insert(scheduled.seq).second) << "sequence " << scheduled.seq << " is scheduled twice";
    EXPECT_GT(scheduled.num_new_tokens, 0);
    EXPECT_LE(end, state.token_ids.size());
    EXPECT_EQ(scheduled.sample, end == state.token_ids.size() && state.init.sampling->max_tokens > 0);
    num_tokens += scheduled.num_new_tokens;
    write(scheduled, writers);
  }
  EXPECT_EQ(num_tokens, plan.num_tokens);
  end_disk_io(result);
  for (const ScheduledSequence& scheduled : plan.scheduled) read(scheduled);
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    if (fail_next.erase(scheduled.seq) > 0) {
      // A failed computation leaves no valid history.
      State& state = sequences_[scheduled.seq];
      for (int32_t i = 0; i < scheduled.num_new_tokens; ++i)
        slot(0, state, is_state(0) ? 0 : scheduled.num_computed_tokens + i) = 1;
      result.failures.push_back({scheduled.seq, "the logits are not numbers"});
    } else {
      sample(scheduled, result);
    }
  }
  for (auto& [first, search] : searches_) {
    const SeqId begin = first, end = begin + static_cast<SeqId>(search.beams.beams().size());
    const bool failed = std::ranges::any_of(
        result.failures, [&](const auto& failure) { return failure.seq >= begin && failure.seq < end; });
    EXPECT_TRUE(failed || search.drawn.empty()) << "some beams of " << first << " draw, others do not";
    search.drawn.clear();
  }
  return result;
}

Harness::Harness(const SchedulerConfig& scheduler_config, const KvLayout& layout)
    : config(scheduler_config),
      scheduler(scheduler_config, layout),
      executor(layout, scheduler_config.max_model_len) {}

Status Harness::add(Request request) {
  Record record;
  record.request = request;
  record.samples.resize(static_cast<size_t>(std::max(0, request.sampling->n)));
  const RequestId id = request.id;
  Status status = scheduler.add_request(std::move(request));
  if (status.ok()) requests[id] = std::move(record);
  return status;
}

void Harness::abort(RequestId request) {
  scheduler.abort_request(request);
  requests[request].aborted = true;
}

void Harness::finish(RequestId request, int32_t index) {
  scheduler.finish_sequence(request, index);
  requests[request].finished_outside.insert(index);
}

const StepPlan& Harness::plan() {
  last_plan = scheduler.schedule(now);
  EXPECT_LE(last_plan.num_tokens, config.max_num_batched_tokens);
  std::set<int32_t> adapters;
  for (const ScheduledSequence& scheduled : last_plan.scheduled) {
    const auto request = requests.find(scheduler.request_of(scheduled.seq));
    if (request != requests.end()) adapters.insert(request->second.request.adapter.id);
  }
  adapters.erase(0);
  EXPECT_LE(static_cast<int32_t>(adapters.size()), config.max_loras);
  return last_plan;
}

void Harness::compute() {
  const StepResult result = executor.execute(last_plan);
  take(scheduler.commit(result));
}

void Harness::take(const CommitResult& result) {
  for (const SequenceUpdate& update : result.updates) {
    ASSERT_TRUE(requests.contains(update.request));
    Record& request = requests[update.request];
    EXPECT_FALSE(request.aborted) << "output of aborted request " << update.request;
    EXPECT_FALSE(request.finished) << "output of finished request " << update.request;
    EXPECT_FALSE(request.finished_outside.contains(update.index));
    if (request.request.sampling->use_beam_search) {
      EXPECT_EQ(update.index, 0);
      EXPECT_TRUE(update.sampled.empty()) << "beams are told at the end";
      if (update.beam != nullptr) request.beams = update.beam->hypotheses;
      EXPECT_EQ(update.request_finished, update.finish_reason != FinishReason::kNone);
    }
    Sample& sample = request.samples[static_cast<size_t>(update.index)];
    EXPECT_EQ(sample.finish_reason, FinishReason::kNone) << "output of a finished sample";
    for (const SampledToken& token : update.sampled) {
      EXPECT_EQ(token.seq, update.seq);
      sample.token_ids.push_back(token.token);
    }
    sample.finish_reason = update.finish_reason;
    sample.stop_token = update.stop_token;
    sample.error = update.error;
    request.finished = request.finished || update.request_finished;
    if (update.prompt_logprobs != nullptr) {
      request.num_prompt_logprobs += static_cast<int32_t>(update.prompt_logprobs->positions.size());
    }
  }
}

void Harness::drain(int max_steps) {
  for (int i = 0; scheduler.has_work(); ++i) {
    ASSERT_LT(i, max_steps) << "the scheduler does not finish";
    now += seconds_step + seconds_token * last_plan.num_tokens;
    const bool disk_was_busy = executor.disk_busy();
    step();
    ASSERT_TRUE(!last_plan.empty() || disk_was_busy) << "there is work, and nothing is planned";
    if (::testing::Test::HasFailure()) return;
  }
}

void Harness::expect_idle() const {
  scheduler.check_integrity();
  const SchedulerStats stats = scheduler.stats();
  EXPECT_FALSE(scheduler.has_work());
  EXPECT_EQ(stats.num_running, 0);
  EXPECT_EQ(stats.num_waiting, 0);
  EXPECT_EQ(stats.kv.num_used, 0);
  EXPECT_EQ(stats.kv.num_free, stats.kv.num_blocks);
  EXPECT_EQ(stats.kv.host.num_used, 0);
  EXPECT_EQ(stats.num_loading, 0);
  EXPECT_EQ(executor.num_sequences(), 0U);
}

void Harness::expect_as_alone(RequestId id) const {
  const Record& request = requests.at(id);
  if (request.request.sampling->use_beam_search) {
    const std::vector<BeamHypothesis> expected = expected_beams(request.request, config.max_model_len);
    ASSERT_EQ(request.beams.size(), expected.size()) << "request " << id;
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(request.beams[i].token_ids, expected[i].token_ids) << "request " << id << " text " << i;
    return;
  }
  for (size_t i = 0; i < request.samples.size(); ++i) {
    const Sample& sample = request.samples[i];
    const Expected expected = expected_sample(request.request, static_cast<int32_t>(i), config.max_model_len);
    if (request.finished_outside.contains(static_cast<int32_t>(i))) {
      ASSERT_LE(sample.token_ids.size(), expected.token_ids.size());
      EXPECT_TRUE(std::equal(sample.token_ids.begin(), sample.token_ids.end(), expected.token_ids.begin()));
      continue;
    }
    EXPECT_EQ(sample.token_ids, expected.token_ids) << "request " << id << " sample " << i;
    EXPECT_EQ(sample.finish_reason, expected.finish_reason) << "request " << id << " sample " << i;
    EXPECT_EQ(sample.stop_token, expected.stop_token);
  }
}

Request make_request(RequestId id, std::vector<TokenId> prompt, int32_t max_tokens, int32_t n) {
  Request request;
  request.id = id;
  request.prompt_token_ids = std::move(prompt);
  request.sampling.edit().max_tokens = max_tokens;
  request.sampling.edit().n = n;
  request.seed = static_cast<uint64_t>(id) + 100;
  return request;
}

std::vector<TokenId> make_prompt(int32_t size, uint64_t salt) {
  std::vector<TokenId> prompt;
  uint64_t state = mix(salt + 99);
  for (int32_t i = 0; i < size; ++i) {
    state = mix(state + 0x9E3779B97F4A7C15);
    prompt.push_back(static_cast<TokenId>(state % kVocabulary));
  }
  return prompt;
}

KvLayout make_layout(int32_t num_blocks, int32_t block_size) {
  KvLayout layout;
  layout.num_blocks = num_blocks;
  layout.block_size = block_size;
  return layout;
}

}  // namespace quire::test
