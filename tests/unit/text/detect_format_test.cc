// Which format is found for a chat template.
#include "text/output/detect_format.h"

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <set>

#include "unit/text/chat_case.h"

namespace quire::test {
namespace {

DetectedFormat detect_source(const std::string& source) {
  return detect_format(ChatTemplate::parse(source, "test"), {});
}

constexpr const char* kTurns =
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n"
    "{%- if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}{{ m.content }}"
    "{%- for c in m.tool_calls or [] %}";
constexpr const char* kTurnsEnd =
    "{%- endfor %}<|im_end|>\n{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}";

TEST(DetectFormat, ParsesARenderedCallBack) {
  const auto found = detect_source(
      std::string(kTurns) +
      R"(<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>)" +
      kTurnsEnd);
  ASSERT_NE(found.calls, nullptr);
  EXPECT_EQ(found.calls->name, "hermes");
  EXPECT_EQ(found.calls_method, FormatMethod::kRendered);
  ASSERT_NE(found.reasoning, nullptr);
  EXPECT_EQ(found.reasoning->name, "qwen3");
  EXPECT_EQ(found.reasoning_method, FormatMethod::kRendered);
}

TEST(DetectFormat, ReadsTheSourceIfNoCallIsRendered) {
  const auto found = detect_source(
      "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}{# [TOOL_CALLS] [THINK] #}");
  ASSERT_NE(found.calls, nullptr);
  EXPECT_EQ(found.calls->name, "mistral");
  EXPECT_EQ(found.calls_method, FormatMethod::kLiteral);
  EXPECT_EQ(found.reasoning_method, FormatMethod::kLiteral);
}

TEST(DetectFormat, FallsBackToJson) {
  const auto found = detect_source("{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}");
  ASSERT_NE(found.calls, nullptr);
  EXPECT_EQ(found.calls->name, "json");
  EXPECT_EQ(found.calls_method, FormatMethod::kGeneric);
  EXPECT_EQ(found.reasoning, nullptr);
}

TEST(DetectFormat, TemplatesWithoutToolsHaveNoCalls) {
  const auto found = detect_source("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(found.calls, nullptr);
  EXPECT_EQ(found.calls_method, FormatMethod::kNone);
}

TEST(DetectFormat, TemplatesThatFailAreReadOnly) {
  const auto found = detect_source("{{ raise_exception('no') }}{{ tools }}<|tool_calls_section_begin|>");
  ASSERT_NE(found.calls, nullptr);
  EXPECT_EQ(found.calls->name, "kimi_k2");
}

// Whether a template reads `tools`, as a variable or as a field of a message.
bool mentions_tools(const std::string& source) {
  constexpr std::string_view kWord = "tools";
  const auto in_word = [&](size_t at) {
    return at < source.size() &&
           (std::isalnum(static_cast<unsigned char>(source[at])) != 0 || source[at] == '_');
  };
  for (size_t at = source.find(kWord); at != std::string::npos; at = source.find(kWord, at + 1)) {
    if ((at == 0 || !in_word(at - 1)) && !in_word(at + kWord.size())) return true;
  }
  return false;
}

// docs/tool-calls.md has a row for each template: its name, the formats of calls and reasoning, and the
// methods.
TEST(DetectFormat, SharedTemplatesAreInTheDocs) {
  const auto dir = shared_dir() / "data" / "templates" / "jinja";
  if (!std::filesystem::exists(dir))
    GTEST_SKIP() << "the shared chat templates are missing: " << dir << " (set QUIRE_SHARED)";
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) files.insert(entry.path());
  std::string table;
  size_t templates = 0, rendered = 0, found = 0;
  for (const auto& file : files) {
    const std::string source = read_file(file);
    const auto format = detect_format(ChatTemplate::parse(source, file.filename()),
                                      {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    if (format.calls == nullptr || !mentions_tools(source)) continue;
    ++templates;
    rendered += format.calls_method == FormatMethod::kRendered ? 1 : 0;
    found += format.calls_method != FormatMethod::kGeneric ? 1 : 0;
    table += "| `" + file.stem().string() + "` | `" + std::string(format.calls->name) + "` | " +
             std::string(method_name(format.calls_method)) + " | ";
    table += format.reasoning == nullptr ? "| |\n"
                                         : "`" + std::string(format.reasoning->name) + "` | " +
                                               std::string(method_name(format.reasoning_method)) + " |\n";
  }
  EXPECT_EQ(templates, 63U);
  EXPECT_GE(rendered, 50U);
  EXPECT_GE(found, 60U);
  const std::string docs = read_file(std::filesystem::path(QUIRE_SOURCE_DIR) / "docs/tool-calls.md");
  EXPECT_NE(docs.find(table), std::string::npos) << "docs/tool-calls.md should contain\n" << table;
}

}  // namespace
}  // namespace quire::test
