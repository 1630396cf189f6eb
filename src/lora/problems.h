// Collects the problems of an adapter for one message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quire::lora {

// A name of a file, a tensor or a key as part of a message: shortened, without control characters.
std::string shown(std::string_view name);

// Collects problems. Only the first ones are kept as text, so that no file can make a message of any size.
class Problems {
 public:
  static constexpr size_t kShown = 20;

  void add(std::string problem);
  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  // " the first; the second; note", or one line each if there are more than three. Follows a colon.
  std::string text(const std::string& note) const;

 private:
  std::vector<std::string> first_;
  size_t count_ = 0;
};

}  // namespace quire::lora
