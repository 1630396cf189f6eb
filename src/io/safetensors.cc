#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "io/json_file.h"

namespace quire {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr size_t kMaxRank = 16;

// Sizes of the format's other types, which have no kernels. The size of a type that is not known is not
// checked.
struct OtherType {
  std::string_view name;
  uint64_t bits;
};
constexpr std::array<OtherType, 9> kOtherTypes = {{
    {"F4", 4},
    {"F6_E2M3", 6},
    {"F6_E3M2", 6},
    {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8},
    {"U16", 16},
    {"U32", 32},
    {"U64", 64},
    {"C64", 64},
}};

std::string quoted(std::string_view name) {
  // Names come from the file; the message must be readable for any contents.
  std::string text = "tensor '";
  for (const char c : name.substr(0, 200)) text += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return text + "'";
}

struct HeaderReader {
  const std::string& file;
  size_t data_begin;  // offset of the tensors' bytes in the file
  size_t data_size;

  [[noreturn]] void fail(std::string_view name, std::string_view problem) const {
    throw Error(cat(file, ": ", quoted(name), ": ", problem));
  }

  const nlohmann::json& member(const std::string& name, const nlohmann::json& entry, const char* key) const {
    const auto it = entry.find(key);
    if (it == entry.end()) fail(name, cat("has no '", key, "'"));
    return *it;
  }

  uint64_t unsigned_number(const std::string& name, const nlohmann::json& value, const char* what) const {
    if (!value.is_number_unsigned()) fail(name, cat(what, " must be a non-negative integer"));
    return value.get<uint64_t>();
  }

  // The bits of an element; 0 if they are not known.
  static uint64_t bits_of(const TensorInfo& info) {
    if (info.other_type.empty()) return 8 * dtype_size(info.dtype);
    const auto known = std::ranges::find(kOtherTypes, std::string_view(info.other_type), &OtherType::name);
    return known == kOtherTypes.end() ? 0 : known->bits;
  }

  // Sets the shape and returns its size in bits.
  uint64_t read_shape(TensorInfo& info, const nlohmann::json& value) const {
    if (!value.is_array()) fail(info.name, "shape is not a list");
    if (value.size() > kMaxRank)
      fail(info.name, cat("has ", value.size(), " dimensions; at most ", kMaxRank, " are supported"));
    uint64_t bits = bits_of(info);
    for (const auto& dim : value) {
      const uint64_t n = unsigned_number(info.name, dim, "a dimension of the shape");
      if (n > uint64_t{INT64_MAX} || __builtin_mul_overflow(bits, n, &bits)) {
        fail(info.name, "the shape's size overflows");
      }
      info.shape.push_back(static_cast<int64_t>(n));
    }
    return bits;
  }

  TensorInfo read(const std::string& name, const nlohmann::json& entry) const {
    if (!entry.is_object()) fail(name, "its header entry is not an object");
    TensorInfo info;
    info.name = name;
    const auto& dtype = member(name, entry, "dtype");
    if (!dtype.is_string()) fail(name, "dtype is not a string");
    const auto& type = dtype.get_ref<const std::string&>();
    const auto known = dtype_from_name(type);
    info.dtype = known.value_or(DType::kBool);
    if (!known) info.other_type = type.empty() ? "?" : type.substr(0, 40);
    const uint64_t bits = read_shape(info, member(name, entry, "shape"));

    const auto& offsets = member(name, entry, "data_offsets");
    if (!offsets.is_array() || offsets.size() != 2) fail(name, "data_offsets is not a list of two numbers");
    const uint64_t begin = unsigned_number(name, offsets[0], "data_offsets");
    const uint64_t end = unsigned_number(name, offsets[1], "data_offsets");
    if (begin > end) fail(name, cat("data_offsets [", begin, ", ", end, "] end before they start"));
    const bool size_known = bits_of(info) > 0;
    if (size_known && (bits % 8 != 0 || end - begin != bits / 8)) {
      fail(name, cat("data_offsets [", begin, ", ", end, "] hold ", end - begin, " bytes, but ",
                     info.type_name(), " ", info.shape_text(), " takes ", (bits + 7) / 8));
    }
    if (end > data_size) {
      fail(name, cat("ends at byte ", end, ", but the file has ", data_size, " bytes of data (truncated?)"));
    }
    info.offset = data_begin + static_cast<size_t>(begin);
    info.bytes = static_cast<size_t>(end - begin);
    return info;
  }

  // Checks that every byte of the data belongs to exactly one tensor. Expects tensors sorted by offset.
  void check_cover(std::span<const TensorInfo> tensors) const {
    size_t next = data_begin;
    for (const auto& info : tensors) {
      if (info.offset < next) fail(info.name, "overlaps another tensor");
      if (info.offset > next)
        fail(info.name, cat("leaves a gap of ", info.offset - next, " bytes before it"));
      next = info.offset + info.bytes;
    }
    if (next != data_begin + data_size) {
      throw Error(cat(file, ": ", data_begin + data_size - next, " bytes follow the last tensor"));
    }
  }
};

}  // namespace

std::string TensorInfo::shape_text() const {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += cat(i > 0 ? ", " : "", shape[i]);
  return text + "]";
}

size_t safetensors_header_bytes(std::span<const std::byte> start, size_t file_bytes,
                                const std::string& file) {
  if (file_bytes < kLengthBytes || start.size() < kLengthBytes) {
    throw Error(cat(file, ": has ", file_bytes, " bytes, too few for a safetensors file (truncated?)"));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<uint64_t>(start[i]) << (8 * i);
  if (length > kMaxHeader) {
    throw Error(cat(file, ": claims a header of ", length, " bytes; not a valid safetensors file"));
  }
  if (length > file_bytes - kLengthBytes) {
    throw Error(cat(file, ": claims a header of ", length, " bytes, but only ", file_bytes - kLengthBytes,
                    " follow (truncated?)"));
  }
  return kLengthBytes + static_cast<size_t>(length);
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> start, size_t file_bytes,
                                           const std::string& file) {
  const size_t data_begin = safetensors_header_bytes(start, file_bytes, file);
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + kLengthBytes,
                              data_begin - kLengthBytes);
  const nlohmann::json header =
      parse_json(text, cat(file, ": header"), {.max_depth = 8, .unique_keys = true});
  if (!header.is_object()) throw Error(cat(file, ": the header is not a JSON object"));

  const HeaderReader reader{file, data_begin, file_bytes - data_begin};
  SafetensorsHeader out;
  out.tensors.reserve(header.size());
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") out.tensors.push_back(reader.read(name, entry));
  }
  if (const auto it = header.find("__metadata__"); it != header.end()) {
    for (const auto& [name, value] : it->items()) {
      if (value.is_string()) out.metadata.emplace(name, value.get<std::string>());
    }
  }
  // Among tensors with the same offset, empty ones come first, so that they do not count as overlapping.
  std::sort(out.tensors.begin(), out.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  reader.check_cover(out.tensors);
  return out;
}

Safetensors::Safetensors(std::span<const std::byte> bytes, std::string file)
    : bytes_(bytes), file_(std::move(file)), header_(parse_safetensors_header(bytes, bytes.size(), file_)) {}

}  // namespace quire
