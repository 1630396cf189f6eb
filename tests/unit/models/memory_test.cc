// Memory: a step allocates nothing, and weights are in memory once.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "models/state_layout.h"
#include "ops/reference.h"
#include "support/allocations.h"
#include "unit/models/edited_checkpoint.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

TEST(Memory, AStepAllocatesNothing) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers have their own `new`";
  for (const std::string& name : test::golden_names("models")) {
    const auto loaded = test::load_model(test::golden_model(name), reference_ops());
    const ModelSpec& spec = loaded.model->spec();
    ActivationBuffers buffers = loaded.model->make_buffers(8);
    int64_t layer_bytes = 0;
    for (const LayerSpec& layer : spec.layers)
      layer_bytes = std::max(layer_bytes, kv_bytes_of(layer, DType::kF32, 4));
    Buffer pool(static_cast<size_t>(layer_bytes * spec.num_layers() * 2));
    std::vector<KvCacheView> kv;
    for (int32_t l = 0; l < spec.num_layers(); ++l) {
      const KvShape shape = kv_shape(spec.layers[static_cast<size_t>(l)]);
      kv.push_back({pool.data(), layer_bytes * spec.num_layers(), l * layer_bytes, DType::kF32, 4,
                    shape.num_kv_heads, shape.head_dim, shape.value_dim});
    }
    const std::vector<int32_t> tokens = {5, 6, 7, 8, 9};
    const std::vector<int32_t> positions = {0, 1, 2, 3, 4};
    const std::vector<int64_t> slots = {4, 5, 6, 7, 0};
    const std::vector<int32_t> cu = {0, 5};
    const std::vector<int32_t> lens = {5};
    const std::vector<int32_t> indptr = {0, 2};
    const std::vector<int32_t> blocks = {1, 0};
    const std::vector<int32_t> rows = {0, 4};
    ForwardBatch batch;
    batch.token_ids = tokens;
    batch.positions = positions;
    batch.slot_mapping = slots;
    batch.attention = {1, cu, lens, indptr, blocks};
    batch.kv = kv;
    const std::vector<int32_t> first = {0};
    const std::vector<int32_t> state_block = {1};
    const StateLayout layout = place_states(spec, state_bytes(spec));
    Buffer states(static_cast<size_t>(2 * state_bytes(spec) + 1));
    std::vector<LayerState> layer_states;
    for (int32_t l = 0; l < spec.num_layers(); ++l)
      layer_states.push_back(layout.view(l, states.data(), state_bytes(spec)));
    batch.states = {1, cu, first, state_block, 1};
    batch.layer_states = layer_states;
    batch.host = {tokens, positions, slots, lens};
    HostStepTables tables(loaded.model->step_tables(4));
    batch.tables = tables.fill(batch.host);
    const AttentionLimits limits = attention_limits(spec, 8);
    Buffer workspace(reference_ops().workspace_bytes(8, limits.slots, limits.num_heads, limits.head_dim, 1));
    const OpContext ctx{nullptr, {workspace.data(), workspace.size()}};
    std::vector<float> logits(static_cast<size_t>(2 * spec.vocab_size));
    const int64_t before = test::allocation_count();
    const TensorView hidden = loaded.model->forward(ctx, batch, buffers);
    loaded.model->logits(ctx, hidden, rows, buffers,
                         make_view(logits.data(), DType::kF32, Shape{2, spec.vocab_size}));
    EXPECT_EQ(test::allocation_count() - before, 0) << name;
  }
}

// Many rows go through an MLP in several parts, so its scratch does not grow with the step.
TEST(Memory, LargeStepsComputeTheSameInPartsWithLessScratch) {
  const auto loaded = test::load_model(test::golden_model("llama"), reference_ops(), {.max_model_len = 1300});
  const test::RunnerOptions options{.max_tokens = 1300, .max_seq_len = 1300};
  std::vector<int32_t> tokens(1300);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 37 % 90);
  test::PagedRunner wide(*loaded.model, reference_ops(), nullptr, options);
  test::PagedRunner narrow(*loaded.model, reference_ops(), nullptr, options);
  EXPECT_EQ(wide.append(tokens, 1300), narrow.append(tokens, 100));

  const ModelSpec& spec = loaded.model->spec();
  const AttentionSpec& attention = *attention_of(spec.layers.front());
  const int64_t heads = int64_t{2} * attention.num_heads + 2 * attention.num_kv_heads;  // q, k, v and output
  EXPECT_EQ(loaded.model->activation_bytes(4096) - loaded.model->activation_bytes(2048),
            2048 * 4 * (2 * spec.hidden_size + heads * attention.head_dim));
}

int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  in >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Memory, WeightsAreResidentOnce) {
  if (test::kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer has memory for each byte";
  // About 50 MB: a layer of 4 MB eight times, and an embedding and an output matrix of 8 MB each.
  test::EditedCheckpoint big;
  big.config = {{"architectures", {"LlamaForCausalLM"}},
                {"vocab_size", 4096},
                {"hidden_size", 512},
                {"intermediate_size", 1024},
                {"num_hidden_layers", 8},
                {"num_attention_heads", 8},
                {"num_key_value_heads", 8}};
  const auto dir = std::filesystem::temp_directory_path() / ("quire-memory-" + std::to_string(getpid()));
  std::filesystem::create_directory(dir);
  int64_t total = 0;
  {
    nlohmann::json header = nlohmann::json::object();
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      int64_t bytes = 4;
      for (const int64_t dim : shape) bytes *= dim;
      header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {total, total + bytes}}};
      total += bytes;
    };
    add("model.embed_tokens.weight", {4096, 512});
    add("lm_head.weight", {4096, 512});
    add("model.norm.weight", {512});
    for (int i = 0; i < 8; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
        add(layer + "self_attn." + name + ".weight", {512, 512});
      for (const char* name : {"gate_proj", "up_proj"}) add(layer + "mlp." + name + ".weight", {1024, 512});
      add(layer + "mlp.down_proj.weight", {512, 1024});
      for (const char* name : {"input_layernorm", "post_attention_layernorm"})
        add(layer + name + ".weight", {512});
    }
    std::string text = header.dump();
    while (text.size() % 8 != 0) text += ' ';
    std::ofstream out(dir / "model.safetensors", std::ios::binary);
    for (size_t i = 0; i < 8; ++i) out.put(static_cast<char>((text.size() >> (8 * i)) & 0xff));
    out << text;
    const std::vector<char> zeros(1 << 20, 1);
    for (int64_t left = total; left > 0; left -= std::min<int64_t>(left, 1 << 20)) {
      out.write(zeros.data(), std::min<int64_t>(left, 1 << 20));
    }
    std::ofstream(dir / "config.json") << big.config.dump();
  }
  const int64_t before = resident_bytes();
  int64_t highest = before;
  const auto checkpoint = Checkpoint::open(dir);
  const auto model = Model::load(*checkpoint, reference_ops(), {}, {.dtype = {}, .max_model_len = 64},
                                 [&](int64_t, int64_t) { highest = std::max(highest, resident_bytes()); });
  const int64_t after = resident_bytes();
  // The embedding stays on disk until its rows are read. One fused matrix is in memory twice while it is
  // packed.
  EXPECT_LT(after - before, total * 11 / 10);
  EXPECT_LT(highest - before, total * 13 / 10);
  EXPECT_GT(after - before, total / 2);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace quire
