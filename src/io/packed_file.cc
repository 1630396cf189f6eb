#include "io/packed_file.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <sys/file.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/strings.h"
#include "io/file_handle.h"
#include "io/output_file.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic = {'q', 'u', 'i', 'r', 'e', 'p', 'w', '\n'};
constexpr uint32_t kVersion = 2;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = uint64_t{2} << 20;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t num_pieces = 0;
  uint64_t file_bytes = 0;
  std::array<char, Fingerprint::kDigits> fingerprint = {};
  uint64_t checksum = 0;
};
static_assert(sizeof(Header) == 64 && sizeof(PackedPlace) == 32);

uint64_t checksum_of(const Header& header, std::span<const PackedPlace> places) {
  const uint64_t fields = XXH3_64bits(&header, offsetof(Header, checksum));
  return XXH3_64bits_withSeed(places.data(), places.size_bytes(), fields);
}

uint64_t hash_of(std::string_view name) {
  return XXH3_64bits(name.data(), name.size());
}

uint64_t round_up(uint64_t offset, uint64_t to) {
  return (offset + to - 1) / to * to;
}

// Offset of a piece after another one. Aligned like a Buffer: to a huge page if it is at least that large.
uint64_t next_begin(uint64_t end, uint64_t bytes) {
  return round_up(end, bytes >= kHugePage ? kHugePage : kPage);
}

uint64_t table_end(uint64_t num_pieces) {
  return sizeof(Header) + num_pieces * sizeof(PackedPlace);
}

// The header of a file; nullopt if it has another version or fingerprint. Throws Error.
std::optional<Header> read_header(std::span<const std::byte> bytes, const std::string& name,
                                  std::string_view fingerprint) {
  Header header;
  if (bytes.size() < sizeof(header)) throw Error(cat(name, ": has only ", bytes.size(), " bytes"));
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) throw Error(cat(name, ": not a file of packed weights"));
  if (header.version != kVersion || !std::ranges::equal(header.fingerprint, fingerprint)) return std::nullopt;
  if (header.file_bytes != bytes.size())
    throw Error(cat(name, ": has ", bytes.size(), " bytes, but its header states ", header.file_bytes));
  if (table_end(header.num_pieces) > bytes.size())
    throw Error(cat(name, ": is too short for the ", header.num_pieces, " pieces stated in its header"));
  return header;
}

}  // namespace

std::optional<PackedFile> PackedFile::open(const fs::path& path, std::string_view fingerprint) {
  std::error_code error;
  if (fs::status(path, error).type() == fs::file_type::not_found) return std::nullopt;
  auto file = std::make_shared<const MappedFile>(path);
  const auto bytes = file->bytes();
  const auto header = read_header(bytes, path.string(), fingerprint);
  if (!header) return std::nullopt;
  std::vector<PackedPlace> places(header->num_pieces);
  const auto table = std::as_writable_bytes(std::span(places));
  std::ranges::copy(bytes.subspan(sizeof(Header), table.size()), table.begin());
  if (checksum_of(*header, places) != header->checksum)
    throw Error(cat(path.string(), ": the checksum of its table does not match its header"));
  for (const PackedPlace& place : places) {
    const bool inside = place.begin >= table_end(places.size()) && place.begin <= bytes.size() &&
                        place.bytes > 0 && place.bytes <= bytes.size() - place.begin;
    if (!inside || place.begin % kPage != 0)
      throw Error(
          cat(path.string(), ": a piece of ", place.bytes, " bytes has the invalid offset ", place.begin));
  }
  file->expect_long_use();
  return PackedFile(std::move(file), std::move(places));
}

Buffer PackedFile::piece(size_t index, std::string_view name, size_t bytes) const {
  if (index >= places_.size()) return {};
  const PackedPlace& place = places_[index];
  if (place.name_hash != hash_of(name) || place.bytes != bytes) return {};
  return Buffer::borrowed(file_->bytes().subspan(place.begin, bytes), file_);
}

std::optional<bool> PackedFile::intact(size_t index, const std::atomic<bool>& stop) const {
  constexpr size_t kPart = size_t{1} << 20;
  const PackedPlace& place = places_[index];
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  std::span<const std::byte> rest = file_->bytes().subspan(place.begin, place.bytes);
  while (!rest.empty()) {
    if (stop.load(std::memory_order_relaxed)) return std::nullopt;
    const auto part = rest.first(std::min(rest.size(), kPart));
    XXH3_64bits_update(&hash, part.data(), part.size());
    rest = rest.subspan(part.size());
  }
  return XXH3_64bits_digest(&hash) == place.checksum;
}

namespace {

void write_pieces(const fs::path& part, std::string_view fingerprint, std::span<const PackedPiece> pieces) {
  Header header;
  header.num_pieces = static_cast<uint32_t>(pieces.size());
  std::copy_n(fingerprint.data(), std::min(fingerprint.size(), header.fingerprint.size()),
              header.fingerprint.data());
  std::vector<PackedPlace> places;
  uint64_t end = table_end(pieces.size());
  for (const PackedPiece& piece : pieces) {
    places.push_back({hash_of(piece.name), next_begin(end, piece.bytes.size()), piece.bytes.size(),
                      XXH3_64bits(piece.bytes.data(), piece.bytes.size())});
    end = places.back().begin + piece.bytes.size();
  }
  header.file_bytes = round_up(end, kPage);
  header.checksum = checksum_of(header, places);

  const std::vector<std::byte> zeros(kHugePage);
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(&header, 1)),
                                                   std::as_bytes(std::span(places))};
  end = table_end(pieces.size());
  const auto fill_to = [&](uint64_t offset) { parts.push_back(std::span(zeros).first(offset - end)); };
  for (size_t i = 0; i < pieces.size(); ++i) {
    fill_to(places[i].begin);
    parts.push_back(pieces[i].bytes);
    end = places[i].begin + places[i].bytes;
  }
  fill_to(header.file_bytes);

  OutputFile file(part);
  file.resize(static_cast<int64_t>(header.file_bytes));
  file.write(0, parts);
  file.close();
}

[[noreturn]] void fail(const fs::path& path, std::string_view what, int error) {
  throw Error(cat(path.string(), ": ", what, ": ", std::strerror(error)));
}

}  // namespace

bool write_packed_file(const fs::path& path, std::string_view fingerprint,
                       std::span<const PackedPiece> pieces) {
  // A separate file to lock, because the others are renamed. It is never removed, so that all processes lock
  // the same one.
  const fs::path lock_path = cat(path.string(), ".lock");
  const FileHandle lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!lock) fail(lock_path, "cannot create the file", errno);
  if (::flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    fail(lock_path, "cannot lock the file", errno);
  }
  const fs::path part = cat(path.string(), ".part");
  std::error_code error;
  fs::remove(part, error);  // left by a killed process
  try {
    write_pieces(part, fingerprint, pieces);
    fs::rename(part, path, error);
    if (error) fail(path, "cannot replace the file", error.value());
  } catch (const Error&) {
    fs::remove(part, error);
    throw;
  }
  return true;
}

}  // namespace quire
