// Ops of recurrent layers, compared with the reference, for any chunking and batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "op_testing.h"
#include "ops/reference.h"

namespace quire {
namespace {

using test::expect_near;
using test::random_tensor;
using test::same_rows;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

// The states of three sequences in a pool that initially contains NaN: two scattered blocks per sequence,
// with parts of the state in both.
class States {
 public:
  States(int64_t parts, int64_t part_floats) {
    const int64_t part_bytes = (part_floats * 4 + 63) / 64 * 64;
    stride_ = 64 + (parts + 1) / 2 * part_bytes;
    pool_.assign(static_cast<size_t>(6 * stride_) + 64, std::byte{0xff});
    for (int64_t i = 0; i < parts; ++i)
      places_.push_back({static_cast<int32_t>(i % 2), 64 + i / 2 * part_bytes});
  }
  StateView view() { return {pool_.data(), stride_, places_}; }
  const std::vector<std::byte>& bytes() const { return pool_; }

 private:
  int64_t stride_ = 0;
  std::vector<std::byte> pool_;
  std::vector<StatePlace> places_;
};

// Rows [from, to) of a sequence in one step.
struct Part {
  int32_t seq;
  int32_t from;
  int32_t to;
};
struct Step {
  explicit Step(const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      cu.push_back(cu.back() + part.to - part.from);
      positions.push_back(part.from);
      blocks.insert(blocks.end(), {kBlocks[part.seq][0], kBlocks[part.seq][1]});
    }
    batch = {static_cast<int32_t>(parts.size()), cu, positions, blocks, 2};
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  static constexpr int32_t kBlocks[3][2] = {{4, 1}, {0, 5}, {3, 2}};
  std::vector<int32_t> cu = {0};
  std::vector<int32_t> positions;
  std::vector<int32_t> blocks;
  StateBatch batch;
};

constexpr int32_t kStateLengths[3] = {19, 1, 8};

// Runs one call of an op on some rows of the inputs.
using Call = std::function<void(const OpTable&, const OpContext&, const TensorView& out,
                                const std::vector<TensorView>& inputs, const StateBatch&, const StateView&)>;

struct Op {
  std::string name;
  Shape out;  // for the rows of all sequences
  std::vector<TestTensor> inputs;
  int64_t parts;
  int64_t part_floats;
  Call call;
};

int32_t first_row(int32_t seq) {
  int32_t row = 0;
  for (int32_t s = 0; s < seq; ++s) row += kStateLengths[s];
  return row;
}

// Runs one step that computes these parts of `out`.
void run_step(const Op& op, const OpTable& table, const OpContext& ctx, const TestTensor& out,
              const std::vector<Part>& parts, States& states) {
  const Step step(parts);
  Shape shape = op.out;
  shape = shape.rank() == 2 ? Shape{step.cu.back(), shape[1]} : Shape{step.cu.back(), shape[1], shape[2]};
  const TestTensor result(DType::kF32, shape, 5);
  std::vector<TestTensor> inputs;
  for (const TestTensor& all : op.inputs) {
    Shape rows = all.view().shape;
    rows = rows.rank() == 2 ? Shape{step.cu.back(), rows[1]} : Shape{step.cu.back(), rows[1], rows[2]};
    inputs.emplace_back(DType::kF32, rows, 3);
    int64_t to = 0;
    for (const Part& part : parts) {
      for (int32_t r = part.from; r < part.to; ++r, ++to)
        std::copy_n(all.view().row<float>(first_row(part.seq) + r), all.view().row_size(),
                    inputs.back().view().row<float>(to));
    }
  }
  const std::vector<TensorView> views(inputs.begin(), inputs.end());
  op.call(table, ctx, result, views, step.batch, states.view());
  int64_t from = 0;
  for (const Part& part : parts) {
    for (int32_t r = part.from; r < part.to; ++r, ++from)
      std::copy_n(result.view().row<float>(from), result.view().row_size(),
                  out.view().row<float>(first_row(part.seq) + r));
  }
}

TestTensor run(const Op& op, const OpTable& table, int threads, const std::vector<std::vector<Part>>& steps) {
  TestTensor out(DType::kF32, op.out);
  States states(op.parts, op.part_floats);
  const TestContext ctx(table, threads);
  for (const auto& parts : steps) run_step(op, table, ctx, out, parts, states);
  return out;
}

const std::vector<std::vector<Part>> kAtOnce = {{{0, 0, 19}, {1, 0, 1}, {2, 0, 8}}};
const std::vector<std::vector<Part>> kInParts = {
    {{2, 0, 3}, {0, 0, 7}}, {{0, 7, 8}}, {{1, 0, 1}, {2, 3, 4}, {0, 8, 15}}, {{0, 15, 19}, {2, 4, 8}}};

void check(const Op& op, float absolute, float relative) {
  const TestTensor want = run(op, reference_ops(), 1, kAtOnce);
  std::vector<TestTensor> results;
  for (const CpuIsa& isa : usable_isas()) {
    SCOPED_TRACE(op.name + " " + std::string(isa.name));
    const TestTensor out = run(op, *isa.table, 1, kAtOnce);
    expect_near(out, want, absolute, relative, "against the reference");
    EXPECT_TRUE(same_rows(out, run(op, *isa.table, 1, kInParts))) << "in parts";
    EXPECT_TRUE(same_rows(out, run(op, *isa.table, 3, kInParts))) << "three threads";
    EXPECT_TRUE(same_rows(out, run(op, *isa.table, 3, {{{1, 0, 1}}, {{2, 0, 8}}, {{0, 0, 19}}}))) << "alone";
    if (isa.name != "generic") results.push_back(out);
  }
  for (size_t i = 1; i < results.size(); ++i)
    EXPECT_TRUE(same_rows(results[0], results[i])) << op.name << ": instruction sets differ";
}

constexpr int64_t kRows = 28;

// Random values between low and high.
TestTensor between(float low, float high, Shape shape, uint32_t seed) {
  TestTensor t(DType::kF32, shape);
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  for (int64_t r = 0; r < t.view().rows(); ++r) {
    for (int64_t i = 0; i < t.view().row_size(); ++i) t.set(r, i, uniform(rng));
  }
  return t;
}

TEST(CausalConv, MatchesTheReferenceForAnyChunking) {
  for (const int64_t conv_kernel : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const int64_t d : {1, 16, 40, 300}) {
      for (const bool with_bias : {false, true}) {
        const TestTensor weight = random_tensor(DType::kF32, {conv_kernel, d}, 31);
        const TestTensor bias = random_tensor(DType::kF32, {1, d}, 32);
        const TensorView b = with_bias ? make_view(bias.view().data, DType::kF32, {d}) : TensorView{};
        const Activation act = with_bias ? Activation::kSilu : Activation::kNone;
        Op op{"conv_kernel " + std::to_string(conv_kernel) + ", columns " + std::to_string(d),
              {kRows, d},
              {},
              1,
              std::max<int64_t>(1, (conv_kernel - 1) * d),
              {}};
        op.inputs.push_back(random_tensor(DType::kF32, {kRows, d}, 33));
        op.call = [&](const OpTable& table, const OpContext& ctx, const TensorView& out,
                      const std::vector<TensorView>& in, const StateBatch& batch, const StateView& state) {
          for (int64_t r = 0; r < out.rows(); ++r) std::copy_n(in[0].row<float>(r), d, out.row<float>(r));
          table.run(
              ctx,
              ops::CausalConv{
                  .x = out, .weight = weight, .bias = b, .activation = act, .batch = batch, .state = state});
        };
        check(op, 2e-6F, 3e-6F);
      }
    }
  }
}

TEST(SsmScan, MatchesTheReferenceForAnyChunking) {
  struct Size {
    int64_t heads, p, groups, n;
  };
  for (const Size& s :
       {Size{1, 1, 1, 1}, Size{4, 8, 2, 10}, Size{6, 24, 3, 16}, Size{2, 64, 1, 37}, Size{2, 136, 1, 9}}) {
    const TestTensor skip = random_tensor(DType::kF32, {1, s.heads}, 41);
    const TensorView d = make_view(skip.view().data, DType::kF32, {s.heads});
    Op op{"heads " + std::to_string(s.heads) + " of " + std::to_string(s.p),
          {kRows, s.heads, s.p},
          {},
          s.heads,
          s.n * s.p,
          {}};
    op.inputs.push_back(random_tensor(DType::kF32, {kRows, s.heads, s.p}, 42));
    op.inputs.push_back(random_tensor(DType::kF32, {kRows, s.groups, s.n}, 43));
    op.inputs.push_back(random_tensor(DType::kF32, {kRows, s.groups, s.n}, 44));
    op.inputs.push_back(between(0.2F, 1.0F, {kRows, s.heads}, 45));
    op.inputs.push_back(between(0.0F, 1.0F, {kRows, s.heads}, 46));
    op.call = [&](const OpTable& table, const OpContext& ctx, const TensorView& out,
                  const std::vector<TensorView>& in, const StateBatch& batch, const StateView& state) {
      table.run(ctx, ops::SsmScan{.out = out,
                                  .x = in[0],
                                  .B = in[1],
                                  .C = in[2],
                                  .decay = in[3],
                                  .dt = in[4],
                                  .D = d,
                                  .batch = batch,
                                  .state = state});
    };
    check(op, 4e-5F, 1e-5F);
  }
}

TEST(SelectiveScan, MatchesTheReferenceForAnyChunking) {
  struct Size {
    int64_t channels, n;
  };
  for (const Size& s : {Size{1, 1}, Size{40, 5}, Size{64, 16}, Size{150, 3}}) {
    const TestTensor skip = random_tensor(DType::kF32, {1, s.channels}, 47);
    const TensorView d = make_view(skip.view().data, DType::kF32, {s.channels});
    const TestTensor rate = between(-2.0F, -0.1F, {s.n, s.channels}, 48);
    Op op{"channels " + std::to_string(s.channels),   {kRows, s.channels}, {},
          (s.channels + kScanPanel - 1) / kScanPanel, s.n * kScanPanel,    {}};
    op.inputs.push_back(random_tensor(DType::kF32, {kRows, s.channels}, 49));
    op.inputs.push_back(random_tensor(DType::kF32, {kRows, s.channels}, 50));
    op.inputs.push_back(random_tensor(DType::kF32, {kRows, s.n}, 51));
    op.inputs.push_back(random_tensor(DType::kF32, {kRows, s.n}, 52));
    op.call = [&](const OpTable& table, const OpContext& ctx, const TensorView& out,
                  const std::vector<TensorView>& in, const StateBatch& batch, const StateView& state) {
      table.run(ctx, ops::SelectiveScan{.out = out,
                                        .x = in[0],
                                        .dt = in[1],
                                        .B = in[2],
                                        .C = in[3],
                                        .A = rate,
                                        .D = d,
                                        .batch = batch,
                                        .state = state});
    };
    check(op, 4e-5F, 1e-5F);
  }
}

TEST(DeltaRule, MatchesTheReferenceForAnyChunking) {
  struct Size {
    int64_t heads, v, key_heads, k;
    bool by_key = false;
  };
  for (const Size& s : {Size{1, 1, 1, 1}, Size{4, 10, 2, 6}, Size{6, 40, 3, 16}, Size{2, 128, 1, 33},
                        Size{4, 10, 2, 6, true}, Size{2, 128, 2, 33, true}}) {
    Op op{"heads " + std::to_string(s.heads) + " of " + std::to_string(s.v) + (s.by_key ? ", by key" : ""),
          {kRows, s.heads, s.v},
          {},
          s.heads,
          s.k * s.v,
          {}};
    // Keys have a norm of about 1; otherwise the state would diverge.
    const float length = 0.8F / std::sqrt(static_cast<float>(s.k));
    op.inputs.push_back(random_tensor(DType::kF32, {kRows, s.key_heads, s.k}, 51));
    op.inputs.push_back(random_tensor(DType::kF32, {kRows, s.key_heads, s.k}, 52, 0, length));
    op.inputs.push_back(random_tensor(DType::kF32, {kRows, s.heads, s.v}, 53));
    op.inputs.push_back(between(0.5F, 1.0F, {kRows, s.by_key ? s.heads * s.k : s.heads}, 54));
    op.inputs.push_back(between(0.0F, 1.0F, {kRows, s.heads}, 55));
    op.call = [&](const OpTable& table, const OpContext& ctx, const TensorView& out,
                  const std::vector<TensorView>& in, const StateBatch& batch, const StateView& state) {
      table.run(ctx, ops::DeltaRule{.out = out,
                                    .q = in[0],
                                    .k = in[1],
                                    .v = in[2],
                                    .decay = in[3],
                                    .beta = in[4],
                                    .batch = batch,
                                    .state = state});
    };
    check(op, 4e-5F, 1e-5F);
  }
}

TEST(Compress, MatchesTheReferenceForAnyChunking) {
  for (const int64_t tokens : {1, 3, 4, 16}) {
    for (const bool overlap : {false, true}) {
      constexpr int64_t kColumns = 10;
      const int64_t wide = overlap ? 2 * kColumns : kColumns;
      const TestTensor bias = random_tensor(DType::kF32, {tokens, wide}, 56);
      Op op{"windows of " + std::to_string(tokens),
            {kRows, kColumns},
            {},
            1,
            compress_state(kColumns, overlap),
            {}};
      op.inputs.push_back(random_tensor(DType::kF32, {kRows, wide}, 57));
      op.inputs.push_back(random_tensor(DType::kF32, {kRows, wide}, 58));
      op.call = [&](const OpTable& table, const OpContext& ctx, const TensorView& out,
                    const std::vector<TensorView>& in, const StateBatch& batch, const StateView& state) {
        table.run(
            ctx,
            ops::CompressKeys{
                .out = out, .values = in[0], .gates = in[1], .bias = bias, .batch = batch, .state = state});
      };
      check(op, 4e-5F, 1e-5F);
    }
  }
}

// By definition: a softmax over the tokens of a window and, if windows overlap, of the previous window.
TEST(Compress, ComputesTheSoftmaxMeanOfAWindow) {
  constexpr int64_t kTokens = 3;
  for (const CpuIsa& isa : usable_isas()) {
    for (const bool overlap : {false, true}) {
      const int64_t wide = overlap ? 2 : 1;
      const TestTensor values = random_tensor(DType::kF32, {8, wide}, 59);
      const TestTensor gates = random_tensor(DType::kF32, {8, wide}, 60, 0, 20.0F);
      const TestTensor bias = random_tensor(DType::kF32, {kTokens, wide}, 61);
      States states(1, compress_state(1, overlap));
      const Step step({{0, 0, 8}});
      const TestTensor out(DType::kF32, {8, 1});
      isa.table->run(TestContext(*isa.table), ops::CompressKeys{.out = out,
                                                                .values = values,
                                                                .gates = gates,
                                                                .bias = bias,
                                                                .batch = step.batch,
                                                                .state = states.view()});
      for (int64_t end = 0; end < 8; ++end) {
        if ((end + 1) % kTokens != 0) {
          EXPECT_EQ(out.get(end, 0), 0.0F);
          continue;
        }
        double sum = 0;
        double weights = 0;
        const auto add = [&](int64_t row, int64_t column) {
          const double weight = std::exp(double{gates.get(row, column)} + bias.get(row % kTokens, column));
          weights += weight;
          sum += weight * values.get(row, column);
        };
        const int64_t begin = end + 1 - kTokens;
        for (int64_t row = overlap ? std::max<int64_t>(0, begin - kTokens) : begin; row <= end; ++row)
          add(row, overlap && row >= begin ? 1 : 0);
        EXPECT_NEAR(out.get(end, 0), sum / weights, 1e-5) << isa.name << ", row " << end;
      }
    }
  }
}

// Computed by hand for two tokens of one head.
TEST(SsmScan, MatchesTheRecurrence) {
  for (const CpuIsa& isa : usable_isas()) {
    States states(1, 2);
    const Step step({{0, 0, 2}});
    std::vector<float> x = {3, 5}, b = {2, 7, 11, 13}, c = {1, 10, 100, 1000}, decay = {0.9F, 0.5F},
                       dt = {2, 0.5F}, d = {4}, out(2);
    const auto view = [](std::vector<float>& v, Shape s) { return make_view(v.data(), DType::kF32, s); };
    isa.table->run(TestContext(*isa.table), ops::SsmScan{.out = view(out, {2, 1, 1}),
                                                         .x = view(x, {2, 1, 1}),
                                                         .B = view(b, {2, 1, 2}),
                                                         .C = view(c, {2, 1, 2}),
                                                         .decay = view(decay, {2, 1}),
                                                         .dt = view(dt, {2, 1}),
                                                         .D = view(d, {1}),
                                                         .batch = step.batch,
                                                         .state = states.view()});
    // S1 = (12, 42); S2 = (6, 21) + 2.5 (11, 13).
    EXPECT_EQ(out[0], 4 * 3 + 12 + 420) << isa.name;
    EXPECT_EQ(out[1], 4 * 5 + 100 * 33.5F + 1000 * 53.5F) << isa.name;
  }
}

TEST(SelectiveScan, MatchesTheRecurrence) {
  for (const CpuIsa& isa : usable_isas()) {
    States states(1, 2 * kScanPanel);
    const Step step({{0, 0, 2}});
    // Values of dt whose softplus is 1 and 2; A = -1 and -2.
    const float one = std::log(std::exp(1.0F) - 1.0F), two = std::log(std::exp(2.0F) - 1.0F);
    std::vector<float> x = {3, 5}, dt = {one, two}, b = {2, 7, 11, 13}, c = {1, 10, 100, 1000},
                       rate = {-1, -2}, d = {4}, out(2);
    const auto view = [](std::vector<float>& v, Shape s) { return make_view(v.data(), DType::kF32, s); };
    isa.table->run(TestContext(*isa.table), ops::SelectiveScan{.out = view(out, {2, 1}),
                                                               .x = view(x, {2, 1}),
                                                               .dt = view(dt, {2, 1}),
                                                               .B = view(b, {2, 2}),
                                                               .C = view(c, {2, 2}),
                                                               .A = view(rate, {2, 1}),
                                                               .D = view(d, {1}),
                                                               .batch = step.batch,
                                                               .state = states.view()});
    // S1 = (6, 21); S2 = (6 e^-2, 21 e^-4) + 10 (11, 13).
    EXPECT_NEAR(out[0], 4 * 3 + 6 + 210, 1e-3) << isa.name;
    EXPECT_NEAR(out[1], 20 + 100 * (6 * std::exp(-2.0F) + 110) + 1000 * (21 * std::exp(-4.0F) + 130), 0.1)
        << isa.name;
  }
}

TEST(DeltaRule, MatchesTheRecurrence) {
  for (const CpuIsa& isa : usable_isas()) {
    States states(1, 2);
    const Step step({{0, 0, 2}});
    std::vector<float> q = {1, 2, 3, 4}, k = {1, 0, 0.5F, 2}, v = {8, 6}, decay = {0.25F, 0.5F},
                       beta = {0.5F, 0.5F}, out(2);
    const auto view = [](std::vector<float>& w, Shape s) { return make_view(w.data(), DType::kF32, s); };
    isa.table->run(TestContext(*isa.table), ops::DeltaRule{.out = view(out, {2, 1, 1}),
                                                           .q = view(q, {2, 1, 2}),
                                                           .k = view(k, {2, 1, 2}),
                                                           .v = view(v, {2, 1, 1}),
                                                           .decay = view(decay, {2, 1}),
                                                           .beta = view(beta, {2, 1}),
                                                           .batch = step.batch,
                                                           .state = states.view()});
    // d1 = 4, S1 = (4, 0); d2 = (6 - 0.5 * 2) / 2 = 2.5, S2 = (2, 0) + 2.5 (0.5, 2).
    EXPECT_EQ(out[0], 4) << isa.name;
    EXPECT_EQ(out[1], 3 * 3.25F + 4 * 5) << isa.name;
  }
}

TEST(DeltaRule, DecaysEachKeySeparately) {
  for (const CpuIsa& isa : usable_isas()) {
    States states(1, 2);
    const Step step({{0, 0, 2}});
    std::vector<float> q = {1, 2, 3, 4}, k = {1, 0.5F, 0.5F, 2}, v = {8, 6}, decay = {1, 1, 0.5F, 0.25F},
                       beta = {0.5F, 0.5F}, out(2);
    const auto view = [](std::vector<float>& w, Shape s) { return make_view(w.data(), DType::kF32, s); };
    isa.table->run(TestContext(*isa.table), ops::DeltaRule{.out = view(out, {2, 1, 1}),
                                                           .q = view(q, {2, 1, 2}),
                                                           .k = view(k, {2, 1, 2}),
                                                           .v = view(v, {2, 1, 1}),
                                                           .decay = view(decay, {2, 2}),
                                                           .beta = view(beta, {2, 1}),
                                                           .batch = step.batch,
                                                           .state = states.view()});
    // d1 = 4, S1 = (4, 2), which decays to (2, 0.5); d2 = (6 - (1 + 1)) / 2 = 2, S2 = (3, 4.5).
    EXPECT_EQ(out[0], 4 + 4) << isa.name;
    EXPECT_EQ(out[1], 3 * 3 + 4 * 4.5F) << isa.name;
  }
}

TEST(DecayGates, MatchTheDefinitionWithALowerBound) {
  for (const CpuIsa& isa : usable_isas()) {
    for (const int64_t heads : {1, 5, 40}) {
      const TestTensor raw = random_tensor(DType::kF32, {9, heads}, 64, 3, 12.0F);
      const TestTensor step = raw;
      const TestTensor decay(DType::kF32, {9, heads}, 2);
      const TestTensor bias = random_tensor(DType::kF32, {1, heads}, 65);
      const TestTensor rate = between(-3.0F, -0.01F, {1, heads}, 66);
      isa.table->run(TestContext(*isa.table, 2),
                     ops::DecayGates{.decay = decay,
                                     .dt = step,
                                     .dt_bias = make_view(bias.view().data, DType::kF32, {heads}),
                                     .A = make_view(rate.view().data, DType::kF32, {heads}),
                                     .params = {.bound = -5.0F}});
      for (int64_t r = 0; r < 9; ++r) {
        for (int64_t h = 0; h < heads; ++h) {
          const double x = double{raw.get(r, h)} + double{bias.get(0, h)};
          const double share = 1.0 / (1.0 + std::exp(double{rate.get(0, h)} * x));
          ASSERT_NEAR(decay.get(r, h), std::exp(-5.0 * share), 2e-6) << isa.name << ", " << x;
        }
      }
    }
  }
}

TEST(DecayGates, MatchTheDefinition) {
  for (const CpuIsa& isa : usable_isas()) {
    for (const int64_t heads : {1, 5, 16, 40}) {
      const TestTensor raw = random_tensor(DType::kF32, {9, heads}, 61, 3, 12.0F);
      const TestTensor step = raw;
      const TestTensor decay(DType::kF32, {9, heads}, 2);
      const TestTensor bias = random_tensor(DType::kF32, {1, heads}, 62);
      const TestTensor rate = between(-3.0F, -0.01F, {1, heads}, 63);
      isa.table->run(TestContext(*isa.table, 2),
                     ops::DecayGates{.decay = decay,
                                     .dt = step,
                                     .dt_bias = make_view(bias.view().data, DType::kF32, {heads}),
                                     .A = make_view(rate.view().data, DType::kF32, {heads}),
                                     .params = {.low = 1e-3F, .high = 20.0F}});
      for (int64_t r = 0; r < 9; ++r) {
        for (int64_t h = 0; h < heads; ++h) {
          const double x = double{raw.get(r, h)} + double{bias.get(0, h)};
          const double want = std::clamp(x > 30 ? x : std::log1p(std::exp(x)), 1e-3, 20.0);
          ASSERT_NEAR(step.get(r, h), want, 1e-6 + 1e-6 * want) << isa.name << ", " << x;
          ASSERT_NEAR(decay.get(r, h), std::exp(double{rate.get(0, h)} * want), 1e-5)
              << isa.name << ", " << x;
        }
      }
    }
  }
}

TEST(Gate, AppliesTheActivationInPlace) {
  for (const CpuIsa& isa : usable_isas()) {
    for (const Activation act :
         {Activation::kSilu, Activation::kSigmoid, Activation::kSoftplus, Activation::kNone}) {
      const TestTensor x = random_tensor(DType::kF32, {7, 35}, 71, 3);
      const TestTensor gate = random_tensor(DType::kF32, {7, 35}, 72, 1);
      const TestTensor out(DType::kF32, {7, 35}, 2);
      isa.table->run(TestContext(*isa.table, 2),
                     ops::Gate{.out = out, .x = x, .gate = gate, .activation = act});
      for (int64_t r = 0; r < 7; ++r) {
        for (int64_t i = 0; i < 35; ++i)
          ASSERT_NEAR(out.get(r, i), reference::activate(gate.get(r, i), act) * x.get(r, i), 1e-6)
              << isa.name;
      }
      isa.table->run(TestContext(*isa.table, 2),
                     ops::Gate{.out = x, .x = x, .gate = gate, .activation = act});
      EXPECT_TRUE(same_rows(x, out)) << isa.name;
    }
  }
}

TEST(Gate, AppliesToAllColumnsOfAHead) {
  for (const CpuIsa& isa : usable_isas()) {
    const TestTensor x = random_tensor(DType::kF32, {7, 100}, 73, 3);
    const TestTensor gate = random_tensor(DType::kF32, {7, 5}, 74, 1);
    const TestTensor out(DType::kF32, {7, 100}, 2);
    isa.table->run(TestContext(*isa.table, 2),
                   ops::Gate{.out = out, .x = x, .gate = gate, .activation = Activation::kSigmoid});
    for (int64_t r = 0; r < 7; ++r) {
      for (int64_t i = 0; i < 100; ++i) {
        const float share = reference::activate(gate.get(r, i / 20), Activation::kSigmoid);
        ASSERT_NEAR(out.get(r, i), share * x.get(r, i), 1e-6) << isa.name;
      }
    }
    isa.table->run(TestContext(*isa.table, 2),
                   ops::Gate{.out = x, .x = x, .gate = gate, .activation = Activation::kSigmoid});
    EXPECT_TRUE(same_rows(x, out)) << isa.name;
  }
}

}  // namespace
}  // namespace quire
