// Bytes of responses that the socket has not taken yet. Large strings are moved in and never copied.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

namespace quire {

class OutputQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  void push(std::string bytes) {
    if (bytes.empty()) return;
    size_ += bytes.size();
    // Stream events are a hundred bytes each; one write sends many.
    if (!chunks_.empty() && chunks_.back().size() + bytes.size() <= kMergeBytes) {
      chunks_.back() += bytes;
    } else {
      chunks_.push_back(std::move(bytes));
    }
  }
  // The bytes to be sent next; not empty unless the queue is.
  std::string_view front() const {
    return chunks_.empty() ? std::string_view() : std::string_view(chunks_.front()).substr(sent_);
  }
  // `bytes` of front() were sent.
  void pop(size_t bytes) {
    size_ -= bytes;
    sent_ += bytes;
    if (sent_ < chunks_.front().size()) return;
    chunks_.pop_front();
    sent_ = 0;
  }

 private:
  static constexpr size_t kMergeBytes = 64 << 10;

  std::deque<std::string> chunks_;
  size_t sent_ = 0;  // bytes of the first chunk
  size_t size_ = 0;
};

}  // namespace quire
