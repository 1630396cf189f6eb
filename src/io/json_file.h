// JSON as model directories have it: config.json, index files, safetensors headers. Bare NaN and Infinity are
// accepted (some config.json have them); nesting is limited, so that no file can exhaust the stack of whoever
// walks the value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace quire {

struct JsonOptions {
  int max_depth = 64;
  bool unique_keys =
      false;  // a key that occurs twice in an object is an error; otherwise the last one counts
};

// `name` stands in errors: "NAME:LINE: what is wrong". Throws Error.
nlohmann::json parse_json(std::string_view text, std::string_view name, const JsonOptions& options = {});

// The whole file as text. Throws Error naming the path where it cannot be read or has more than max_bytes.
std::string read_text_file(const std::filesystem::path& path, int64_t max_bytes = int64_t{256} << 20);

// read_text_file and parse_json; errors name the path.
nlohmann::json read_json_file(const std::filesystem::path& path, const JsonOptions& options = {});

}  // namespace quire
