// Packed weights on disk. Pieces that an earlier start packed for the same weights and options are mapped
// from a file. If there is no such file, they are packed and then written for the next start. A problem with
// the file or its directory is a warning, and the model loads anyway.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/packed_file.h"
#include "tensor/tensor.h"

namespace quire {

// Compares the mapped pieces with their checksums on a thread of its own, of idle priority, so that it does
// not delay requests. Stops when it is destroyed.
class WeightVerification {
 public:
  // Names of the pieces in the order of the file. on_damage: called on that thread, at most once, with the
  // reason.
  WeightVerification(const PackedFile& file, std::filesystem::path path, std::vector<std::string> names,
                     std::function<void(const std::string&)> on_damage);
  ~WeightVerification();
  WeightVerification(const WeightVerification&) = delete;
  WeightVerification& operator=(const WeightVerification&) = delete;

 private:
  void run();
  void report(const std::string& name);

  PackedFile file_;
  std::filesystem::path path_;
  std::vector<std::string> names_;
  std::function<void(const std::string&)> on_damage_;
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last: started when everything else exists
};

// Used by the loading thread. Afterwards the model owns it until its weights are written.
class WeightCache {
 public:
  // fingerprint: hash of everything that decides the bytes of the pieces.
  WeightCache(std::filesystem::path file, std::string fingerprint);
  // Waits until the file is on disk, so that a program that ends at once writes one too.
  ~WeightCache();
  WeightCache(const WeightCache&) = delete;
  WeightCache& operator=(const WeightCache&) = delete;

  // The next piece: a view into the file, or the result of `make`. All starts with one fingerprint request
  // the same pieces in the same order.
  Buffer next(const std::string& name, int64_t bytes, const std::function<Buffer()>& make);

  // Returns whether that is the next piece in the file; nullopt if the remaining pieces are packed.
  std::optional<bool> holds_next(const std::string& name, int64_t bytes) const;

  // Ends the sequence of pieces. If any of them was packed, a thread writes all of them: their bytes must
  // neither change nor be freed before the cache is destroyed.
  void finish();
  // After finish(): verifies the mapped pieces in the background. Null if none is mapped. A damaged file is
  // removed, so that the next start packs the weights again.
  std::unique_ptr<WeightVerification> verify(std::function<void(const std::string&)> on_damage) const;

  int64_t mapped_bytes() const { return mapped_bytes_; }  // bytes of the pieces that are views into the file

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
