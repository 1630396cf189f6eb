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
  Result<GenerationSpec> completion(const std::string& body) {
    return parse_completion(Json::parse(body), engine, options, "id");
  }
  Result<GenerationSpec> chat(const std::string& body) {
    return parse_chat_completion(Json::parse(body), engine, options, "id");
  }
  // A chat of one message with further fields.
  Result<GenerationSpec> chat_with(const std::string& fields) {
    return chat(R"({"messages":[{"role":"user","content":"hi"}])" + (fields.empty() ? "" : "," + fields) +
                "}");
  }

  FakeEngine engine;
  ApiOptions options = kOptions;
};
}  // namespace quire
