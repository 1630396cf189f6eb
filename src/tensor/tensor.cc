#include "tensor/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <mutex>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/numa.h"

namespace quire {

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw Error("a tensor of " + std::to_string(dims.size()) + " dimensions; at most 4 are supported");
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
  rank_ = static_cast<int>(dims.size());
}

int64_t Shape::numel() const {
  int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<size_t>(i)];
  return n;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims_[static_cast<size_t>(i)]);
  }
  return text + "]";
}

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

size_t whole_huge_pages(size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

// Maps anonymous pages, which are zero and allocated on first access. Returns null if there is no memory.
std::byte* map_pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

// Same, aligned to a huge page and backed by huge pages except for the end.
std::byte* map_huge_pages(size_t bytes) {
  std::byte* begin = map_pages(bytes + kHugePage);
  if (begin == nullptr) return nullptr;
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) munmap(begin, before);
  begin += before;
  if (before < kHugePage) munmap(begin + bytes, kHugePage - before);
  madvise(begin, bytes, MADV_HUGEPAGE);
  interleave_pages(begin, bytes);
  return begin;
}

// Allocates small buffers next to each other in slabs of huge pages, from which small matrices are read a
// third faster. Freed ranges are reused by the next buffer that fits. Only whole huge pages are returned to
// the system, because returning a part splits the page and slows down its other buffers. Empty slabs are
// unmapped. Thread-safe.
class Slabs {
 public:
  static constexpr size_t kSmallest = size_t{64} << 10;
  static constexpr size_t kLargest = size_t{16} << 20;

  // Returns zeroed memory, or null if there is none. bytes: a multiple of the page size, between the two
  // limits.
  std::byte* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (Slab& slab : slabs_) {
      if (std::byte* taken = slab.take(bytes); taken != nullptr) return taken;
    }
    std::byte* begin = map_huge_pages(kSlab);
    if (begin == nullptr) return nullptr;
    slabs_.push_back({begin, {{0, kSlab}}});
    return slabs_.back().take(bytes);
  }

  // Frees p and returns true if it was allocated here. For destructors: if the list of free ranges cannot
  // grow, the range is lost.
  bool give_back(std::byte* p, size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    const auto slab = std::ranges::find_if(slabs_, [p](const Slab& s) {
      return !std::less<>()(p, s.begin) && std::less<>()(p, s.begin + kSlab);
    });
    if (slab == slabs_.end()) return false;
    const auto at = static_cast<size_t>(p - slab->begin);
    try {
      slab->give_back({at, at + bytes});
    } catch (const std::bad_alloc&) {
      return true;
    }
    if (slab->free.front().end - slab->free.front().begin == kSlab) {
      munmap(slab->begin, kSlab);
      slabs_.erase(slab);
    }
    return true;
  }

 private:
  static constexpr size_t kSlab = size_t{64} << 20;

  struct Range {
    size_t begin;
    size_t end;
  };
  struct Slab {
    std::byte* begin;
    std::vector<Range> free;  // sorted, not adjacent
    size_t used = 0;          // memory past this offset was never written

    std::byte* take(size_t bytes) {
      const auto range = std::ranges::find_if(free, [&](const Range& r) { return r.end - r.begin >= bytes; });
      if (range == free.end()) return nullptr;
      const size_t at = range->begin;
      range->begin += bytes;
      if (range->begin == range->end) free.erase(range);
      if (at < used) std::memset(begin + at, 0, std::min(used - at, bytes));
      used = std::max(used, at + bytes);
      return begin + at;
    }

    void give_back(Range range) {
      auto merged = std::ranges::find_if(free, [&](const Range& r) { return r.end >= range.begin; });
      if (merged != free.end() && merged->end == range.begin) {
        merged->end = range.end;
      } else {
        merged = free.insert(merged, range);
      }
      if (const auto behind = std::next(merged); behind != free.end() && behind->begin == merged->end) {
        merged->end = behind->end;
        free.erase(behind);
      }
      // The huge pages that became completely free.
      const size_t from = whole_huge_pages(std::max(merged->begin, range.begin / kHugePage * kHugePage));
      const size_t to = std::min(merged->end, whole_huge_pages(range.end)) / kHugePage * kHugePage;
      if (from < to) madvise(begin + from, to - from, MADV_DONTNEED);
    }
  };

  std::mutex mutex_;
  std::vector<Slab> slabs_;
};

// Never destroyed, because buffers with static storage may outlive it.
Slabs& slabs() {
  static auto* made = new Slabs;
  return *made;
}

}  // namespace

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  std::byte* p = nullptr;
  size_t mapped = 0;
  if (bytes < std::numeric_limits<size_t>::max() / 2) {
    mapped = (bytes + kPage - 1) / kPage * kPage;
    p = mapped < Slabs::kSmallest   ? map_pages(mapped)
        : mapped <= Slabs::kLargest ? slabs().take(mapped)
                                    : map_huge_pages(mapped);
  }
  if (p == nullptr) throw Error("cannot allocate " + std::to_string(bytes) + " bytes");
  data_ = std::unique_ptr<std::byte, Unmap>(p, Unmap(mapped));
}

Buffer Buffer::borrowed(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  Buffer buffer;
  buffer.data_ =
      std::unique_ptr<std::byte, Unmap>(const_cast<std::byte*>(bytes.data()), Unmap(std::move(owner)));
  buffer.size_ = bytes.size();
  return buffer;
}

void Buffer::Unmap::operator()(std::byte* p) const {
  if (owner != nullptr) return;
  if (bytes < Slabs::kSmallest || bytes > Slabs::kLargest || !slabs().give_back(p, bytes)) munmap(p, bytes);
}

int64_t TensorView::row_size() const {
  int64_t n = 1;
  for (int i = 1; i < shape.rank(); ++i) n *= shape[i];
  return n;
}

TensorView make_view(void* data, DType dtype, Shape shape) {
  TensorView view{data, dtype, shape, 0};
  view.row_stride = view.row_size();
  return view;
}

TensorView column_slice(const TensorView& view, int64_t begin, int64_t end) {
  auto* bytes = static_cast<std::byte*>(view.data) + static_cast<size_t>(begin) * dtype_size(view.dtype);
  return TensorView{bytes, view.dtype, Shape{view.shape[0], end - begin}, view.row_stride};
}

TensorView row_slice(const TensorView& view, int64_t begin, int64_t end) {
  auto* bytes = static_cast<std::byte*>(view.data) +
                static_cast<size_t>(begin * view.row_stride) * dtype_size(view.dtype);
  std::array<int64_t, Shape::kMaxRank> dims = {};
  for (int i = 0; i < view.shape.rank(); ++i) dims[static_cast<size_t>(i)] = view.shape[i];
  dims[0] = end - begin;
  return TensorView{bytes, view.dtype,
                    Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(view.shape.rank()))),
                    view.row_stride};
}

}  // namespace quire
