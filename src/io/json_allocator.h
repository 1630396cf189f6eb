// The allocator of RapidJSON's parsers and documents. RapidJSON does not check for null, so this one throws
// std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace quire {

class JsonAllocator {
 public:
  static constexpr bool kNeedFree = true;

  void* Malloc(size_t size) {  // NOLINT(readability-identifier-naming): RapidJSON's name
    if (size == 0) return nullptr;
    void* const memory = std::malloc(size);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void* Realloc(void* old, size_t /*old_size*/, size_t size) {  // NOLINT(readability-identifier-naming)
    if (size == 0) {
      std::free(old);
      return nullptr;
    }
    void* const memory = std::realloc(old, size);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  static void Free(void* memory) { std::free(memory); }  // NOLINT(readability-identifier-naming)
};

}  // namespace quire
