// Token counts of one sequence, for the penalties.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/ids.h"

namespace quire {

// A hash table with open addressing and one entry per distinct token; it grows by doubling. A value type, not
// thread-safe.
class TokenCounts {
 public:
  struct Entry {
    TokenId token = -1;
    int32_t in_output = 0;  // number of times generated; 0 = the token is in the prompt only
  };

  void add_prompt(TokenId token);
  void add_output(TokenId token);
  std::span<const Entry> entries() const { return entries_; }  // in order of first appearance

 private:
  Entry& entry_of(TokenId token);
  void rehash(size_t num_slots);

  std::vector<Entry> entries_;
  std::vector<int32_t> slots_;  // [power of two] index into entries_, -1 = free; at most half are used
};

}  // namespace quire
