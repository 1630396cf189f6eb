#include "text/tokenizer/json.h"

#include <rapidjson/error/en.h>

#include <algorithm>

#include "base/error.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {

void parse_json(std::string_view text, JsonFile& file) {
  if (text.size() > 1u << 30) throw Error(file.name + ": larger than 1 GiB, the maximum for a tokenizer");
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  if (!unicode::is_valid(text)) throw Error(file.name + ": is not UTF-8 text");
  file.text.assign(text);
  // Iterative, so that deep nesting does not use the stack.
  file.document.ParseInsitu<rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag>(
      file.text.data());
  if (file.document.HasParseError()) {
    const size_t at = std::min(file.document.GetErrorOffset(), text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    const size_t start = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
    const size_t column = start == std::string_view::npos ? at + 1 : at - start;
    throw Error(file.name + ": line " + std::to_string(line) + ", column " + std::to_string(column) + ": " +
                rapidjson::GetParseError_En(file.document.GetParseError()));
  }
  if (!file.document.IsObject()) throw Error(file.name + ": not a JSON object");
}

JsonPlace JsonPlace::member(const char* name) const {
  expect_object();
  const auto found = value_->FindMember(name);
  const bool at_root = path_.empty() || path_.back() == ' ';
  return {found == value_->MemberEnd() ? nullptr : &found->value, path_ + (at_root ? "" : ".") + name};
}

JsonPlace JsonPlace::element(rapidjson::SizeType i) const {
  return {&(*value_)[i], path_ + "[" + std::to_string(i) + "]"};
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
