#include "io/gguf/gguf_header.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace quire {
namespace {

constexpr size_t kFirstBytes = size_t{64} << 10;
constexpr size_t kMaxBytes = size_t{64} << 20;

}  // namespace

GgufHeader read_gguf_header(const std::filesystem::path& path) {
  const FileHandle handle = open_regular_file(path);
  FileIdentity identity = identity_of(handle, path);
  const auto all = static_cast<size_t>(identity.bytes);
  const std::string name = path.filename().string();
  std::vector<std::byte> bytes;
  for (size_t size = kFirstBytes; size <= kMaxBytes; size *= 4) {
    const size_t known = bytes.size();
    bytes.resize(std::min(size, all));
    read_at(handle, path, known, std::span(bytes).subspan(known));
    if (!is_gguf(bytes)) throw Error(cat(name, ": is not a GGUF file"));
    if (auto file = GgufFile::from_start(bytes, all, name))
      return {std::move(identity), std::move(bytes), *std::move(file)};
  }
  throw Error(cat(name, ": has a header of more than ", kMaxBytes, " bytes"));
}

bool is_gguf_adapter(const std::filesystem::path& path) {
  try {
    return is_gguf_adapter(read_gguf_header(path).file);
  } catch (const Error&) {
    return false;
  }
}

bool is_gguf_adapter(const GgufFile& file) {
  const GgufValue* type = file.peek("general.type");
  return type != nullptr && type->text() == "adapter";
}

}  // namespace quire
