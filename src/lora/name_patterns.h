// The keys of rank_pattern and alpha_pattern: regular expressions for names of modules.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::lora {

// As in PEFT, a key k matches the names that (.*\.)?(k) matches as a whole, and the first key that matches
// is used. Used by one thread.
class NamePatterns {
 public:
  // `key` is the key of the configuration that has them, for errors. Throws Error if one is not a valid
  // regular expression, or if there are too many.
  NamePatterns(std::string_view key, std::vector<std::string> patterns);
  NamePatterns(NamePatterns&&) noexcept;
  NamePatterns& operator=(NamePatterns&&) noexcept;
  ~NamePatterns();

  // The index of the first that matches. Throws Error if a regular expression takes too many steps, or if all
  // calls together make too many comparisons.
  std::optional<size_t> find(std::string_view name);

 private:
  struct Compiled;
  struct Entry {
    std::string text;
    std::unique_ptr<Compiled> regex;  // null = no special character except "."
  };

  std::string key_;
  std::vector<Entry> entries_;
  int64_t comparisons_ = 0;
  int64_t matches_ = 0;  // with regular expressions
};

}  // namespace quire::lora
