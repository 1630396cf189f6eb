// Files of packed weights: pieces are read back as written, and headers and tables are checked.
#include "io/packed_file.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "io/file_handle.h"
#include "unit/io/io_test_util.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kFingerprint = "00112233445566778899aabbccddeeff";

std::string text_of(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

struct Written {
  test::TempDir dir;
  fs::path path = dir.path() / "x.weights";
  std::string one = std::string(5000, 'a') + "end";
  std::string two = "short";

  Written() { EXPECT_TRUE(write()); }
  bool write() const {
    return write_packed_file(
        path, kFingerprint,
        std::vector<PackedPiece>{{"one", test::as_bytes(one)}, {"two", test::as_bytes(two)}});
  }
  // Applies `change` to header and table of the file and updates the checksum.
  void forge(const std::function<void(std::string&)>& change) const {
    std::ifstream in(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    change(bytes);
    uint32_t pieces = 0;
    std::memcpy(&pieces, bytes.data() + 12, sizeof(pieces));
    const size_t table = std::min<size_t>(size_t{pieces} * 32, bytes.size() - 64);
    const uint64_t sum = XXH3_64bits_withSeed(bytes.data() + 64, table, XXH3_64bits(bytes.data(), 56));
    std::memcpy(bytes.data() + 56, &sum, sizeof(sum));
    dir.write("x.weights", bytes);
  }
};

TEST(PackedFile, ReadsBackPieces) {
  const Written written;
  auto file = PackedFile::open(written.path, kFingerprint);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->num_pieces(), 2U);
  const Buffer one = file->piece(0, "one", written.one.size());
  const Buffer two = file->piece(1, "two", written.two.size());
  for (const Buffer* piece : {&one, &two}) EXPECT_EQ(reinterpret_cast<uintptr_t>(piece->data()) % 4096, 0U);
  // The view keeps the mapping alive without the object and the path.
  file.reset();
  fs::remove(written.path);
  EXPECT_EQ(text_of(one), written.one);
  EXPECT_EQ(text_of(two), written.two);
}

TEST(PackedFile, ChecksIndexNameAndSizeOfAPiece) {
  const Written written;
  const auto file = PackedFile::open(written.path, kFingerprint);
  EXPECT_EQ(file->piece(0, "two", written.two.size()).size(), 0U);
  EXPECT_EQ(file->piece(0, "one", written.one.size() - 1).size(), 0U);
  EXPECT_EQ(file->piece(2, "two", written.two.size()).size(), 0U);
}

TEST(PackedFile, RejectsOtherFingerprintsAndVersions) {
  const Written written;
  EXPECT_FALSE(PackedFile::open(written.dir.path() / "y.weights", kFingerprint));
  EXPECT_FALSE(PackedFile::open(written.path, "10112233445566778899aabbccddeeff"));
  written.forge([](std::string& bytes) { bytes[8] = 1; });
  EXPECT_FALSE(PackedFile::open(written.path, kFingerprint)) << "another version";
}

// Invalid contents with a valid checksum.
TEST(PackedFile, RejectsPiecesOutsideOfTheFile) {
  const auto put = [](size_t at, uint64_t value, size_t size = 8) {
    return [=](std::string& bytes) { std::memcpy(bytes.data() + at, &value, size); };
  };
  const auto error = [](const std::function<void(std::string&)>& change) {
    const Written written;
    written.forge(change);
    return test::error_of([&] { PackedFile::open(written.path, kFingerprint); });
  };
  EXPECT_THAT(error(put(12, 0xffffffff, 4)), HasSubstr("too short for the 4294967295 pieces"));
  EXPECT_THAT(error(put(16, 1 << 20)), HasSubstr("bytes, but its header states 1048576"));
  EXPECT_THAT(error(put(64 + 8, 0)), HasSubstr("invalid offset 0"));
  EXPECT_THAT(error(put(64 + 8, 4097)), HasSubstr("invalid offset 4097"));
  EXPECT_THAT(error(put(64 + 8, 1 << 20)), HasSubstr("invalid offset 1048576"));
  EXPECT_THAT(error(put(64 + 8, ~uint64_t{4095})), HasSubstr("invalid offset"));
  EXPECT_THAT(error(put(64 + 16, ~uint64_t{0})), HasSubstr("a piece of 18446744073709551615 bytes"));
  EXPECT_THAT(error(put(64 + 16, 0)), HasSubstr("a piece of 0 bytes"));
}

TEST(PackedFile, DetectsAFlippedBit) {
  const Written written;
  const std::atomic<bool> stop{false};
  {
    const auto file = PackedFile::open(written.path, kFingerprint);
    EXPECT_EQ(file->intact(0, stop), true);
    EXPECT_EQ(file->intact(1, stop), true);
  }
  for (const size_t piece : {size_t{0}, size_t{1}}) {
    std::ifstream in(written.path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const std::string& text = piece == 0 ? written.one : written.two;
    bytes[bytes.find(text) + text.size() - 1] ^= 4;
    written.dir.write("flipped.weights", bytes);
    const auto file = PackedFile::open(written.dir.path() / "flipped.weights", kFingerprint);
    EXPECT_EQ(file->intact(piece, stop), false);
    EXPECT_EQ(file->intact(1 - piece, stop), true);
  }
}

TEST(PackedFile, StopsCheckingOnRequest) {
  const Written written;
  const auto file = PackedFile::open(written.path, kFingerprint);
  const std::atomic<bool> stop{true};
  EXPECT_EQ(file->intact(0, stop), std::nullopt);
}

TEST(PackedFile, AllowsOneWriterAtATime) {
  const Written written;
  const FileHandle lock(::open((written.path.string() + ".lock").c_str(), O_RDWR));
  ASSERT_EQ(::flock(lock.fd(), LOCK_EX | LOCK_NB), 0);
  EXPECT_FALSE(written.write());
  ASSERT_EQ(::flock(lock.fd(), LOCK_UN), 0);
  EXPECT_TRUE(written.write());
}

TEST(PackedFile, ReplacesThePartialFileOfAKilledWriter) {
  const Written written;
  written.dir.write("x.weights.part", "half of");
  EXPECT_TRUE(written.write());
  EXPECT_FALSE(fs::exists(written.path.string() + ".part"));
}

TEST(PackedFile, FailedWritesKeepOnlyTheOldFile) {
  const Written written;
  fs::create_directory(written.path.string() + ".part");
  written.dir.write("x.weights.part/in the way", "");
  EXPECT_THAT(test::error_of([&] { written.write(); }), HasSubstr("x.weights.part: cannot create the file"));
  EXPECT_TRUE(PackedFile::open(written.path, kFingerprint));
}

}  // namespace
}  // namespace quire
