#include "tensor/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <mutex>
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

// Anonymous pages are zero and cost nothing until they are touched; null: there is no room for them.
std::byte* map_pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

// The same from the begin of a huge page on, and made of such but for its end.
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

// Buffers too small for huge pages of their own, side by side in slabs of them: small matrices are read a
// third faster out of these. What a buffer leaves behind is taken by the next one that fits. Only whole huge
// pages are given back to the system: a part would break the page, and what else lies in it would be slow.
// An empty slab goes. Any thread.
class Slabs {
 public:
  static constexpr size_t kSmallest = size_t{64} << 10;
  static constexpr size_t kLargest = size_t{16} << 20;

  // Zeroed. bytes: whole pages, between the two. Null: there is no memory.
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

  // Whether p was taken here; then it is given back.
  bool give_back(std::byte* p, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto slab = std::ranges::find_if(slabs_, [p](const Slab& s) {
      return !std::less<>()(p, s.begin) && std::less<>()(p, s.begin + kSlab);
    });
    if (slab == slabs_.end()) return false;
    const auto at = static_cast<size_t>(p - slab->begin);
    slab->give_back({at, at + bytes});
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
    std::vector<Range> free;  // in order, apart from each other
    size_t used = 0;          // what lies behind was never written

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
      // The huge pages that now are free and before were not.
      const size_t from = whole_huge_pages(std::max(merged->begin, range.begin / kHugePage * kHugePage));
      const size_t to = std::min(merged->end, whole_huge_pages(range.end)) / kHugePage * kHugePage;
      if (from < to) madvise(begin + from, to - from, MADV_DONTNEED);
    }
  };

  std::mutex mutex_;
  std::vector<Slab> slabs_;
};

// Never destroyed: buffers may outlive everything else.
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
