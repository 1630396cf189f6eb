// Shared by the tests of request parsing: requests to a fake engine.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "server/openai/generation_spec.h"
#include "unit/server/fake_engine.h"

namespace quire {

inline const ApiOptions kOptions{{"fake", "/models/fake"}, false, false};

// A message is a whole sentence that names the field.
inline void expect_sentence(const Failure& failure, const std::string& field) {
  EXPECT_TRUE(failure.message.ends_with('.')) << failure.message;
  EXPECT_NE(failure.message.find(field), std::string::npos) << failure.message;
}

class RequestsTest : public testing::Test {
 protected:
  Result<GenerationSpec> completion(const std::string& body) { return parse(body, parse_completion); }
  Result<GenerationSpec> chat(const std::string& body) { return parse(body, parse_chat_completion); }
  // A chat of one message with further fields.
  Result<GenerationSpec> chat_with(const std::string& fields) {
    return chat(R"({"messages":[{"role":"user","content":"hi"}])" + (fields.empty() ? "" : "," + fields) +
                "}");
  }

  FakeEngine engine;
  ApiOptions options = kOptions;

 private:
  using Parse = Result<GenerationSpec> (*)(const Json&, const ServingEngine&, const ApiOptions&,
                                           const std::string&, const YieldPoint&);
  Result<GenerationSpec> parse(const std::string& text, Parse parse_body) {
    const Json body = Json::parse(text);
    auto spec = parse_body(body, engine, options, "id", {});
    if (!spec.ok()) return spec;
    if (const Status constrained = constrain(*spec); !constrained.ok()) return constrained.failure();
    return spec;
  }
};
}  // namespace quire
