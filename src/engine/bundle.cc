#include "engine/bundle.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/shard_names.h"
#include "base/strings.h"
#include "hub/file_selection.h"
#include "io/gguf/gguf_checkpoint.h"
#include "io/gguf/gguf_file.h"
#include "io/json_file.h"
#include "io/mapped_file.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "QUIREBND";
constexpr uint64_t kVersion = 1;
constexpr size_t kTrailerBytes = 32;
constexpr size_t kPayloadAlignment = 4096;
constexpr size_t kFileAlignment = 64;

struct Trailer {
  uint64_t payload_bytes = 0;
  uint64_t index_bytes = 0;
};

uint64_t read_u64(std::string_view bytes, size_t offset) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::optional<Trailer> read_trailer(std::string_view image, const std::string& origin) {
  if (image.size() < kTrailerBytes) return std::nullopt;
  const std::string_view tail = image.substr(image.size() - kTrailerBytes);
  if (tail.substr(24) != kMagic) return std::nullopt;
  if (read_u64(tail, 16) != kVersion) {
    throw Error(cat(origin, ": carries a model bundle of version ", read_u64(tail, 16),
                    "; this program reads version 1"));
  }
  const Trailer trailer{read_u64(tail, 0), read_u64(tail, 8)};
  const uint64_t room = image.size() - kTrailerBytes;
  if (trailer.index_bytes > room || trailer.payload_bytes > room - trailer.index_bytes) {
    throw Error(cat(origin, ": the model bundle at its end is damaged (sizes larger than the file)"));
  }
  return trailer;
}

void pad(std::ofstream& out, size_t& position, size_t alignment) {
  static constexpr std::array<char, kPayloadAlignment> kZeros = {};
  const size_t missing = (alignment - position % alignment) % alignment;
  out.write(kZeros.data(), static_cast<std::streamsize>(missing));
  position += missing;
}

// Appends the file's bytes; returns how many.
size_t append_file(std::ofstream& out, const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(cat(path.string(), ": cannot be read"));
  std::vector<char> chunk(size_t{1} << 20);
  size_t total = 0;
  while (in) {
    in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    out.write(chunk.data(), in.gcount());
    total += static_cast<size_t>(in.gcount());
  }
  return total;
}

}  // namespace

std::string_view Bundle::file(std::string_view name) const {
  for (const auto& f : files) {
    if (f.name == name) return f.bytes;
  }
  return {};
}

std::optional<Bundle> find_bundle(std::string_view image, const std::string& origin) {
  const auto trailer = read_trailer(image, origin);
  if (!trailer) return std::nullopt;
  const size_t index_begin = image.size() - kTrailerBytes - trailer->index_bytes;
  const std::string_view payload = image.substr(index_begin - trailer->payload_bytes, trailer->payload_bytes);
  const json index = json::parse(image.substr(index_begin, trailer->index_bytes), nullptr, false);
  const auto damaged = [&](std::string_view what) {
    return Error(cat(origin, ": the model bundle at its end is damaged (", what, ")"));
  };
  if (!index.is_object() || !index.contains("model") || !index["model"].is_string() ||
      !index.contains("files") || !index["files"].is_array()) {
    throw damaged("index");
  }
  Bundle bundle{index["model"].get<std::string>(), {}};
  for (const auto& entry : index["files"]) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
        !entry.contains("offset") || !entry["offset"].is_number_unsigned() || !entry.contains("size") ||
        !entry["size"].is_number_unsigned()) {
      throw damaged("entry");
    }
    const auto offset = entry["offset"].get<uint64_t>();
    const auto size = entry["size"].get<uint64_t>();
    if (offset > payload.size() || size > payload.size() - offset) throw damaged("offset");
    bundle.files.push_back({entry["name"].get<std::string>(), payload.substr(offset, size)});
  }
  return bundle;
}

size_t size_without_bundle(std::string_view image, const std::string& origin) {
  const auto trailer = read_trailer(image, origin);
  if (!trailer) return image.size();
  return image.size() - kTrailerBytes - trailer->index_bytes - trailer->payload_bytes;
}

namespace {

// The one file of a GGUF model.
std::vector<std::filesystem::path> gguf_files(const std::filesystem::path& file) {
  const MappedFile mapping(file);
  if (GgufFile(mapping.bytes(), file.string()).integer("split.count").value_or(1) > 1) {
    throw Error(
        cat(file.string(),
            ": a GGUF model of several files cannot be bundled; join them first (llama-gguf-split --merge)"));
  }
  return {file};
}

}  // namespace

std::vector<std::string> module_files(const std::filesystem::path& model) {
  std::vector<std::string> files;
  if (!std::filesystem::exists(model / "modules.json")) return files;
  const json modules = json::parse(read_text_file(model / "modules.json"), nullptr, false);
  if (!modules.is_array()) return files;
  for (const json& entry : modules) {
    if (!entry.is_object() || !entry.contains("path") || !entry["path"].is_string()) continue;
    const auto folder = entry["path"].get<std::string>();
    if (folder.empty() || folder.starts_with('/') || folder.find("..") != std::string::npos) continue;
    for (const char* file : {"config.json", "model.safetensors"}) {
      const std::string name = cat(folder, "/", file);
      if (std::filesystem::is_regular_file(model / name)) files.push_back(name);
    }
  }
  return files;
}

std::vector<std::filesystem::path> bundle_files(const std::filesystem::path& model) {
  if (std::filesystem::is_regular_file(model)) return gguf_files(model);
  std::vector<std::filesystem::path> files;
  for (const auto name : hub::kModelFiles) {
    if (std::filesystem::is_regular_file(model / name)) files.push_back(model / name);
  }
  for (const std::string& name : module_files(model)) files.push_back(model / name);
  // A sharded checkpoint consists of the files that its index names; others may repeat the same weights.
  const std::filesystem::path index_path = model / "model.safetensors.index.json";
  std::set<std::string> shards;
  if (std::filesystem::exists(index_path)) {
    const json index = json::parse(read_text_file(index_path), nullptr, false);
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
      throw Error(cat(index_path.string(), ": has no weight_map"));
    }
    for (const auto& [tensor, file] : index["weight_map"].items()) {
      if (file.is_string()) shards.insert(file.get<std::string>());
    }
  } else if (!std::filesystem::exists(model / "model.safetensors")) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(model)) {
      if (entry.path().extension() == ".safetensors") names.push_back(entry.path().filename().string());
    }
    const ShardSet set = shards_without_index(names);
    shards.insert(set.files.begin(), set.files.end());
  }
  std::vector<std::filesystem::path> weights;
  for (const auto& entry : std::filesystem::directory_iterator(model)) {
    const bool wanted = shards.empty() || shards.count(entry.path().filename().string()) > 0;
    if (entry.path().extension() == ".safetensors" && wanted) weights.push_back(entry.path());
  }
  std::sort(weights.begin(), weights.end());
  if (weights.empty()) {
    const std::filesystem::path gguf = find_gguf(model);
    if (gguf.empty()) throw Error(cat(model.string(), ": has no *.safetensors or *.gguf file to bundle"));
    weights = gguf_files(gguf);
  }
  files.insert(files.end(), weights.begin(), weights.end());
  return files;
}

void write_bundle(const std::filesystem::path& output, std::string_view executable,
                  const std::string& model_name, const std::vector<std::filesystem::path>& files) {
  const std::filesystem::path temporary = output.string() + ".partial";
  try {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    if (!out) throw Error(cat(output.string(), ": cannot be written"));
    out.write(executable.data(), static_cast<std::streamsize>(executable.size()));
    size_t position = executable.size();
    pad(out, position, kPayloadAlignment);
    const size_t payload_begin = position;
    json index = {{"model", model_name}, {"files", json::array()}};
    const std::filesystem::path root = files.empty() ? "" : files.front().parent_path();
    for (const auto& path : files) {
      pad(out, position, kFileAlignment);
      const size_t size = append_file(out, path);
      index["files"].push_back({{"name", path.lexically_relative(root).generic_string()},
                                {"offset", position - payload_begin},
                                {"size", size}});
      position += size;
    }
    const std::string index_text = index.dump();
    const std::array<uint64_t, 3> numbers = {position - payload_begin, index_text.size(), kVersion};
    out.write(index_text.data(), static_cast<std::streamsize>(index_text.size()));
    out.write(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
    out.write(kMagic.data(), static_cast<std::streamsize>(kMagic.size()));
    out.close();
    if (!out) throw Error(cat(output.string(), ": could not be written completely (is the disk full?)"));
    std::filesystem::rename(temporary, output);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

}  // namespace quire
