// Which of a model's named chat templates a request gets, as in get_chat_template() of transformers.
#include "text/chat/chat_templates.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

ChatTemplates named(std::initializer_list<const char*> names) {
  ChatTemplates templates;
  for (const char* name : names) templates.add(name, ChatTemplate::parse(name, name));
  return templates;
}

// The name of the template, or the text of the request's own one.
std::string chosen(const ChatTemplates& templates, const Json& tools, const std::string& given = "") {
  ChatRequest request;
  request.tools = tools;
  request.chat_template = given;
  return template_name(templates, request);
}

const Json kTools = Json::array({Json{{"type", "function"}}});

TEST(ChatTemplates, RequestsWithToolsGetTheTemplateForTools) {
  const ChatTemplates templates = named({"default", "rag", "tool_use"});
  EXPECT_EQ(chosen(templates, {}), "default");
  EXPECT_EQ(chosen(templates, kTools), "tool_use");
  EXPECT_EQ(chosen(templates, Json::array()), "tool_use");
}

TEST(ChatTemplates, ToolsNeedNoTemplateOfTheirOwn) {
  EXPECT_EQ(chosen(named({"default", "rag"}), kTools), "default");
}

TEST(ChatTemplates, RequestsCanNameATemplate) {
  const ChatTemplates templates = named({"default", "rag", "tool_use"});
  EXPECT_EQ(chosen(templates, {}, "rag"), "rag");
  EXPECT_EQ(chosen(templates, kTools, "default"), "default");
}

TEST(ChatTemplates, TheTemplateOfARequestComesFirst) {
  EXPECT_EQ(chosen(named({"default", "tool_use"}), kTools, "{{ messages }}"), "");
}

TEST(ChatTemplates, OnlyThoseThatCanBeReadAreFound) {
  ChatTemplates templates = named({"tool_use"});
  EXPECT_FALSE(templates.empty());
  EXPECT_EQ(templates.find("default"), nullptr);
  EXPECT_EQ(templates.find("tool_use")->source(), "tool_use");
  templates.add("tool_use", std::nullopt);
  EXPECT_TRUE(templates.empty());
  EXPECT_TRUE(templates.has("tool_use"));
  EXPECT_EQ(templates.find("tool_use"), nullptr);
}

}  // namespace
}  // namespace quire
