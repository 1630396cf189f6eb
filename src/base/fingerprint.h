// A 128-bit hash (XXH3) of everything that a cached result depends on. Different inputs get different hashes
// except with negligible probability. Not cryptographic: collisions can be constructed on purpose.
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

  // The length of each part is hashed too, so ("ab", "c") and ("a", "bc") differ.
  void add(std::string_view text);
  void add(int64_t number);
  void add(std::span<const std::byte> bytes);

  std::string text() const;  // hash of all parts added so far, as kDigits hexadecimal digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quire
