#include "exec/adapter_store.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace quire {

int32_t AdapterStore::add(std::shared_ptr<const AdapterWeights> weights) {
  adapters_.push_back(std::move(weights));
  return static_cast<int32_t>(adapters_.size());
}

const AdapterWeights* AdapterStore::find(int32_t id) const {
  if (id == 0) return nullptr;
  if (id < 0 || static_cast<size_t>(id) > adapters_.size())
    throw Error(cat("internal error: the plan uses adapter ", id, ", there are ", adapters_.size()));
  return adapters_[static_cast<size_t>(id - 1)].get();
}

void RowAdapters::assign(const AdapterStore& store, std::span<const int32_t> ids) {
  order_.clear();
  uses_.clear();
  for (size_t row = 0; row < ids.size(); ++row) {
    if (ids[row] != 0) order_.push_back(static_cast<int32_t>(row));
  }
  const auto id_of = [ids](int32_t row) { return ids[static_cast<size_t>(row)]; };
  std::ranges::sort(order_,
                    [&](int32_t a, int32_t b) { return id_of(a) != id_of(b) ? id_of(a) < id_of(b) : a < b; });
  for (size_t begin = 0; begin < order_.size();) {
    const int32_t id = id_of(order_[begin]);
    size_t end = begin;
    while (end < order_.size() && id_of(order_[end]) == id) ++end;
    uses_.push_back({.adapter = store.find(id), .rows = std::span(order_).subspan(begin, end - begin)});
    begin = end;
  }
  scratch_.resize(uses_.size());
  view_ = {.uses = uses_, .groups = scratch_, .first_row = 0, .num_rows = static_cast<int64_t>(ids.size())};
}

void StepAdapters::build(const StepPlan& plan, SequenceStore& sequences) {
  if (store_ == nullptr || store_->empty()) return;
  ids_.clear();
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    ids_.insert(ids_.end(), static_cast<size_t>(scheduled.num_new_tokens),
                sequences.at(scheduled.seq).adapter);
  }
  all_.assign(*store_, ids_);
}

const AdapterRows* StepAdapters::select(std::span<const int32_t> rows) {
  if (all_.rows() == nullptr) return nullptr;
  selected_ids_.clear();
  for (const int32_t row : rows) selected_ids_.push_back(ids_[static_cast<size_t>(row)]);
  selected_.assign(*store_, selected_ids_);
  return selected_.rows();
}

}  // namespace quire
