#include "io/safetensors_writer.h"

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"

namespace quire {
namespace {

using nlohmann::ordered_json;

// The name of a type in the format.
std::string_view safetensors_name(DType type) {
  for (const std::string_view name :
       {"F32", "BF16", "F16", "F8_E4M3", "F8_E5M2", "I64", "I32", "I16", "I8", "U8", "BOOL", "F64"}) {
    if (dtype_from_name(name) == type) return name;
  }
  return "";
}

int64_t bytes_of(const TensorInfo& tensor) {
  if (!tensor.other_type.empty()) return static_cast<int64_t>(tensor.bytes);
  auto bytes = static_cast<int64_t>(dtype_size(tensor.dtype));
  for (const int64_t dim : tensor.shape) bytes *= dim;
  return bytes;
}

std::string shard_name(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

// The header, padded so that the data are aligned to 8 bytes.
std::string header_of(std::span<const TensorInfo> tensors) {
  ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    const int64_t end = offset + bytes_of(tensor);
    header[tensor.name] = {
        {"dtype", tensor.other_type.empty() ? safetensors_name(tensor.dtype) : tensor.other_type},
        {"shape", tensor.shape},
        {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& dir, std::vector<TensorInfo> tensors,
                                     int64_t shard_bytes) {
  std::vector<size_t> ends;  // end of the tensors of each file
  int64_t in_file = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t bytes = bytes_of(tensors[i]);
    if (in_file > 0 && in_file + bytes > shard_bytes) {
      ends.push_back(i);
      in_file = 0;
    }
    in_file += bytes;
    total_bytes_ += bytes;
  }
  ends.push_back(tensors.size());

  ordered_json weight_map = ordered_json::object();
  size_t begin = 0;
  for (size_t f = 0; f < ends.size(); ++f) {
    const auto own = std::span(tensors).subspan(begin, ends[f] - begin);
    begin = ends[f];
    const std::string name = shard_name(f, ends.size());
    const std::string header = header_of(own);
    OutputFile& file = files_.emplace_back(dir / name);
    auto offset = static_cast<int64_t>(sizeof(uint64_t) + header.size());
    const int64_t data = offset;
    for (const TensorInfo& tensor : own) {
      const int64_t bytes = bytes_of(tensor);
      if (!places_.emplace(tensor.name, Place{f, offset, bytes, bytes == 0}).second)
        throw Error(cat(file.path().string(), ": duplicate tensor '", tensor.name, "'"));
      weight_map[tensor.name] = name;
      offset += bytes;
    }
    file.resize(offset);
    const uint64_t length = header.size();
    file.write(0, std::as_bytes(std::span(&length, 1)));
    file.write(data - static_cast<int64_t>(header.size()), header);
  }
  if (ends.size() > 1) {
    const ordered_json index = {{"metadata", {{"total_size", total_bytes_}}}, {"weight_map", weight_map}};
    write_file(dir / "model.safetensors.index.json", index.dump(2) + "\n");
  }
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  const auto at = places_.find(name);
  if (at == places_.end()) throw Error(cat("the tensor '", name, "' was not declared"));
  Place& place = at->second;
  if (static_cast<int64_t>(bytes.size()) != place.bytes)
    throw Error(
        cat("the tensor '", name, "' has ", bytes.size(), " bytes, but was declared with ", place.bytes));
  files_[place.file].write(place.offset, bytes);
  place.written = true;
}

void SafetensorsWriter::finish() {
  for (const auto& [name, place] : places_) {
    if (!place.written) throw Error(cat("the tensor '", name, "' was not written"));
  }
  for (OutputFile& file : files_) file.close();
}

}  // namespace quire
