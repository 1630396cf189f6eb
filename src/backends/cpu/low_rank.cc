// Additions of low rank, on the thread pool: the rows of all groups are multiplied by the A of their changes
// in one parallel loop, and the results by the B in a second one.
#include <algorithm>
#include <span>

#include "backends/cpu/drivers.h"
#include "backends/cpu/int_blocks.h"
#include "base/error.h"
#include "ops/parallel.h"

namespace quire::cpu {
namespace {

// Work of one item of a loop: few enough elements to divide the changes of a single row among threads.
constexpr int64_t kRowBlock = 12;
constexpr int64_t kRankBlock = 16;
constexpr int64_t kPanelBlock = 16;
// Terms of a range, which reads as many elements of A or B from memory if each row has an adapter of its own.
constexpr int64_t kRangeCost = 65536;

int64_t blocks(int64_t n, int64_t size) {
  return (n + size - 1) / size;
}

// The operands that all parts of a call share.
struct Operands {
  TensorView out;
  TensorView x;
};

// Rows of one group whose products with A are in the workspace, and its items in each loop.
struct Part {
  const LowRank* change;
  int32_t* rows;    // of out
  int32_t* x_rows;  // of x; may be the same list
  int64_t num_rows;
  int64_t ranks;
  float* h;  // [num_rows, ranks]
  int64_t shrink_begin;
  int64_t expand_begin;

  int64_t shrink_items() const { return blocks(num_rows, kRowBlock) * blocks(ranks, kRankBlock); }
};

int64_t panel_blocks(const LowRank::Piece& piece) {
  return blocks(piece.n, kPanelBlock * kLowRankPanel);
}
int64_t panel_blocks(const LowRank& change) {
  int64_t sum = 0;
  for (const LowRank::Piece& piece : change.pieces) sum += panel_blocks(piece);
  return sum;
}

const std::byte* element(const Buffer& buffer, DType dtype, int64_t index) {
  return buffer.data() + index * static_cast<int64_t>(dtype_size(dtype));
}

// The rows of one block of a part.
struct RowRange {
  int64_t begin;
  int64_t count;
};
RowRange rows_of(const Part& part, int64_t block) {
  const int64_t begin = block * kRowBlock;
  return {begin, std::min(kRowBlock, part.num_rows - begin)};
}

void shrink(const CpuKernels& kernels, const Operands& op, const Part& part, int64_t item) {
  const LowRank& change = *part.change;
  const int64_t row_blocks = blocks(part.num_rows, kRowBlock);
  const RowRange rows = rows_of(part, item % row_blocks);
  const int64_t rank = item / row_blocks * kRankBlock;
  const int64_t rank_end = std::min(part.ranks, rank + kRankBlock);
  float* const h = part.h + rows.begin * part.ranks;
  kernels.low_rank_shrink[storage_of(change.dtype)]({.x = op.x.as<float>(),
                                                     .x_stride = op.x.row_stride,
                                                     .rows = part.x_rows + rows.begin,
                                                     .num_rows = rows.count,
                                                     .a = element(change.a, change.dtype, rank * change.k),
                                                     .ranks = rank_end - rank,
                                                     .k = change.k,
                                                     .h = h + rank,
                                                     .h_stride = part.ranks});
  int64_t begin = 0;
  for (const LowRank::Piece& piece : change.pieces) {
    const int64_t end = begin + piece.rank;
    for (int64_t j = std::max(begin, rank); j < std::min(end, rank_end); ++j) {
      for (int64_t r = 0; r < rows.count; ++r) h[r * part.ranks + j] *= piece.scale;
    }
    begin = end;
  }
}

void expand(const CpuKernels& kernels, const Operands& op, const Part& part, int64_t item) {
  const LowRank& change = *part.change;
  const int64_t row_blocks = blocks(part.num_rows, kRowBlock);
  const RowRange rows = rows_of(part, item % row_blocks);
  int64_t block = item / row_blocks;
  int64_t rank_begin = 0;
  int64_t b_begin = 0;
  for (const LowRank::Piece& piece : change.pieces) {
    if (block >= panel_blocks(piece)) {
      block -= panel_blocks(piece);
      rank_begin += piece.rank;
      b_begin += piece.rank * piece.n;
      continue;
    }
    const int64_t first = block * kPanelBlock * kLowRankPanel;
    const int64_t last = std::min(piece.n, first + kPanelBlock * kLowRankPanel);
    for (int64_t output = first; output < last; output += kLowRankPanel) {
      kernels.low_rank_expand[storage_of(change.dtype)](
          {.out = op.out.as<float>() + piece.out_begin + output,
           .out_stride = op.out.row_stride,
           .rows = part.rows + rows.begin,
           .num_rows = rows.count,
           .h = part.h + rows.begin * part.ranks + rank_begin,
           .h_stride = part.ranks,
           .b = element(change.b, change.dtype, b_begin + b_index(piece, output, 0)),
           .rank = piece.rank,
           .width = std::min(kLowRankPanel, last - output)});
    }
    return;
  }
}

void add_bias(const CpuKernels& kernels, const Operands& op, const Part& part) {
  if (part.change->bias.size() == 0) return;
  for (int64_t i = 0; i < part.num_rows; ++i)
    kernels.add(op.out.row<float>(part.rows[i]), part.change->bias.as<float>(), op.out.row_size());
}

// f(part, item of the part) for all items of a loop. begin_of: the first item of a part.
template <class Begin, class F>
void each_item(const OpContext& ctx, std::span<const Part> parts, int64_t items, int64_t item_cost,
               Begin&& begin_of, F&& f) {
  parallel_ranges(ctx, items, std::max<int64_t>(1, kRangeCost / std::max<int64_t>(1, item_cost)),
                  [&](int64_t begin, int64_t end, int) {
                    auto part = std::ranges::upper_bound(parts, begin, {}, begin_of) - 1;
                    for (int64_t item = begin; item < end; ++item) {
                      while (part + 1 != parts.end() && begin_of(*(part + 1)) <= item) ++part;
                      f(*part, item - begin_of(*part));
                    }
                  });
}

// Both products of the parts.
void add_parts(const CpuKernels& kernels, const OpContext& ctx, const Operands& op, std::span<Part> parts) {
  int64_t shrinks = 0;
  int64_t expands = 0;
  int64_t rank_rows = 0;  // sum of rows times ranks
  for (Part& part : parts) {
    part.shrink_begin = shrinks;
    part.expand_begin = expands;
    shrinks += part.shrink_items();
    expands += blocks(part.num_rows, kRowBlock) * panel_blocks(*part.change);
    rank_rows += part.num_rows * part.ranks;
  }
  if (expands > 0) {
    each_item(
        ctx, parts, shrinks, rank_rows * op.x.row_size() / shrinks,
        [](const Part& part) { return part.shrink_begin; },
        [&](const Part& part, int64_t item) { shrink(kernels, op, part, item); });
    each_item(
        ctx, parts, expands, rank_rows * op.out.row_size() / expands,
        [](const Part& part) { return part.expand_begin; },
        [&](const Part& part, int64_t item) { expand(kernels, op, part, item); });
  }
  for (const Part& part : parts) add_bias(kernels, op, part);
}

// The workspace: a list of parts, their rows within the call, and their products with A.
class Batch {
 public:
  // max_parts: of all calls of add.
  Batch(std::span<std::byte> workspace, size_t max_parts) {
    constexpr int64_t kAlign = 64;
    const RowRoom room = row_room(workspace, kAlign, 1);
    std::byte* const end = workspace.data() + workspace.size();
    parts_ = reinterpret_cast<Part*>(room.begin);
    const auto bytes = std::min(end - room.begin, static_cast<std::ptrdiff_t>(kLowRankWorkspace));
    max_parts_ =
        std::min<int64_t>(static_cast<int64_t>(max_parts), bytes / 4 / static_cast<int64_t>(sizeof(Part)));
    next_ = room.begin + blocks(max_parts_ * static_cast<int64_t>(sizeof(Part)), kAlign) * kAlign;
    first_ = next_;
    end_ = room.begin + bytes;
  }

  std::span<Part> parts() { return {parts_, num_parts_}; }
  void clear() {
    num_parts_ = 0;
    next_ = first_;
  }
  // Adds a part for as many of `count` rows as there is space for, whose lists of rows are to be filled. Null
  // = there is no space. gathers: the rows of x have a list of their own.
  Part* add(const LowRank& change, int64_t count, bool gathers) {
    const int64_t ranks = change.ranks();
    const int64_t lists = gathers ? 2 : 1;
    const int64_t row_bytes = (ranks + lists) * static_cast<int64_t>(sizeof(float));
    count = std::min<int64_t>(count, (end_ - next_) / row_bytes);
    if (count == 0 || num_parts_ == static_cast<size_t>(max_parts_)) return nullptr;
    auto* rows = reinterpret_cast<int32_t*>(next_);
    next_ += count * row_bytes;
    Part& part = parts_[num_parts_++];
    part = {.change = &change,
            .rows = rows,
            .x_rows = gathers ? rows + count : rows,
            .num_rows = count,
            .ranks = ranks,
            .h = reinterpret_cast<float*>(rows + lists * count),
            .shrink_begin = 0,
            .expand_begin = 0};
    return &part;
  }

 private:
  Part* parts_;
  size_t num_parts_ = 0;
  int64_t max_parts_;
  std::byte* first_;
  std::byte* next_;
  std::byte* end_;
};

// Adds the parts of a call in batches that fit into the workspace.
class Adder {
 public:
  Adder(const CpuKernels& kernels, const OpContext& ctx, const Operands& op, std::span<std::byte> workspace,
        size_t max_parts)
      : kernels_(kernels), ctx_(ctx), op_(op), batch_(workspace, max_parts) {}

  // A part for some of `count` rows, as Batch::add().
  Part& add(const LowRank& change, int64_t count, bool gathers) {
    if (Part* part = batch_.add(change, count, gathers)) return *part;
    finish();
    Part* const part = batch_.add(change, count, gathers);
    if (part == nullptr) throw Error("add_low_rank: the workspace has no room for one row");
    return *part;
  }
  void finish() {
    add_parts(kernels_, ctx_, op_, batch_.parts());
    batch_.clear();
  }

 private:
  const CpuKernels& kernels_;
  const OpContext& ctx_;
  const Operands& op_;
  Batch batch_;
};

// The terms of one expert, whose rows have the groups group_of_row[row], -1 = none.
class ExpertTerms {
 public:
  ExpertTerms(const ops::AddLowRankExperts& op, size_t expert, const int32_t* group_of_row)
      : begin_(op.offsets[expert]), end_(op.offsets[expert + 1]), op_(op), group_of_row_(group_of_row) {}

  int32_t begin() const { return begin_; }
  int32_t group(int32_t term) const { return group_of_row_[op_.rows[static_cast<size_t>(term)]]; }
  // The first group after `last` that one of the terms has; the number of groups if there is none.
  int32_t next_group(int32_t last) const {
    auto next = static_cast<int32_t>(op_.groups.size());
    for (int32_t t = begin_; t < end_; ++t) {
      if (group(t) > last) next = std::min(next, group(t));
    }
    return next;
  }
  int64_t count(int32_t group_index) const {
    int64_t count = 0;
    for (int32_t t = begin_; t < end_; ++t) count += group(t) == group_index ? 1 : 0;
    return count;
  }

 private:
  int32_t begin_;
  int32_t end_;
  const ops::AddLowRankExperts& op_;
  const int32_t* group_of_row_;
};

// The group of each row of the call, in `memory`.
void find_groups(const ops::AddLowRankExperts& op, int32_t* group_of_row) {
  std::fill_n(group_of_row, op.num_rows, -1);
  for (size_t g = 0; g < op.groups.size(); ++g) {
    for (const int32_t row : op.groups[g].rows) group_of_row[row - op.first_row] = static_cast<int32_t>(g);
  }
}

}  // namespace

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::AddLowRank& op) {
  const Operands operands{op.out, op.x};
  Adder adder(kernels, ctx, operands, ctx.workspace, op.groups.size());
  for (const LowRankGroup& group : op.groups) {
    const auto count = static_cast<int64_t>(group.rows.size());
    for (int64_t begin = 0; begin < count;) {
      const Part& part = adder.add(*group.change, count - begin, false);
      for (int64_t i = 0; i < part.num_rows; ++i)
        part.rows[i] = static_cast<int32_t>(group.rows[static_cast<size_t>(begin + i)] - op.first_row);
      begin += part.num_rows;
    }
  }
  adder.finish();
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::AddLowRankExperts& op) {
  const Operands operands{op.out, op.x};
  const RowRoom room = row_room(ctx.workspace, static_cast<int64_t>(kLowRankRowBytes), op.num_rows);
  if (room.max_rows < op.num_rows)
    throw Error("add_low_rank_experts: the workspace has no room for the rows");
  auto* group_of_row = reinterpret_cast<int32_t*>(room.begin);
  find_groups(op, group_of_row);
  auto* const rest = reinterpret_cast<std::byte*>(group_of_row + op.num_rows);
  Adder adder(kernels, ctx, operands, {rest, ctx.workspace.data() + ctx.workspace.size()}, op.rows.size());
  for (size_t e = 0; e < op.sites.size(); ++e) {
    const ExpertTerms terms(op, e, group_of_row);
    const auto num_groups = static_cast<int32_t>(op.groups.size());
    for (int32_t g = terms.next_group(-1); g < num_groups; g = terms.next_group(g)) {
      const LowRank* change = op.change(op.groups[static_cast<size_t>(g)], e);
      if (change == nullptr) continue;
      int32_t term = terms.begin();
      for (int64_t left = terms.count(g); left > 0;) {
        const Part& part = adder.add(*change, left, op.by_row);
        for (int64_t i = 0; i < part.num_rows; ++term) {
          if (terms.group(term) != g) continue;
          if (op.by_row) part.x_rows[i] = op.rows[static_cast<size_t>(term)];
          part.rows[i++] = term;
        }
        left -= part.num_rows;
      }
    }
  }
  adder.finish();
}

}  // namespace quire::cpu
