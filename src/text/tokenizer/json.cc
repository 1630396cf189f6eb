#include "text/tokenizer/json.h"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>

#include "base/error.h"
#include "io/json_number.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {
namespace {

// Passes the events of the reader on to the document, and converts the numbers.
class DocumentBuilder {
 public:
  explicit DocumentBuilder(JsonDocument& document) : document_(document) {}

  bool has_too_big_number() const { return has_too_big_number_; }

  bool Null() { return document_.Null(); }
  bool Bool(bool v) { return document_.Bool(v); }
  bool Int(int v) { return document_.Int(v); }
  bool Uint(unsigned v) { return document_.Uint(v); }
  bool Int64(int64_t v) { return document_.Int64(v); }
  bool Uint64(uint64_t v) { return document_.Uint64(v); }
  bool Double(double v) { return document_.Double(v); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) {
    has_too_big_number_ = !put_number({text, size}, document_);
    return !has_too_big_number_;
  }
  bool String(const char* text, rapidjson::SizeType size, bool copy) {
    return document_.String(text, size, copy);
  }
  bool Key(const char* text, rapidjson::SizeType size, bool copy) { return document_.Key(text, size, copy); }
  bool StartObject() { return document_.StartObject(); }
  bool StartArray() { return document_.StartArray(); }
  bool EndObject(rapidjson::SizeType size) { return document_.EndObject(size); }
  bool EndArray(rapidjson::SizeType size) { return document_.EndArray(size); }

 private:
  JsonDocument& document_;
  bool has_too_big_number_ = false;
};

[[noreturn]] void fail(const std::string& name, std::string_view text, size_t offset,
                       std::string_view problem) {
  const size_t at = std::min(offset, text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  const size_t start = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const size_t column = start == std::string_view::npos ? at + 1 : at - start;
  throw Error(name + ": line " + std::to_string(line) + ", column " + std::to_string(column) + ": " +
              std::string(problem));
}

// A value that is not an object or array with contents.
nlohmann::json plain_value(const JsonValue& value) {
  if (value.IsBool()) return value.GetBool();
  if (value.IsInt64()) return value.GetInt64();
  if (value.IsNumber()) return value.GetDouble();
  if (value.IsString()) return std::string(view(value));
  return {};
}

bool is_empty(const JsonValue& value) {
  return value.IsNull() || (value.IsString() && value.GetStringLength() == 0) ||
         (value.IsArray() && value.Empty()) || (value.IsObject() && value.ObjectEmpty());
}

// Collects the paths of members that nothing asked for. `path` with the file, as in JsonPlace; `begin`: its
// length.
class UnreadMembers {
 public:
  UnreadMembers(ConfigFile kind, const FieldLog& log, size_t begin) : kind_(kind), log_(log), begin_(begin) {}

  void add(const JsonValue& value, const std::string& path) {
    if (value.IsArray()) {
      for (rapidjson::SizeType i = 0; i < value.Size(); ++i)
        add(value[i], path + "[" + std::to_string(i) + "]");
    } else if (value.IsObject() && log_.contains(path + ".")) {
      for (const auto& member : value.GetObject())
        add_member(member.value, path + (path.size() == begin_ ? "" : ".") + std::string(view(member.name)));
    }
  }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  void add_member(const JsonValue& value, const std::string& path) {
    if (log_.contains(path)) return add(value, path);
    const std::string_view name = std::string_view(path).substr(begin_);
    if (!is_empty(value) && !has_no_effect(kind_, name, plain_value(value))) names_.emplace_back(name);
  }

  ConfigFile kind_;
  const FieldLog& log_;
  size_t begin_;
  std::vector<std::string> names_;
};

}  // namespace

std::string unread_warning(ConfigFile kind, const JsonFile& file, const FieldLog& log) {
  const std::string root = file.name + ": ";
  UnreadMembers unread(kind, log, root.size());
  unread.add(file.document, root);
  return quire::unread_warning(file.name, unread.take());
}

void parse_json(std::string_view text, JsonFile& file) {
  if (text.size() > 1u << 30) throw Error(file.name + ": larger than 1 GiB, the maximum for a tokenizer");
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  if (!unicode::is_valid(text)) throw Error(file.name + ": is not UTF-8 text");
  file.text.assign(text);
  // Iterative, so that deep nesting does not use the stack.
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseInsituFlag | rapidjson::kParseNumbersAsStringsFlag;
  const auto parse = [&](JsonDocument& document) {
    DocumentBuilder builder(document);
    rapidjson::InsituStringStream stream(file.text.data());
    rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, JsonAllocator> reader;
    const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
    if (result.IsError()) {
      fail(file.name, text, result.Offset(),
           builder.has_too_big_number() ? kJsonNumberTooBig : rapidjson::GetParseError_En(result.Code()));
    }
    return true;
  };
  file.document.Populate(parse);
  if (!file.document.IsObject()) throw Error(file.name + ": not a JSON object");
}

JsonPlace JsonPlace::member(const char* name) const {
  expect_object();
  const auto found = value_->FindMember(name);
  const bool at_root = path_.empty() || path_.back() == ' ';
  std::string path = path_ + (at_root ? "" : ".") + name;
  if (log_ != nullptr) {
    log_->add(path_ + ".");
    log_->add(path);
  }
  return {found == value_->MemberEnd() ? nullptr : &found->value, std::move(path), log_};
}

JsonPlace JsonPlace::element(rapidjson::SizeType i) const {
  return {&(*value_)[i], path_ + "[" + std::to_string(i) + "]", log_};
}

void JsonPlace::fail(const std::string& what) const {
  throw Error(path_ + ": " + what);
}

void JsonPlace::expect_object() const {
  if (!present()) fail("is missing");
  if (!value_->IsObject()) fail("must be an object");
}
void JsonPlace::expect_array() const {
  if (!present()) fail("is missing");
  if (!value_->IsArray()) fail("must be an array");
}
std::string_view JsonPlace::string() const {
  if (!present()) fail("is missing");
  if (!value_->IsString()) fail("must be a string");
  return view(*value_);
}
std::string_view JsonPlace::string_or(std::string_view otherwise) const {
  return present() ? string() : otherwise;
}
bool JsonPlace::boolean_or(bool otherwise) const {
  if (!present()) return otherwise;
  if (!value_->IsBool()) fail("must be true or false");
  return value_->GetBool();
}
uint64_t JsonPlace::integer(uint64_t highest) const {
  if (!present()) fail("is missing");
  if (!value_->IsUint64() || value_->GetUint64() > highest) {
    fail("must be an integer from 0 to " + std::to_string(highest));
  }
  return value_->GetUint64();
}
uint64_t JsonPlace::integer_or(uint64_t otherwise, uint64_t highest) const {
  return present() ? integer(highest) : otherwise;
}
double JsonPlace::number() const {
  if (!present()) fail("is missing");
  if (!value_->IsNumber()) fail("must be a number");
  return value_->GetDouble();
}
std::string_view JsonPlace::type() const {
  return member("type").string();
}

}  // namespace quire::tokenizer
