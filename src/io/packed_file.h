// Packed weights in one file, to be mapped where they would otherwise be made again. What decides the bytes
// of the pieces stands in the fingerprint, and is the caller's matter. The file:
//   header  magic, version, number of pieces, size of the file, fingerprint; a checksum of this and the table
//   table   for each piece a hash of its name, where it begins, how long it is
//   pieces  each from the begin of a page on, large ones of a huge page
// Header and table are checked before anything in them is used. The pieces are not: that would read all of
// them.
#pragma once

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

// A row of the table, as it stands in the file.
struct PackedPlace {
  uint64_t name_hash = 0;
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

// A complete file, mapped. Any thread.
class PackedFile {
 public:
  // None: there is no such file, or it was made of something else. Throws Error that says what is wrong with
  // the file where it is damaged or cannot be read.
  static std::optional<PackedFile> open(const std::filesystem::path& path, std::string_view fingerprint);

  size_t num_pieces() const { return places_.size(); }
  // The piece that stands at this place, as a view that keeps the mapping; empty where there is none, or one
  // of another name or size.
  Buffer piece(size_t index, std::string_view name, size_t bytes) const;

 private:
  PackedFile(std::shared_ptr<const MappedFile> file, std::vector<PackedPlace> places)
      : file_(std::move(file)), places_(std::move(places)) {}

  std::shared_ptr<const MappedFile> file_;
  std::vector<PackedPlace> places_;
};

// What is written: the bytes are the caller's.
struct PackedPiece {
  std::string name;
  std::span<const std::byte> bytes;
};

// Makes the file, or puts a new one in its place: under another name until all of it is on the disk, so that
// nobody ever finds a part of one. Who has the old one mapped keeps it. False: another process is writing it
// just now. Throws Error, and leaves nothing behind, where the disk is full or the directory refuses.
bool write_packed_file(const std::filesystem::path& path, std::string_view fingerprint,
                       std::span<const PackedPiece> pieces);

}  // namespace quire
