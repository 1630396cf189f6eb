// A name for everything that something depends on: equal where all of it is equal. 128 bits (XXH3), which
// nobody forges by accident; against those who want to it promises nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace quire {

class Fingerprint {
 public:
  static constexpr size_t kDigits = 32;

  Fingerprint();
  ~Fingerprint();

  // Each part counts with its length, so that parts never run into each other.
  void add(std::string_view text);
  void add(int64_t number);
  void add(std::span<const std::byte> bytes);

  std::string text() const;  // of what was added so far: kDigits hexadecimal digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quire
