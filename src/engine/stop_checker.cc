#include "engine/stop_checker.h"

#include <algorithm>

namespace quire {

StopChecker::StopChecker(std::shared_ptr<const std::vector<std::string>> stops, bool include_stop_in_output)
    : stops_(std::move(stops)), include_stop_(include_stop_in_output) {}

StopChecker::StopChecker(std::vector<std::string> stops, bool include_stop_in_output)
    : StopChecker(std::make_shared<const std::vector<std::string>>(std::move(stops)),
                  include_stop_in_output) {}

StopChecker::Step StopChecker::append(std::string_view piece, bool check) {
  const size_t searched = pending_.size();  // no match may end before
  pending_ += piece;
  if (check && !piece.empty()) {
    if (auto step = find_stop(searched)) return *std::move(step);
  }
  const size_t keep = held_back();
  Step step{pending_.substr(0, pending_.size() - keep), std::nullopt};
  pending_.erase(0, pending_.size() - keep);
  return step;
}

std::optional<StopChecker::Step> StopChecker::find_stop(size_t searched) {
  size_t best_end = std::string::npos;
  const std::string* best = nullptr;
  for (const auto& stop : *stops_) {
    const size_t begin = pending_.find(stop, searched + 1 - std::min(searched + 1, stop.size()));
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (best == nullptr || end < best_end || (end == best_end && stop.size() > best->size())) {
      best_end = end;
      best = &stop;
    }
  }
  if (best == nullptr) return std::nullopt;
  Step step{pending_.substr(0, include_stop_ ? best_end : best_end - best->size()), *best};
  pending_.clear();
  return step;
}

std::string StopChecker::flush() {
  std::string rest;
  rest.swap(pending_);
  return rest;
}

size_t StopChecker::held_back() const {
  size_t longest = 0;
  for (const auto& stop : *stops_) {
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > longest; --n) {
      if (std::string_view(pending_).substr(pending_.size() - n) == std::string_view(stop).substr(0, n)) {
        longest = n;
        break;
      }
    }
  }
  return longest;
}

}  // namespace quire
