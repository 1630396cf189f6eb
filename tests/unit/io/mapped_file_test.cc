// Mapped files that are not regular files, or that change while they are mapped.
#include "io/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "io/json_file.h"
#include "io/mapped_region.h"
#include "support/eventually.h"
#include "support/sanitizers.h"
#include "unit/io/io_test_util.h"

namespace quire {
namespace {

using testing::HasSubstr;

constexpr size_t kPage = 4096;

// Sum of the bytes; reads every page.
uint64_t sum_of(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (const std::byte b : bytes) sum += std::to_integer<uint64_t>(b);
  return sum;
}

TEST(MappedFile, ReadsZerosAndNamesTheFileAfterATruncation) {
  const test::TempDir dir;
  const auto path = dir.write("weights", std::string(64 * kPage, '\1'));
  {
    const MappedFile file(path);
    EXPECT_EQ(sum_of(file.bytes()), 64 * kPage);
    EXPECT_EQ(lost_mapped_file(), std::nullopt);
    ASSERT_EQ(::truncate(path.c_str(), 3 * kPage), 0);
    EXPECT_EQ(sum_of(file.bytes()), 3 * kPage);
    EXPECT_EQ(lost_mapped_file(), path.string());
    EXPECT_EQ(sum_of(file.bytes()), 3 * kPage) << "a second time";
  }
  EXPECT_EQ(lost_mapped_file(), std::nullopt) << "after the end of the mapping";
}

TEST(MappedFile, SurvivesATruncationWhileManyThreadsRead) {
  const test::TempDir dir;
  const auto path = dir.write("weights", std::string(512 * kPage, '\1'));
  const MappedFile file(path);
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      for (int round = 0; round < test::repetitions(50, 10); ++round)
        EXPECT_LE(sum_of(file.bytes()), 512 * kPage);
    });
  }
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(sum_of(file.bytes()), 0U);
  EXPECT_EQ(lost_mapped_file(), path.string());
}

TEST(MappedFile, KeepsTheRegionWhenItIsMoved) {
  const test::TempDir dir;
  const auto path = dir.write("weights", std::string(8 * kPage, '\1'));
  MappedFile first(path);
  MappedFile second(std::move(first));
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  EXPECT_EQ(sum_of(second.bytes()), 0U);
  EXPECT_EQ(lost_mapped_file(), path.string());
}

TEST(MappedFileDeathTest, LeavesOtherBusErrorsAlone) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const test::TempDir dir;
  const auto path = dir.write("weights", std::string(8 * kPage, '\1'));
  const MappedFile file(path);
  const auto other = dir.write("other", std::string(8 * kPage, '\1'));
  // Sanitizers report the signal and exit.
  const auto ends_by_signal = [](int status) {
    return test::kSanitizer ? WIFEXITED(status) && WEXITSTATUS(status) != 0
                            : WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
  };
  EXPECT_EXIT(
      {
        const int fd = ::open(other.c_str(), O_RDONLY);
        const auto* bytes =
            static_cast<const volatile char*>(::mmap(nullptr, 8 * kPage, PROT_READ, MAP_PRIVATE, fd, 0));
        if (::truncate(other.c_str(), 0) != 0) std::exit(1);
        std::exit(bytes[0]);
      },
      ends_by_signal, test::kSanitizer ? "Sanitizer: BUS" : "");
}

// A reader that waits for the other end of a pipe hangs. This opens the other end then, so that the test
// ends.
class Unblocker {
 public:
  explicit Unblocker(std::string path)
      : thread_([this, path = std::move(path)] {
          while (!test::eventually([&] { return done_.load(); })) {
            ADD_FAILURE() << "something waits for the pipe";
            ::close(::open(path.c_str(), O_WRONLY | O_NONBLOCK));
          }
        }) {}
  ~Unblocker() {
    done_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

TEST(MappedFile, RejectsANamedPipeWithoutWaitingForIt) {
  const test::TempDir dir;
  const auto path = dir.path() / "model-00001-of-00002.safetensors";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const Unblocker unblocker(path.string());
  EXPECT_THAT(test::error_of([&] { MappedFile file(path); }),
              HasSubstr("not a regular file but a named pipe"));
  EXPECT_THAT(test::error_of([&] { read_text_file(path); }),
              HasSubstr("not a regular file but a named pipe"));
}

TEST(MappedFile, RejectsDirectoriesDevicesAndSockets) {
  const test::TempDir dir;
  EXPECT_THAT(test::error_of([&] { MappedFile file(dir.path()); }), HasSubstr("but a directory"));
  EXPECT_THAT(test::error_of([] { MappedFile file("/dev/zero"); }), HasSubstr("but a device"));
  const auto path = dir.path() / "socket";
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.string().size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(test::error_of([&] { MappedFile file(path); }), HasSubstr("but a socket"));
  ::close(fd);
}

}  // namespace
}  // namespace quire
