// A file of packed weights, mapped instead of packing them again. The caller's fingerprint covers everything
// that decides the bytes of the pieces. The file:
//   header  magic, version, number of pieces, file size, fingerprint; a checksum of these and of the table
//   table   for each piece: hash of its name, offset, size, checksum
//   pieces  each aligned to a page, large ones to a huge page
// Header and table are checked before anything in them is used. The pieces are not, because that reads all
// of them: intact() checks one, in the background after a start.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/mapped_file.h"
#include "tensor/tensor.h"

namespace quire {

// A row of the table, as stored in the file.
struct PackedPlace {
  uint64_t name_hash = 0;
  uint64_t begin = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // XXH3 of the piece
};

// A complete file, mapped. Any thread may read it.
class PackedFile {
 public:
  // Returns nullopt if the file does not exist or has another fingerprint. Throws Error if it is damaged or
  // cannot be read.
  static std::optional<PackedFile> open(const std::filesystem::path& path, std::string_view fingerprint);

  size_t num_pieces() const { return places_.size(); }
  // Piece number `index`, as a view that keeps the mapping alive; empty if it does not exist or has another
  // name or size.
  Buffer piece(size_t index, std::string_view name, size_t bytes) const;
  // Compares a piece with its checksum; reads it in parts and returns nullopt soon after `stop` is set.
  std::optional<bool> intact(size_t index, const std::atomic<bool>& stop) const;

 private:
  PackedFile(std::shared_ptr<const MappedFile> file, std::vector<PackedPlace> places)
      : file_(std::move(file)), places_(std::move(places)) {}

  std::shared_ptr<const MappedFile> file_;
  std::vector<PackedPlace> places_;
};

// A piece to write. The bytes belong to the caller.
struct PackedPiece {
  std::string name;
  std::span<const std::byte> bytes;
};

// Writes the file atomically: under a temporary name until all data is on disk, then renamed. Processes that
// have the old file mapped keep it. Returns false if another process is writing the file. Throws Error, and
// leaves nothing behind, if the disk is full or the directory is not writable.
bool write_packed_file(const std::filesystem::path& path, std::string_view fingerprint,
                       std::span<const PackedPiece> pieces);

}  // namespace quire
