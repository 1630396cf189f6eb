// JSON files of model directories: config.json, index files, safetensors headers. Bare NaN and Infinity are
// accepted, as some config.json files contain them. Nesting is limited, so that no file can exhaust the stack
// of code that traverses the value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// A key of an object. depth: number of objects and lists around it, at least 1.
struct JsonKey {
  int depth = 1;
  std::string name;
};

struct JsonOptions {
  int max_depth = 64;
  bool unique_keys = false;  // report duplicate keys of an object as errors; otherwise the last one is used
  std::vector<JsonKey>* keys = nullptr;  // receives all keys in the order of the text, which the value loses
};

// `name` appears in errors: "NAME:LINE: problem". Throws Error.
nlohmann::json parse_json(std::string_view text, std::string_view name, const JsonOptions& options = {});

// Reads the whole file as text. Throws Error with the path if it cannot be read or is larger than max_bytes.
std::string read_text_file(const std::filesystem::path& path, int64_t max_bytes = int64_t{256} << 20);

// read_text_file and parse_json; errors contain the path.
nlohmann::json read_json_file(const std::filesystem::path& path, const JsonOptions& options = {});

}  // namespace quire
