#include "hub/weight_header.h"

#include <algorithm>
#include <optional>

namespace quire::hub {
namespace {

constexpr uint64_t kMaxHeader = 256 << 20;
constexpr uint32_t kStringType = 8;
constexpr uint32_t kArrayType = 9;

// Reads little-endian values; remembers that the prefix was too short.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  uint64_t integer(size_t size) {
    if (!need(size)) return 0;
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
    at_ += size;
    return value;
  }
  void skip(uint64_t size) {
    if (need(size)) at_ += size;
  }
  void skip_string() { skip(integer(8)); }

  bool short_of_bytes() const { return short_; }
  uint64_t position() const { return at_; }

 private:
  bool need(uint64_t size) {
    short_ = short_ || size > bytes_.size() - at_;
    return !short_;
  }
  std::string_view bytes_;
  uint64_t at_ = 0;
  bool short_ = false;
};

// Size of a value of a GGUF type; 0 = unknown type.
size_t gguf_value_size(uint32_t type) {
  constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kSizes) ? kSizes[type] : 0;
}

// Skips a value; false if its type is unknown.
bool skip_value(Cursor& in, uint32_t type) {
  uint64_t count = 1;
  if (type == kArrayType) {
    type = static_cast<uint32_t>(in.integer(4));
    count = in.integer(8);
  }
  if (type == kStringType) {
    for (uint64_t i = 0; i < count && !in.short_of_bytes(); ++i) in.skip_string();
    return true;
  }
  const size_t size = gguf_value_size(type);
  if (size == 0 && !in.short_of_bytes()) return false;
  in.skip(count > kMaxHeader ? kMaxHeader : count * size);
  return true;
}

uint64_t gguf_header_size(std::string_view prefix) {
  Cursor in(prefix);
  in.skip(8);  // magic, version
  const uint64_t tensors = in.integer(8);
  const uint64_t entries = in.integer(8);
  for (uint64_t i = 0; i < entries && !in.short_of_bytes(); ++i) {
    in.skip_string();
    if (!skip_value(in, static_cast<uint32_t>(in.integer(4)))) return 0;
  }
  for (uint64_t i = 0; i < tensors && !in.short_of_bytes(); ++i) {
    in.skip_string();
    const uint64_t dims = in.integer(4);
    if (dims > 16) return 0;
    in.skip(8 * dims + 4 + 8);  // dimensions, type, offset
  }
  return in.short_of_bytes() ? std::max<uint64_t>(1 << 20, 4 * prefix.size()) : in.position();
}

}  // namespace

uint64_t header_size(std::string_view prefix) {
  uint64_t size = 8;
  if (prefix.size() >= 8) {
    size = prefix.starts_with("GGUF") ? gguf_header_size(prefix) : Cursor(prefix).integer(8);
    if (size > kMaxHeader) return 0;
    if (!prefix.starts_with("GGUF")) size += 8;
  }
  return size;
}

}  // namespace quire::hub
