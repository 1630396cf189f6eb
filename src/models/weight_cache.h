// Packed weights that outlive the process: pieces that an earlier start has packed for the same weights and
// options are mapped out of a file; where there is no such file they are packed, and then written for the
// next start. Whatever is wrong with file or directory is a warning, and the model loads all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/packed_file.h"
#include "tensor/tensor.h"

namespace quire {

// Used by the loading thread; then it lies still beside the model whose weights it writes.
class WeightCache {
 public:
  // fingerprint: of everything that decides the pieces' bytes.
  WeightCache(std::filesystem::path file, std::string fingerprint);
  // Waits until what is being written is on the disk: a program that ends at once leaves a file too.
  ~WeightCache();
  WeightCache(const WeightCache&) = delete;
  WeightCache& operator=(const WeightCache&) = delete;

  // The next piece: a view into the file, or what `make` returns. All starts with one fingerprint ask for the
  // same pieces in the same order.
  Buffer next(const std::string& name, int64_t bytes, const std::function<Buffer()>& make);

  // Whether that is the next piece in the file; none: all that is asked for from here on is made.
  std::optional<bool> holds_next(const std::string& name, int64_t bytes) const;

  // All pieces were asked for. Where some had to be made, all are written by a thread of its own: their bytes
  // must neither change nor go before the cache does.
  void finish();

  int64_t mapped_bytes() const { return mapped_bytes_; }  // of the pieces that are views into the file

 private:
  void write() const;

  std::filesystem::path path_;
  std::string fingerprint_;
  double begin_;  // seconds
  std::optional<PackedFile> file_;
  std::vector<PackedPiece> pieces_;
  int64_t bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  std::thread writer_;
};

}  // namespace quire
