// An op table that runs the ops of another one on memory that the host cannot access between ops. As with a
// device that has memory of its own, any access outside an op ends the program.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/op_table.h"

namespace quire::test {

// Ranges of memory that are accessible only while an op runs. One thread runs ops at a time.
class GuardedMemory {
 public:
  GuardedMemory() = default;
  GuardedMemory(const GuardedMemory&) = delete;  // guarded ops point to it
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { open(); }

  // A buffer starts at a page, and nothing else is in its pages.
  void add(Buffer& buffer) {
    if (buffer.size() > 0) ranges_.emplace_back(buffer.data(), buffer.size());
  }
  void open() { protect(PROT_READ | PROT_WRITE); }
  void close() { protect(PROT_NONE); }

  // Ops that have run on the memory without a stream.
  int64_t num_without_stream = 0;

  // The memory that the ops of guarded() open; null = they run as they are.
  static GuardedMemory*& current() {
    static GuardedMemory* memory = nullptr;
    return memory;
  }

 private:
  void protect(int access) const {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (const auto& [begin, size] : ranges_) {
      if (mprotect(begin, (size + page - 1) / page * page, access) != 0) throw Error("mprotect failed");
    }
  }

  std::vector<std::pair<std::byte*, size_t>> ranges_;
};

// Closes the memory for as long as it lives, except during the ops of a guarded table.
class ClosedMemory {
 public:
  explicit ClosedMemory(GuardedMemory& memory) : memory_(memory) {
    GuardedMemory::current() = &memory;
    memory.close();
  }
  ClosedMemory(const ClosedMemory&) = delete;
  ClosedMemory& operator=(const ClosedMemory&) = delete;
  ~ClosedMemory() {
    GuardedMemory::current() = nullptr;
    memory_.open();
  }

 private:
  GuardedMemory& memory_;
};

// Inner: a function that returns the table to run, which lives as long as the program.
template <auto kInner>
OpTable guarded() {
  OpTable table = kInner();
  for_each_op(AllOps{}, [&table]<class Args>() {
    table.set<Args>([](const OpContext& ctx, const Args& args) {
      GuardedMemory* memory = GuardedMemory::current();
      if (memory != nullptr) memory->open();
      if (memory != nullptr && ctx.stream == nullptr) ++memory->num_without_stream;
      kInner().run(ctx, args);
      if (memory != nullptr) memory->close();
    });
  });
  return table;
}

}  // namespace quire::test
