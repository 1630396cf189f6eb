// Step tables: integers that ops read in a step and that follow from its batch, such as the slots of
// compressed keys. A mechanism describes its tables; the code that builds a batch fills them before the step,
// so that they are in memory of the device with the other arrays of the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nn/forward_batch.h"

namespace quire {

// Tables of the same name are the same for all layers in one KV group. `fill` or `fill_wide` is set.
struct StepTable {
  std::string name;
  int64_t per_token = 0;     // integers per token of the step
  int64_t per_sequence = 0;  // and per sequence
  std::function<void(const HostBatch&, std::span<int32_t>)> fill = nullptr;
  std::function<void(const HostBatch&, std::span<int64_t>)> fill_wide = nullptr;

  size_t count(size_t tokens, size_t sequences) const {
    return tokens * static_cast<size_t>(per_token) + sequences * static_cast<size_t>(per_sequence);
  }
};

// A step table of a model. HostBatch::slot_mapping is that of the layer's KV group when it is filled.
struct ModelStepTable {
  int32_t layer = 0;  // the layer whose keys and values are read
  StepTable table;
};

// The tables of batches whose layers are all in one KV group, for a device that shares the host's memory.
class HostStepTables {
 public:
  explicit HostStepTables(std::vector<ModelStepTable> tables) : tables_(std::move(tables)) {}

  // ForwardBatch::tables. Valid until the next call.
  std::span<const StepTableView> fill(const HostBatch& batch) {
    narrow_.clear();
    wide_.clear();
    views_.clear();
    for (const auto& [layer, table] : tables_) {
      const size_t count = table.count(batch.positions.size(), batch.seq_lens.size());
      std::vector<int32_t>& narrow = narrow_.emplace_back();
      std::vector<int64_t>& wide = wide_.emplace_back();
      if (table.fill) {
        narrow.resize(count);
        table.fill(batch, narrow);
      } else {
        wide.resize(count);
        table.fill_wide(batch, wide);
      }
      views_.push_back({narrow, wide});
    }
    return views_;
  }

 private:
  std::vector<ModelStepTable> tables_;
  std::deque<std::vector<int32_t>> narrow_;  // their elements do not move
  std::deque<std::vector<int64_t>> wide_;
  std::vector<StepTableView> views_;
};

}  // namespace quire
