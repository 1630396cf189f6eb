#include "engine/adapter_requests.h"

#include <utility>

#include "base/strings.h"

namespace quire {

void AdapterRequests::arrived(const std::string& name) {
  if (name.empty()) return;
  changed_ = counts_[name].waiting++ == 0 || changed_;
}

void AdapterRequests::started(std::string_view name) {
  const auto found = name.empty() ? counts_.end() : counts_.find(name);
  if (found == counts_.end()) return;
  changed_ = --found->second.waiting == 0 || changed_;
  changed_ = found->second.running++ == 0 || changed_;
}

void AdapterRequests::ended(std::string_view name, bool had_started) {
  const auto found = name.empty() ? counts_.end() : counts_.find(name);
  if (found == counts_.end()) return;
  Counts& counts = found->second;
  int64_t& count = had_started ? counts.running : counts.waiting;
  changed_ = --count == 0 || changed_;
  if (counts.waiting == 0 && counts.running == 0) counts_.erase(found);
}

bool AdapterRequests::take_change() {
  return std::exchange(changed_, false);
}

std::string AdapterRequests::waiting() const {
  return names(&Counts::waiting);
}

std::string AdapterRequests::running() const {
  return names(&Counts::running);
}

std::string AdapterRequests::names(int64_t Counts::*count) const {
  std::string text;
  for (const auto& [name, counts] : counts_) {
    if (counts.*count > 0) text += cat(text.empty() ? "" : ",", name);
  }
  return text;
}

}  // namespace quire
