#include "io/json_file.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "io/json_allocator.h"
#include "io/json_number.h"
#include "io/open_file.h"

namespace quire {
namespace {

// Builds the value from the events of the reader. Each callback returns false to stop, with the reason in
// `problem`.
class JsonBuilder {
 public:
  JsonBuilder(const JsonOptions& options, nlohmann::json& root) : options_(options), root_(&root) {}

  const std::string& problem() const { return problem_; }

  bool Null() { return put(nullptr) != nullptr; }
  bool Bool(bool v) { return put(v) != nullptr; }
  bool Int(int v) { return put(v) != nullptr; }
  bool Uint(unsigned v) { return put(v) != nullptr; }
  bool Int64(int64_t v) { return put(v) != nullptr; }
  bool Uint64(uint64_t v) { return put(v) != nullptr; }
  bool Double(double v) { return put(v) != nullptr; }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) {
    if (put_number({text, size}, *this)) return true;
    problem_ = kJsonNumberTooBig;
    return false;
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    return put(std::string(text, size)) != nullptr;
  }
  bool StartObject() { return open(nlohmann::json::object()); }
  bool StartArray() { return open(nlohmann::json::array()); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool EndArray(rapidjson::SizeType) { return close(); }

  bool Key(const char* text, rapidjson::SizeType size, bool) {
    key_.assign(text, size);
    if (options_.keys != nullptr) options_.keys->push_back({static_cast<int>(open_.size()), key_});
    if (options_.unique_keys && open_.back()->contains(key_)) {
      problem_ = cat("duplicate key '", key_, "'");
      return false;
    }
    return true;
  }

 private:
  nlohmann::json* put(nlohmann::json value) {
    if (open_.empty()) {
      *root_ = std::move(value);
      return root_;
    }
    nlohmann::json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    nlohmann::json& slot = parent[key_];
    slot = std::move(value);
    return &slot;
  }

  bool open(nlohmann::json value) {
    if (static_cast<int>(open_.size()) >= options_.max_depth) {
      problem_ = cat("nested deeper than ", options_.max_depth, " levels");
      return false;
    }
    open_.push_back(put(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  JsonOptions options_;
  nlohmann::json* root_;
  std::vector<nlohmann::json*> open_;  // containers being filled, outermost first
  std::string key_;
  std::string problem_;
};

[[noreturn]] void fail(std::string_view name, std::string_view text, size_t offset,
                       std::string_view problem) {
  const auto lines = std::count(
      text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size())), '\n');
  throw Error(cat(name, ":", static_cast<int64_t>(lines) + 1, ": ", problem));
}

}  // namespace

nlohmann::json parse_json(std::string_view text, std::string_view name, const JsonOptions& options) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  nlohmann::json root;
  JsonBuilder builder(options, root);
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, JsonAllocator> reader;
  // Iterative, so that nesting uses no stack.
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNanAndInfFlag |
                              rapidjson::kParseStopWhenDoneFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (result.IsError()) {
    const std::string_view problem = builder.problem().empty() ? rapidjson::GetParseError_En(result.Code())
                                                               : std::string_view(builder.problem());
    fail(name, text, result.Offset(), problem);
  }
  // The reader stops at a zero byte, so the rest of the text is checked here.
  const size_t rest = text.find_first_not_of(" \t\r\n", stream.Tell());
  if (rest != std::string_view::npos)
    fail(name, text, rest, "unexpected text after the end of the JSON value");
  return root;
}

std::string read_text_file(const std::filesystem::path& path, int64_t max_bytes) {
  return read_regular_file(path, max_bytes);
}

nlohmann::json read_json_file(const std::filesystem::path& path, const JsonOptions& options) {
  return parse_json(read_text_file(path), path.string(), options);
}

}  // namespace quire
