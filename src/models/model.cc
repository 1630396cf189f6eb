#include "models/model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "models/decoder/decoder.h"
#include "nn/pooler.h"
#include "nn/scratch.h"

namespace quire {
namespace {

bool is_consecutive(std::span<const int32_t> rows) {
  return std::ranges::adjacent_find(rows, [](int32_t a, int32_t b) { return b != a + 1; }) == rows.end();
}

}  // namespace

ActivationBuffers::ActivationBuffers() = default;
ActivationBuffers::ActivationBuffers(ActivationBuffers&&) noexcept = default;
ActivationBuffers& ActivationBuffers::operator=(ActivationBuffers&&) noexcept = default;
ActivationBuffers::~ActivationBuffers() = default;

Model::Model() : decoder_(std::make_unique<Decoder>()) {}
Model::~Model() = default;

const ModelSpec& Model::spec() const {
  return decoder_->spec;
}

int64_t Model::max_model_len() const {
  return decoder_->max_model_len;
}

const Pooler* Model::pooler() const {
  return decoder_->pooler.get();
}

int64_t Model::pooled_size() const {
  return decoder_->pooler ? decoder_->pooler->output_size() : 0;
}

bool Model::pools_all_tokens() const {
  return decoder_->pooler && decoder_->pooler->all_rows();
}

void Model::make_rope_tables(const OpContext& ctx, int64_t max_len) {
  for (size_t i = 0; i < decoder_->tables.ropes.size(); ++i) {
    decoder_->tables.ropes[i] =
        make_rope(ctx, spec().ropes[i], max_model_len(), std::min(max_len, max_model_len()));
  }
  if (device_ == nullptr) return;
  const std::unique_ptr<DeviceStream> stream = device_->create_stream();
  for (Rope& rope : decoder_->tables.ropes)
    move_tables(rope, [&](Buffer table) { return device_->upload(std::move(table), *stream); });
  stream->synchronize(stream->record());
}

Buffer Model::allocate(int64_t bytes) const {
  const auto size = static_cast<size_t>(bytes);
  return device_ == nullptr ? Buffer(size) : device_->allocate(size, MemoryKind::kDevice);
}

std::vector<ModelStepTable> Model::step_tables(int32_t block_size) const {
  return quire::step_tables(*decoder_, block_size);
}

int64_t Model::activation_bytes(int64_t max_tokens) const {
  ScratchLayout layout(max_tokens);
  make_scratch(*decoder_, layout);
  return layout.size() * static_cast<int64_t>(sizeof(float));
}

ActivationBuffers Model::make_buffers(int64_t max_tokens) const {
  ActivationBuffers buffers;
  buffers.data = allocate(activation_bytes(max_tokens));
  buffers.max_tokens = max_tokens;
  const auto stream = device_ == nullptr ? nullptr : device_->create_stream();
  const std::function<void(void*, const void*, size_t)> copy = [&](void* dst, const void* src, size_t bytes) {
    stream->copy(dst, src, bytes);
    stream->synchronize(stream->record());
  };
  ScratchLayout layout(max_tokens, {buffers.data.as<float>(), stream == nullptr ? nullptr : &copy});
  buffers.scratch = std::make_unique<DecoderScratch>(make_scratch(*decoder_, layout));
  buffers.hidden = buffers.scratch->hidden;
  return buffers;
}

void Model::check_batch(const ForwardBatch& batch, const ActivationBuffers& buffers) const {
  const int64_t n = batch.num_tokens();
  const size_t num_layers = spec().layers.size();
  if (n > buffers.max_tokens || batch.positions.size() != batch.token_ids.size() ||
      batch.slot_mapping.size() != batch.token_ids.size() || batch.kv.size() != num_layers ||
      (decoder_->token_types && batch.token_types.size() != batch.token_ids.size())) {
    throw Error(cat("a step of ", n, " tokens, ", batch.positions.size(), " positions, ",
                    batch.slot_mapping.size(), " slots and ", batch.kv.size(),
                    " KV layers does not fit buffers for ", buffers.max_tokens, " tokens and ", num_layers,
                    " layers"));
  }
  if (batch.tables.size() != decoder_->first_table.back()) {
    throw Error(cat("a step has ", batch.tables.size(), " step tables, the model has ",
                    decoder_->first_table.back()));
  }
  if (state_layers_ &&
      (batch.layer_states.size() != num_layers || batch.states.num_seqs != batch.attention.num_seqs)) {
    throw Error(cat("a step of ", batch.attention.num_seqs, " sequences has the states of ",
                    batch.states.num_seqs, " in ", batch.layer_states.size(), " of ", num_layers, " layers"));
  }
}

TensorView Model::forward(const OpContext& ctx, const ForwardBatch& batch, ActivationBuffers& buffers,
                          const KvGroupBatches& groups) const {
  check_batch(batch, buffers);
  const OpRunner run = {*ops_, ctx, batch.adapters};
  const DecoderScratch at = buffers.scratch->first(batch.num_tokens());
  quire::embed(run, *decoder_, batch, at);
  for (size_t i = 0; i < spec().layers.size(); ++i) quire::run_layer(run, *decoder_, i, batch, groups, at);
  return finish(run, *decoder_, at);
}

void Model::embed(const OpContext& ctx, const ForwardBatch& batch, ActivationBuffers& buffers) const {
  check_batch(batch, buffers);
  quire::embed({*ops_, ctx, batch.adapters}, *decoder_, batch, buffers.scratch->first(batch.num_tokens()));
}

void Model::run_layer(const OpContext& ctx, int32_t layer, const ForwardBatch& batch,
                      ActivationBuffers& buffers) const {
  check_batch(batch, buffers);
  quire::run_layer({*ops_, ctx, batch.adapters}, *decoder_, static_cast<size_t>(layer), batch, {},
                   buffers.scratch->first(batch.num_tokens()));
}

void Model::logits(const OpContext& ctx, const TensorView& hidden, std::span<const int32_t> rows,
                   ActivationBuffers& buffers, const TensorView& logits, std::span<const int32_t> device_rows,
                   const AdapterRows* adapters) const {
  if (rows.empty()) return;
  const OpRunner run = {*ops_, ctx, adapters};
  const auto count = static_cast<int64_t>(rows.size());
  if (count > buffers.max_tokens) {
    throw Error(cat("logits of ", count, " rows do not fit buffers for ", buffers.max_tokens, " tokens"));
  }
  TensorView selected;
  if (is_consecutive(rows)) {
    selected = row_slice(hidden, rows.front(), rows.front() + count);
  } else {
    const DecoderScratch& at = *buffers.scratch;
    const TensorView& unused = hidden.data == at.hidden.data ? at.normed : at.hidden;
    selected = part(unused, count, hidden.row_size());
    run(ops::GatherRows{.out = selected, .x = hidden, .rows = device_rows.empty() ? rows : device_rows});
  }
  apply(run, decoder_->lm_head, logits, selected);
  if (spec().logit_scale != 1.0F || spec().logit_softcap != 0.0F) {
    run(ops::ScaleSoftcap{.x = logits, .scale = spec().logit_scale, .cap = spec().logit_softcap});
  }
}

}  // namespace quire
