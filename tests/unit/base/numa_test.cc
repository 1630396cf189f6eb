#include "base/numa.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace quire {
namespace {

TEST(Numa, ParsesLists) {
  EXPECT_EQ(parse_number_list("0"), std::vector<int>({0}));
  EXPECT_EQ(parse_number_list("0-2,5"), std::vector<int>({0, 1, 2, 5}));
  EXPECT_EQ(parse_number_list("1,3,8-9"), std::vector<int>({1, 3, 8, 9}));
}

TEST(Numa, RejectsInvalidLists) {
  for (const char* text : {"", "x", "1,", "2-1", "-1", "1-", "0-4096", "0 1", "99999999999"})
    EXPECT_FALSE(parse_number_list(text)) << text;
}

TEST(Numa, InterleavesUsablePages) {
  constexpr size_t kBytes = 1 << 20;
  void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(p, MAP_FAILED);
  interleave_pages(p, kBytes);
  auto* bytes = static_cast<char*>(p);
  bytes[kBytes - 1] = 7;
  EXPECT_EQ(bytes[0] + bytes[kBytes - 1], 7);
  munmap(p, kBytes);
}

}  // namespace
}  // namespace quire
