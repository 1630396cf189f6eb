#include "lora/adapter_file.h"

#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "io/gguf/gguf_checkpoint.h"
#include "io/gguf/gguf_header.h"
#include "io/open_file.h"

namespace quire::lora {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kWeights = "adapter_model.safetensors";
constexpr const char* kPickle = "adapter_model.bin";
constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;
constexpr size_t kMaxHeaderBytes = size_t{64} << 20;

bool is_present(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

AdapterFile read_gguf_file(const fs::path& path, const AdapterTargets* targets) {
  GgufHeader header = read_gguf_header(path);
  AdapterFile out{.weights = path, .identity = std::move(header.identity)};
  out.gguf = read_gguf_adapter(header.file, targets);
  out.tensors = std::move(out.gguf->tensors);
  return out;
}

AdapterFile read_directory(const fs::path& directory, const AdapterTargets* targets) {
  if (!is_present(directory / kConfig)) {
    const fs::path gguf = find_gguf(directory);
    if (!gguf.empty()) return read_gguf_file(gguf, targets);
    throw Error("the directory has no adapter_config.json and no GGUF file");
  }
  AdapterFile out;
  out.config = read_regular_file(directory / kConfig, kMaxConfigBytes);
  out.weights = directory / kWeights;
  if (!is_present(out.weights)) {
    if (is_present(directory / kPickle))
      throw Error("has only adapter_model.bin, which is a pickle and is not read; convert it to safetensors");
    throw Error("the directory has no adapter_model.safetensors");
  }
  const FileHandle file = open_regular_file(out.weights);
  out.identity = identity_of(file, out.weights);
  const auto bytes = static_cast<size_t>(out.identity.bytes);
  std::vector<std::byte> start(std::min(bytes, sizeof(uint64_t)));
  read_at(file, out.weights, 0, start);
  const size_t header = safetensors_header_bytes(start, bytes, kWeights);
  if (header > kMaxHeaderBytes)
    throw Error(
        cat(kWeights, ": has a header of ", header, " bytes, at most ", kMaxHeaderBytes, " are read"));
  start.resize(header);
  read_at(file, out.weights, 0, start);
  out.tensors = parse_safetensors_header(start, bytes, kWeights).tensors;
  return out;
}

}  // namespace

AdapterFile read_adapter_file(const fs::path& path, const AdapterTargets* targets) {
  std::error_code error;
  if (fs::is_directory(path, error)) return read_directory(path, targets);
  if (!is_present(path)) throw Error("does not exist");
  if (path.extension() == ".gguf") return read_gguf_file(path, targets);
  throw Error(
      "is neither a directory with adapter_config.json and adapter_model.safetensors nor a GGUF file");
}

TensorReader::TensorReader(const AdapterFile& file)
    : path_(file.weights), handle_(open_regular_file(file.weights)) {
  if (identity_of(handle_, path_) != file.identity)
    throw Error(cat(path_.filename().string(), " has changed on disk; load the adapter again"));
}

void TensorReader::read(size_t offset, std::span<std::byte> out) const {
  read_at(handle_, path_, offset, out);
}

}  // namespace quire::lora
