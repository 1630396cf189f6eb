// A tensor of a checkpoint while an adapter is merged into it. Every value that is changed is computed in
// float32 and rounded once to the tensor's type. Used by one thread, which works with the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "models/site_tensors.h"
#include "ops/embedding_change.h"
#include "ops/trained_tokens.h"
#include "quantize/low_rank_rows.h"
#include "tensor/tensor.h"

namespace quire {

// Every function throws Error with the name and the row if a value is not finite in the type of the tensor.
class EditedTensor {
 public:
  // bytes: a copy of the stored ones. All arguments outlive it.
  EditedTensor(const std::string& name, DType dtype, Buffer& bytes, ThreadPool& pool)
      : name_(name), dtype_(dtype), bytes_(bytes), pool_(pool) {}

  // Adds the change of the site to its rows: those of at.weight, or at.source of them.
  void add(const SiteTensor& at, const LowRankRows& change);
  // Adds the bias of the change to at.bias.
  void add_bias(const SiteTensor& at, const LowRankRows& change);
  // Adds the change to a matrix [vocab_size, size].
  void add(const SiteTensor& at, const EmbeddingChange& change);
  // Replaces a matrix by values [rows, columns] in the model's order.
  void replace(const SiteTensor& at, std::span<const float> values);
  // Replaces the rows of the tokens.
  void replace(const SiteTensor& at, const TrainedTokens& tokens);
  // Replaces a vector; `offset` is subtracted from the values.
  void replace_vector(std::span<const float> values, float offset);

 private:
  // Where the elements of a matrix are.
  struct Layout {
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t row_step = 0;
    int64_t column_step = 0;
    int64_t begin = 0;
    std::vector<int64_t> order;  // stored row of each row

    int64_t at(int64_t row) const { return begin + order[static_cast<size_t>(row)] * row_step; }
  };
  static Layout layout_of(const SiteTensor& at);
  // Calls edit(row, values) for the rows [begin, begin + count) and stores the values. edit: false = the row
  // is unchanged.
  void edit_rows(const Layout& layout, int64_t begin, int64_t count,
                 const std::function<bool(int64_t, std::span<float>)>& edit);
  void add_transposed(const SiteTensor& at, const LowRankRows& change);
  // Returns false if the value is not finite there.
  bool store(int64_t element, float value);
  [[noreturn]] void refuse(int64_t row) const;

  const std::string& name_;
  DType dtype_;
  Buffer& bytes_;
  ThreadPool& pool_;
};

}  // namespace quire
