// The part of a matrix of the checkpoint that a matrix in memory has, if the latter is computed from it.
#pragma once

#include <cstdint>

namespace quire {

// Rows [begin, begin + count) of a source [rows, columns]. They are rows of the matrix in memory from
// `out_begin` on, or if they are transposed, its first columns in the rows from `out_begin` on. The rest of
// the matrix does not depend on the source.
struct SourceRows {
  int64_t begin = 0;
  int64_t count = 0;
  bool transposed = false;
  int64_t out_begin = 0;
};

}  // namespace quire
