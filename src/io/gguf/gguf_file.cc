#include "io/gguf/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/strings.h"

namespace quire {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kGgufMagic = "GGUF";
constexpr size_t kMaxName = 1 << 16;
constexpr uint32_t kMaxDims = 4;
constexpr int kMaxArrayDepth = 4;

// Sizes of values in bytes; 0 = variable size.
constexpr std::array<size_t, 13> kSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// The file continues after the bytes that are known.
struct StartTooShort {};

// Reads the file sequentially; every length is checked against the size of the file before it is used.
class Cursor {
 public:
  Cursor(std::span<const std::byte> start, size_t file_bytes, const GgufFile& file)
      : bytes_(start), file_bytes_(file_bytes), file_(file) {}

  size_t at() const { return at_; }
  size_t left() const { return file_bytes_ - at_; }

  std::span<const std::byte> take(uint64_t size, std::string_view what) {
    if (size > left())
      file_.fail(cat("truncated or damaged: ", what, " at byte ", at_, " needs ", size, " bytes, but ",
                     left(), " are left"));
    if (size > bytes_.size() - at_) throw StartTooShort();
    const auto taken = bytes_.subspan(at_, static_cast<size_t>(size));
    at_ += taken.size();
    return taken;
  }
  template <typename T>
  T number(std::string_view what) {
    return load<T>(take(sizeof(T), what).data());
  }
  std::string_view text(std::string_view what) {
    const auto bytes = take(number<uint64_t>(what), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Reads a count; throws if that many elements of at least `min_size` bytes do not fit.
  uint64_t count(std::string_view what, size_t min_size) {
    const auto n = number<uint64_t>(what);
    if (n > left() / min_size)
      file_.fail(cat("truncated or damaged: it declares ", n, " ", what, ", more than fit in the file"));
    return n;
  }
  GgufType type(std::string_view key) {
    const auto id = number<uint32_t>("a type");
    if (id >= kSizes.size()) file_.fail(cat("metadata '", key, "' has the unknown type ", id));
    return static_cast<GgufType>(id);
  }

  GgufValue value(std::string_view key) {
    GgufValue value;
    value.type = type(key);
    if (value.type != GgufType::kArray) {
      const size_t begin = at_;
      skip(value.type, 1, key);
      value.bytes = bytes_.subspan(begin, at_ - begin);
      return value;
    }
    value.is_array = true;
    value.type = type(key);
    value.count = number<uint64_t>(key);
    const size_t begin = at_;
    skip_elements(value.type, value.count, key, 1);
    value.bytes = bytes_.subspan(begin, at_ - begin);
    return value;
  }

 private:
  void skip(GgufType type, uint64_t count, std::string_view key) {
    if (type == GgufType::kString) {
      for (uint64_t i = 0; i < count; ++i) text(key);
      return;
    }
    const size_t size = kSizes[static_cast<size_t>(type)];
    if (count > left() / size)
      file_.fail(cat("truncated or damaged: metadata '", key, "' declares ", count, " elements"));
    take(count * size, key);
  }
  void skip_elements(GgufType type, uint64_t count, std::string_view key, int depth) {
    if (type != GgufType::kArray) return skip(type, count, key);
    // Arrays of arrays are unused and skipped.
    if (depth == kMaxArrayDepth) file_.fail(cat("metadata '", key, "' is an array nested too deep"));
    for (uint64_t i = 0; i < count; ++i) {
      const GgufType inner = this->type(key);
      const auto n = number<uint64_t>(key);
      skip_elements(inner, n, key, depth + 1);
    }
  }

  std::span<const std::byte> bytes_;
  size_t file_bytes_;
  const GgufFile& file_;
  size_t at_ = 0;
};

// The integer value of element `at`; nullopt for other types.
std::optional<int64_t> integer_at(GgufType type, const std::byte* at) {
  switch (type) {
    case GgufType::kU8:
      return load<uint8_t>(at);
    case GgufType::kI8:
      return load<int8_t>(at);
    case GgufType::kU16:
      return load<uint16_t>(at);
    case GgufType::kI16:
      return load<int16_t>(at);
    case GgufType::kU32:
      return load<uint32_t>(at);
    case GgufType::kI32:
      return load<int32_t>(at);
    case GgufType::kI64:
      return load<int64_t>(at);
    case GgufType::kU64: {
      const auto value = load<uint64_t>(at);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> number_at(GgufType type, const std::byte* at) {
  if (type == GgufType::kF32) return load<float>(at);
  if (type == GgufType::kF64) return load<double>(at);
  const auto integer = integer_at(type, at);
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

// Reads all elements with `read`; nullopt if one of them has another type.
template <typename T, typename Read>
std::optional<std::vector<T>> elements(const GgufValue& value, Read read) {
  const size_t size = kSizes[static_cast<size_t>(value.type)];
  if (!value.is_array || size == 0) return std::nullopt;
  std::vector<T> all;
  all.reserve(value.count);
  for (size_t i = 0; i < value.count; ++i) {
    const auto element = read(value.type, value.bytes.data() + i * size);
    if (!element) return std::nullopt;
    all.push_back(*element);
  }
  return all;
}

GgufTensor read_tensor(Cursor& cursor, const GgufFile& file) {
  GgufTensor tensor;
  tensor.name = cursor.text("a tensor's name");
  if (tensor.name.empty() || tensor.name.size() > kMaxName) file.fail("a tensor name is empty or too long");
  const auto dims = cursor.number<uint32_t>("a tensor's dimensions");
  if (dims == 0 || dims > kMaxDims)
    file.fail(cat("tensor '", tensor.name, "' has ", dims, " dimensions, expected 1 to ", kMaxDims));
  for (uint32_t i = 0; i < dims; ++i) {
    const auto dim = cursor.number<uint64_t>("a tensor's dimensions");
    if (dim == 0 || dim > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
      file.fail(cat("tensor '", tensor.name, "' has the invalid dimension ", dim));
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(dim));
  }
  // Trailing dimensions of size 1 are removed, except for the only one of a vector and the two of a matrix.
  const auto id = cursor.number<uint32_t>("a tensor's type");
  tensor.type = find_ggml_type(id);
  if (tensor.type == nullptr) {
    const auto name = ggml_type_name(id);
    file.fail(cat("tensor '", tensor.name, "' has the type ",
                  name.empty() ? "number " + std::to_string(id) : std::string(name),
                  ", which is not supported"));
  }
  if (tensor.row_elements() % tensor.type->elements != 0) {
    file.fail(cat("tensor '", tensor.name, "' has rows of ", tensor.row_elements(),
                  " elements, which is not a multiple of the block size ", tensor.type->elements, " of ",
                  tensor.type->name));
  }
  // Dimensions are below 2^31, so that the product of two cannot overflow; each further product is checked.
  auto bytes = static_cast<uint64_t>(tensor.row_bytes());
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    const auto dim = static_cast<uint64_t>(tensor.shape[i]);
    if (bytes > std::numeric_limits<uint64_t>::max() / 2 / dim)
      file.fail(cat("tensor '", tensor.name, "' is too large: its size overflows"));
    bytes *= dim;
  }
  tensor.bytes = bytes;
  tensor.offset = cursor.number<uint64_t>("a tensor's offset");
  return tensor;
}

}  // namespace

std::optional<int64_t> GgufValue::integer() const {
  return is_array ? std::nullopt : integer_at(type, bytes.data());
}
std::optional<double> GgufValue::number() const {
  return is_array ? std::nullopt : number_at(type, bytes.data());
}
std::optional<double> GgufValue::decimal() const {
  const auto value = number();
  if (!value || type != GgufType::kF32 || !std::isfinite(*value)) return value;
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(*value)).ptr;
  double exact = 0.0;
  std::from_chars(text.data(), end, exact);
  return exact;
}
std::optional<bool> GgufValue::boolean() const {
  if (is_array || type != GgufType::kBool) return std::nullopt;
  return load<uint8_t>(bytes.data()) != 0;
}
std::optional<std::string_view> GgufValue::text() const {
  if (is_array || type != GgufType::kString) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes.data()) + sizeof(uint64_t),
                          bytes.size() - sizeof(uint64_t));
}
std::optional<std::vector<int64_t>> GgufValue::integers() const {
  return elements<int64_t>(*this, [](GgufType kind, const std::byte* at) {
    return kind == GgufType::kBool ? std::optional<int64_t>(load<uint8_t>(at) != 0) : integer_at(kind, at);
  });
}
std::optional<std::vector<double>> GgufValue::numbers() const {
  return elements<double>(*this, number_at);
}
std::optional<std::vector<std::string_view>> GgufValue::texts() const {
  if (!is_array || type != GgufType::kString) return std::nullopt;
  std::vector<std::string_view> all;
  all.reserve(count);
  const std::byte* at = bytes.data();
  for (uint64_t i = 0; i < count; ++i) {
    const auto size = load<uint64_t>(at);
    all.emplace_back(reinterpret_cast<const char*>(at) + sizeof(uint64_t), size);
    at += sizeof(uint64_t) + size;
  }
  return all;
}

GgufFile::GgufFile(std::span<const std::byte> bytes, std::string file)
    : GgufFile(bytes, bytes.size(), std::move(file)) {}

std::optional<GgufFile> GgufFile::from_start(std::span<const std::byte> start, size_t file_bytes,
                                             std::string file) {
  try {
    return GgufFile(start, file_bytes, std::move(file));
  } catch (const StartTooShort&) {
    return std::nullopt;
  }
}

GgufFile::GgufFile(std::span<const std::byte> start, size_t file_bytes, std::string file)
    : bytes_(start), file_(std::move(file)) {
  Cursor cursor(start, file_bytes, *this);
  if (!is_gguf(start))
    fail("not a GGUF file; pass a .gguf file or a directory with config.json and *.safetensors");
  cursor.take(kGgufMagic.size(), "the magic");
  const auto version = cursor.number<uint32_t>("the version");
  if (version != 2 && version != 3) {
    fail(cat("unsupported GGUF version ", version,
             version >> 24 <= 3 && (version & 0xFFFFFF) == 0 ? " in big endian byte order" : "",
             "; versions 2 and 3 in little endian are supported"));
  }
  constexpr size_t kLeastTensor = 8 + 4 + 8 + 4 + 8;
  constexpr size_t kLeastEntry = 8 + 4 + 1;
  const auto num_tensors = cursor.count("tensors", kLeastTensor);
  const auto num_entries = cursor.count("metadata entries", kLeastEntry);
  for (uint64_t i = 0; i < num_entries; ++i) {
    std::string key(cursor.text("a metadata key"));
    if (key.empty() || key.size() > kMaxName) fail("a metadata key is empty or too long");
    const GgufValue value = cursor.value(key);
    const auto [at, added] = metadata_.emplace(std::move(key), value);
    if (!added) fail(cat("duplicate metadata '", at->first, "'"));
  }
  const int64_t alignment = integer("general.alignment").value_or(32);
  if (alignment <= 0 || alignment > (1 << 20) || !std::has_single_bit(static_cast<uint64_t>(alignment)))
    fail(cat("general.alignment is ", alignment, ", expected a power of two"));
  for (uint64_t i = 0; i < num_tensors; ++i) tensors_.push_back(read_tensor(cursor, *this));

  const auto align = static_cast<size_t>(alignment);
  const size_t begin = (cursor.at() + align - 1) / align * align;
  std::set<std::string_view> names;
  std::vector<const GgufTensor*> by_offset;
  for (GgufTensor& tensor : tensors_) {
    if (!names.insert(tensor.name).second) fail(cat("duplicate tensor '", tensor.name, "'"));
    const size_t room = file_bytes > begin ? file_bytes - begin : 0;
    if (tensor.offset % align != 0) fail(cat("tensor '", tensor.name, "' is not aligned to ", align));
    if (tensor.offset > room || tensor.bytes > room - tensor.offset) {
      fail(cat("truncated or damaged: tensor '", tensor.name, "' of ", tensor.bytes,
               " bytes reaches past the end"));
    }
    tensor.offset += begin;
    by_offset.push_back(&tensor);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    if (by_offset[i]->offset < by_offset[i - 1]->offset + by_offset[i - 1]->bytes)
      fail(cat("tensors '", by_offset[i - 1]->name, "' and '", by_offset[i]->name, "' overlap"));
  }
}

const GgufValue* GgufFile::find(std::string_view key) const {
  asked_.add(std::string(key));
  return peek(key);
}

const GgufValue* GgufFile::peek(std::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

namespace {

// Reads the value of a key; throws Error if it exists and has another type.
template <typename Read>
auto entry(const GgufFile& file, std::string_view key, std::string_view kind, Read read)
    -> decltype(read(GgufValue())) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return std::nullopt;
  auto result = read(*value);
  if (!result) file.fail(cat("metadata '", key, "' is not ", kind));
  return result;
}

}  // namespace

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  return entry(*this, key, "an integer", [](const GgufValue& v) { return v.integer(); });
}
std::optional<double> GgufFile::number(std::string_view key) const {
  const auto value = entry(*this, key, "a number", [](const GgufValue& v) { return v.number(); });
  if (value && !std::isfinite(*value)) fail(cat("metadata '", key, "' is not a finite number"));
  return value;
}
std::optional<bool> GgufFile::boolean(std::string_view key) const {
  return entry(*this, key, "true or false", [](const GgufValue& v) { return v.boolean(); });
}
std::optional<std::string_view> GgufFile::text(std::string_view key) const {
  const auto value = entry(*this, key, "a string", [](const GgufValue& v) { return v.text(); });
  if (value && !is_valid_utf8(*value)) fail(cat("metadata '", key, "' is not UTF-8"));
  return value;
}
std::vector<std::string_view> GgufFile::texts(std::string_view key) const {
  return entry(*this, key, "a list of strings", [](const GgufValue& v) { return v.texts(); })
      .value_or(std::vector<std::string_view>());
}
std::vector<double> GgufFile::numbers(std::string_view key) const {
  return entry(*this, key, "a list of numbers", [](const GgufValue& v) { return v.numbers(); })
      .value_or(std::vector<double>());
}
std::vector<int64_t> GgufFile::integers(std::string_view key) const {
  return entry(*this, key, "a list of integers", [](const GgufValue& v) { return v.integers(); })
      .value_or(std::vector<int64_t>());
}

void GgufFile::fail(std::string_view what) const {
  throw Error(cat(file_, ": ", what));
}

bool is_gguf(std::span<const std::byte> bytes) {
  return bytes.size() >= kGgufMagic.size() &&
         std::memcmp(bytes.data(), kGgufMagic.data(), kGgufMagic.size()) == 0;
}

}  // namespace quire
