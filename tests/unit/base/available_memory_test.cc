#include "base/available_memory.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(AvailableMemory, IsAPartOfTheMachinesMemory) {
  const AvailableMemory memory = available_memory();
  EXPECT_GT(memory.bytes, 0);
  EXPECT_LE(memory.bytes, memory.total_bytes);
}

}  // namespace
}  // namespace quire
