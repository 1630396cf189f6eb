// A case of a golden file: the input of a rendering and the expected result of the reference.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "text/chat/chat_template.h"
#include "unit/text/tokenizer_test_util.h"

namespace quire::test {

using Json = nlohmann::ordered_json;

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline ChatRenderOptions case_options(const Json& entry, const std::string& now) {
  ChatRenderOptions options;
  const auto get = [&](const char* name) { return entry.contains(name) ? entry.at(name) : Json(); };
  options.messages = entry.contains("messages") ? entry.at("messages") : Json::array();
  options.tools = get("tools");
  options.documents = get("documents");
  options.add_generation_prompt = entry.value("add_generation_prompt", false);
  options.continue_final_message = entry.value("continue_final_message", false);
  if (const Json bos = get("bos_token"); bos.is_string())
    options.special_tokens["bos_token"] = bos.get<std::string>();
  if (const Json eos = get("eos_token"); eos.is_string())
    options.special_tokens["eos_token"] = eos.get<std::string>();
  options.kwargs = get("kwargs");
  options.now = parse_now(now).value();
  return options;
}

// Empty if the rendering matches the case, otherwise a description of the difference.
inline std::string disagreement(const ChatTemplate& tmpl, const Json& entry, const std::string& now) {
  const auto got = tmpl.render(case_options(entry, now));
  if (entry.contains("expected")) {
    if (!got.ok()) return "failed: " + got.failure().message;
    const auto expected = entry.at("expected").get<std::string>();
    return *got == expected ? "" : "got\n" + *got + "\nexpected\n" + expected;
  }
  if (got.ok())
    return "rendered\n" + *got + "\nbut the reference raised " + entry.at("error").get<std::string>();
  // Messages of raise_exception come from the template; messages of other errors may differ.
  if (entry.contains("error_type")) return "";
  const auto& message = got.failure().message;
  return message == entry.at("error").get<std::string>() ? "" : "failed with: " + message;
}

}  // namespace quire::test
