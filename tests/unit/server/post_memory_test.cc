#include "server/http/post_memory.h"

#include <gtest/gtest.h>

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

namespace quire {
namespace {

bool is_reserved(const PostMemory& memory, const void* p) {
  const auto* const begin = reinterpret_cast<const std::byte*>(&memory);
  return p >= begin && p < begin + sizeof(memory);
}

// Allocates and frees a few bytes. Whether they came from a slot.
bool has_free_slot(PostMemory& memory) {
  void* const p = memory.allocate(8);
  const bool reserved = is_reserved(memory, p);
  memory.deallocate(p);
  return reserved;
}

TEST(PostMemory, TakesFurtherAndLargerAllocationsFromTheHeap) {
  PostMemory memory;
  void* const large = memory.allocate(PostMemory::kSlotBytes + 1);
  void* const first = memory.allocate(PostMemory::kSlotBytes);
  void* const second = memory.allocate(1);
  void* const third = memory.allocate(1);
  EXPECT_FALSE(is_reserved(memory, large));
  EXPECT_TRUE(is_reserved(memory, first));
  EXPECT_TRUE(is_reserved(memory, second));
  EXPECT_NE(first, second);
  EXPECT_FALSE(is_reserved(memory, third));
  memory.deallocate(first);
  EXPECT_EQ(memory.allocate(1), first);
  for (void* p : {large, first, second, third}) memory.deallocate(p);
}

TEST(PostMemory, HoldsBothAllocationsOfAPostToAStrand) {
  namespace asio = boost::asio;
  asio::io_context io;
  const auto strand = asio::make_strand(io);
  const auto memory = std::make_shared<PostMemory>();
  bool free_while_running = false;
  asio::post(strand,
             asio::bind_allocator(PostAllocator<std::byte>(memory), [&, held = std::make_shared<int>()] {
               free_while_running = has_free_slot(*memory);
             }));
  EXPECT_FALSE(has_free_slot(*memory));
  io.run();
  EXPECT_TRUE(free_while_running);
}

TEST(PostMemory, OutlivesAPostThatNeverRuns) {
  namespace asio = boost::asio;
  auto memory = std::make_shared<PostMemory>();
  const std::weak_ptr<PostMemory> watch = memory;
  {
    asio::io_context io;
    asio::post(asio::make_strand(io), asio::bind_allocator(PostAllocator<std::byte>(memory), [memory] {}));
    memory.reset();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace quire
