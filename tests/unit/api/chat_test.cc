// Conversations in the C++ library: messages, their JSON, and the chat templates of ../shared.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "quire/llm.h"
#include "support/temp_dir.h"

namespace quire {
namespace {

using nlohmann::ordered_json;

LLM chat_llm() {
  return LLM({.kv_cache_memory = 32 << 20, .threads = 1});
}

// The prompt as text.
std::string prompt_of(const LLM& llm, const std::string& json) {
  return llm.detokenize(llm.chat_prompt_json(json), false);
}

TEST(LlmChat, PassesTheFieldsOfMessagesAndOptionsToTheTemplate) {
  const LLM llm = chat_llm();
  const std::vector<ChatMessage> messages = {
      {"user", "How warm is it?"},
      {.role = "assistant",
       .tool_calls = {{.id = "c1", .name = "weather", .arguments = R"({"city": "Paris"})"}},
       .reasoning_content = "ask"},
      {.role = "tool", .content = "20", .tool_call_id = "c1", .name = "weather"}};
  const ChatOptions options = {
      .tools = R"([{"type": "function", "function": {"name": "weather"}}])",
      .chat_template_kwargs = R"({"mood": "calm"})",
      .chat_template =
          "{% for m in messages %}{{ m.role }}|{{ m.name }}|{{ m.tool_call_id }}|{{ m.reasoning_content "
          "}}|{{ m.tool_calls[0].function | tojson if m.tool_calls }}|{{ m.content }};{% endfor %}{{ "
          "tools[0].function.name }} {{ mood }} {{ add_generation_prompt }}",
      .add_generation_prompt = false};
  EXPECT_EQ(llm.detokenize(llm.chat_prompt(messages, options), false),
            "user||||"
            "|How warm is it?;assistant|||ask|{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}|;"
            "tool|weather|c1|||20;weather calm False");
}

TEST(LlmChat, ReadsConversationsAsJson) {
  LLM llm = chat_llm();
  const std::string list = R"([{"role": "user", "content": "Hello"}])";
  EXPECT_EQ(llm.chat_prompt_json(list), llm.chat_prompt({{"user", "Hello"}}));
  EXPECT_EQ(llm.chat_json(list, {.max_tokens = 1}).prompt_token_ids, llm.chat_prompt_json(list));
  Stream stream = llm.chat_stream_json(list, {.max_tokens = 1});
  while (stream.next()) {
  }
  EXPECT_EQ(stream.completion().token_ids.size(), 1U);
  EXPECT_EQ(
      prompt_of(llm, R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}],
                              "chat_template": "{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}"})"),
      "<a><b>");
}

TEST(LlmChat, NamesTheMessageInErrors) {
  const LLM llm = chat_llm();
  const auto error_of = [&](const std::string& json) -> std::string {
    try {
      static_cast<void>(llm.chat_prompt_json(json));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of(R"([{"role": "user", "content": 5}])"),
            "messages[0].content must be a string or an array of parts, not a number.");
  EXPECT_EQ(error_of("5"), "the conversation must be a list of messages or an object, not a number");
  EXPECT_THROW(static_cast<void>(llm.chat_prompt({{"user", "a"}}, {.tools = "{"})), Error);
}

TEST(LlmChat, UsesTheTemplateForToolsOfAModelWithSeveral) {
  const test::TempDir dir;
  const auto tiny = std::filesystem::path(QUIRE_SOURCE_DIR) / "models/quire-tiny";
  std::filesystem::copy(tiny, dir.path(), std::filesystem::copy_options::recursive);
  const ordered_json templates = {
      {{"name", "default"}, {"template", "plain {{ messages[0].content }}"}},
      {{"name", "tool_use"}, {"template", "{{ tools[0].name }} {{ messages[0].content }}"}}};
  dir.write("tokenizer_config.json", ordered_json({{"chat_template", templates}}).dump());
  const LLM llm({.model = dir.path().string(), .kv_cache_memory = 32 << 20, .threads = 1});
  EXPECT_EQ(prompt_of(llm, R"([{"role": "user", "content": "a"}])"), "plain a");
  const auto ids = llm.chat_prompt({{"user", "a"}}, {.tools = R"([{"name": "weather"}])"});
  EXPECT_EQ(llm.detokenize(ids, false), "weather a");
}

TEST(LlmChat, ContinuesTheLastMessage) {
  const LLM llm = chat_llm();
  const auto ids = llm.chat_prompt({{"user", "a"}, {"assistant", "b c"}}, {.continue_final_message = true});
  EXPECT_TRUE(llm.detokenize(ids, false).ends_with("assistant\nb c"));
}

// Cases of the shared goldens that have no other right answer than transformers'.
bool is_compared(const ordered_json& item) {
  constexpr std::array<std::string_view, 9> kNames = {
      "user",       "system_user",         "multi_turn",        "tools",       "tool_call_result",
      "text_parts", "tool_calls_parallel", "tool_result_parts", "tools_system"};
  if (std::ranges::find(kNames, item.at("name").get<std::string>()) == kNames.end()) return false;
  if (!item.contains("expected") || !item.at("bos_token").is_string() || !item.at("eos_token").is_string())
    return false;
  // Here the template prints a list, and the texts are joined instead.
  const auto expected = item.at("expected").get<std::string>();
  return expected.find("'text': ") == std::string::npos && expected.find("\"text\": ") == std::string::npos;
}

TEST(LlmChat, GivesThePromptsOfTransformersForTheSharedTemplates) {
  const char* given = std::getenv("QUIRE_SHARED");
  const auto dir = (given != nullptr ? std::filesystem::path(given)
                                     : std::filesystem::path(QUIRE_SOURCE_DIR) / ".." / "shared") /
                   "data" / "templates";
  if (!std::filesystem::exists(dir)) GTEST_SKIP() << "the shared chat templates are missing: " << dir;
  // These read strings in no form, or drop the text of lists.
  const std::array<std::string_view, 3> other = {"mistral.rs--idefics3-json",
                                                 "vllm--template_vlm2vec_qwen2vl",
                                                 "rtp-llm--qwen3_30b_thinking_0527-config"};
  const LLM llm = chat_llm();
  setenv("QUIRE_NOW", "2026-01-15T12:00:00", 1);  // the goldens' frozen_now
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "golden")) {
    const auto name = entry.path().stem().string();
    if (std::ranges::find(other, name) != other.end()) continue;
    const ordered_json golden = ordered_json::parse(std::ifstream(entry.path()));
    std::ifstream file(dir / "jinja" / golden.at("template").get<std::string>(), std::ios::binary);
    const std::string source((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    for (const ordered_json& item : golden.at("cases")) {
      if (!is_compared(item)) continue;
      ordered_json fields = {{"messages", item.at("messages")},
                             {"tools", item.at("tools")},
                             {"chat_template", source},
                             {"chat_template_kwargs", item.at("kwargs")},
                             {"add_generation_prompt", item.at("add_generation_prompt")}};
      for (const char* token : {"bos_token", "eos_token"})
        fields["chat_template_kwargs"][token] = item.at(token);
      EXPECT_EQ(prompt_of(llm, fields.dump()), item.at("expected").get<std::string>())
          << name << ", " << item.at("name");
      ++compared;
    }
  }
  unsetenv("QUIRE_NOW");
  EXPECT_GE(compared, 500);
}

}  // namespace
}  // namespace quire
