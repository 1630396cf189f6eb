#include "exec/step_adapters.h"

#include <algorithm>

namespace quire {

void RowAdapters::assign(std::span<const AdapterRef* const> adapters) {
  order_.clear();
  uses_.clear();
  const auto of = [adapters](int32_t row) -> const AdapterRef& {
    return *adapters[static_cast<size_t>(row)];
  };
  for (size_t row = 0; row < adapters.size(); ++row) {
    if (adapters[row]->id != 0) order_.push_back(static_cast<int32_t>(row));
  }
  std::ranges::sort(order_,
                    [&](int32_t a, int32_t b) { return of(a).id != of(b).id ? of(a).id < of(b).id : a < b; });
  for (size_t begin = 0; begin < order_.size();) {
    const AdapterRef& adapter = of(order_[begin]);
    size_t end = begin;
    while (end < order_.size() && of(order_[end]).id == adapter.id) ++end;
    uses_.push_back(
        {.adapter = adapter.weights.get(), .rows = std::span(order_).subspan(begin, end - begin)});
    begin = end;
  }
  groups_.resize(uses_.size());
  expert_groups_.resize(uses_.size());
  embedding_groups_.resize(uses_.size());
  token_groups_.resize(uses_.size());
  view_ = {.uses = uses_,
           .groups = groups_,
           .expert_groups = expert_groups_,
           .embedding_groups = embedding_groups_,
           .token_groups = token_groups_,
           .first_row = 0,
           .num_rows = static_cast<int64_t>(adapters.size())};
}

void StepAdapters::build(const StepPlan& plan, SequenceStore& sequences) {
  of_row_.clear();
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    of_row_.insert(of_row_.end(), static_cast<size_t>(scheduled.num_new_tokens),
                   &sequences.at(scheduled.seq).adapter);
  }
  all_.assign(of_row_);
}

const AdapterRows* StepAdapters::select(std::span<const int32_t> rows) {
  if (all_.rows() == nullptr) return nullptr;
  of_selected_.clear();
  for (const int32_t row : rows) of_selected_.push_back(of_row_[static_cast<size_t>(row)]);
  selected_.assign(of_selected_);
  return selected_.rows();
}

}  // namespace quire
