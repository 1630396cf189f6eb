#include "io/gguf/gguf_writer.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/strings.h"

namespace quire {
namespace {

constexpr int64_t kAlignment = 32;
constexpr uint32_t kGgufVersion = 3;

template <typename T>
void append_raw(std::string& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}
void append_string(std::string& out, std::string_view text) {
  append_raw<uint64_t>(out, text.size());
  out += text;
}
int64_t aligned(int64_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void GgufMetadata::append(const GgufMetadata& other) {
  for (const std::string& key : other.keys_) add_key(key);
  bytes_ += other.bytes_;
}

void GgufMetadata::add_key(std::string_view key) {
  if (std::ranges::find(keys_, key) != keys_.end()) throw Error(cat("duplicate GGUF metadata '", key, "'"));
  keys_.emplace_back(key);
}

void GgufMetadata::begin(std::string_view key, GgufType type) {
  add_key(key);
  append_string(bytes_, key);
  append_raw(bytes_, static_cast<uint32_t>(type));
}
void GgufMetadata::text(std::string_view key, std::string_view value) {
  begin(key, GgufType::kString);
  append_string(bytes_, value);
}
void GgufMetadata::u32(std::string_view key, uint32_t value) {
  begin(key, GgufType::kU32);
  append_raw(bytes_, value);
}
void GgufMetadata::f32(std::string_view key, float value) {
  begin(key, GgufType::kF32);
  append_raw(bytes_, value);
}
void GgufMetadata::boolean(std::string_view key, bool value) {
  begin(key, GgufType::kBool);
  append_raw<uint8_t>(bytes_, value ? 1 : 0);
}
void GgufMetadata::texts(std::string_view key, std::span<const std::string> values) {
  begin(key, GgufType::kArray);
  append_raw(bytes_, static_cast<uint32_t>(GgufType::kString));
  append_raw<uint64_t>(bytes_, values.size());
  for (const std::string& value : values) append_string(bytes_, value);
}
void GgufMetadata::i32s(std::string_view key, std::span<const int32_t> values) {
  begin(key, GgufType::kArray);
  append_raw(bytes_, static_cast<uint32_t>(GgufType::kI32));
  append_raw<uint64_t>(bytes_, values.size());
  for (const int32_t value : values) append_raw(bytes_, value);
}
void GgufMetadata::f32s(std::string_view key, std::span<const float> values) {
  begin(key, GgufType::kArray);
  append_raw(bytes_, static_cast<uint32_t>(GgufType::kF32));
  append_raw<uint64_t>(bytes_, values.size());
  for (const float value : values) append_raw(bytes_, value);
}

size_t GgufOutput::bytes() const {
  size_t bytes = type->bytes_of(shape.back());
  for (size_t i = 0; i + 1 < shape.size(); ++i) bytes *= static_cast<size_t>(shape[i]);
  return bytes;
}

GgufFileWriter::GgufFileWriter(const std::filesystem::path& path, const GgufMetadata& metadata,
                               std::span<const GgufOutput> tensors)
    : file_(path) {
  std::string head = "GGUF";
  append_raw(head, kGgufVersion);
  append_raw<uint64_t>(head, tensors.size());
  append_raw<uint64_t>(head, metadata.count());
  head += metadata.bytes();
  int64_t offset = 0;
  for (const GgufOutput& tensor : tensors) {
    append_string(head, tensor.name);
    append_raw(head, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;)
      append_raw<uint64_t>(head, static_cast<uint64_t>(tensor.shape[i]));
    append_raw(head, tensor.type->id);
    append_raw<uint64_t>(head, static_cast<uint64_t>(offset));
    if (!places_.emplace(tensor.name, Place{offset, tensor.bytes()}).second)
      throw Error(cat(path.string(), ": duplicate tensor '", tensor.name, "'"));
    total_bytes_ += static_cast<int64_t>(tensor.bytes());
    offset = aligned(offset + static_cast<int64_t>(tensor.bytes()));
  }
  head.resize(static_cast<size_t>(aligned(static_cast<int64_t>(head.size()))), '\0');
  for (auto& [name, place] : places_) place.offset += static_cast<int64_t>(head.size());
  file_.resize(static_cast<int64_t>(head.size()) + offset);
  file_.write(0, head);
}

void GgufFileWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  const auto at = places_.find(name);
  if (at == places_.end()) throw Error(cat("the tensor '", name, "' was not declared"));
  Place& place = at->second;
  if (bytes.size() > place.bytes - place.written)
    throw Error(cat("the tensor '", name, "' has ", place.written + bytes.size(),
                    " bytes, but was declared with ", place.bytes));
  file_.write(place.offset + static_cast<int64_t>(place.written), bytes);
  place.written += bytes.size();
}

void GgufFileWriter::finish() {
  for (const auto& [name, place] : places_) {
    if (place.written != place.bytes)
      throw Error(
          cat("the tensor '", name, "' is incomplete: ", place.written, " of ", place.bytes, " bytes"));
  }
  file_.close();
}

}  // namespace quire
