// How often each token stands in one sequence, for the penalties.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/ids.h"

namespace quire {

// A sparse table: one entry for each distinct token, found by open addressing. Its memory grows with the
// distinct tokens, by doubling. A value type; one thread at a time.
class TokenCounts {
 public:
  struct Entry {
    TokenId token = -1;
    int32_t in_output = 0;  // times generated; 0: the token stands in the prompt only
  };

  void add_prompt(TokenId token);
  void add_output(TokenId token);
  std::span<const Entry> entries() const { return entries_; }  // in order of first appearance

 private:
  Entry& entry_of(TokenId token);
  void rehash(size_t num_slots);

  std::vector<Entry> entries_;
  std::vector<int32_t>
      slots_;  // [power of two] index into entries_, -1 where free; at most half of them taken
};

}  // namespace quire
