// Every built-in of the template language counts its work: a template that calls it in a loop with large
// values is stopped by the limit on steps or memory after a few calls. The loop itself takes a few hundred
// steps, so a built-in that does not count its work lets it finish.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "text/chat/jinja/filters.h"
#include "text/chat/jinja/methods.h"
#include "unit/text/chat_case.h"

namespace quire::test {
namespace {

struct Charged {
  std::string name;  // for example "filter upper", "method split", "global dict", "test lower", "operator +"
  std::string expression;  // uses text, words, numbers, items, table
};

void PrintTo(const Charged& charged, std::ostream* out) {
  *out << charged.name;
}

// Built-ins whose cost does not depend on the size of their operands.
std::set<std::string> constant_built_ins() {
  return {"filter abs",   "filter attr",   "filter d",     "filter default", "filter first",
          "filter count", "filter length", "filter round", "method isascii", "filter last"};
}

std::vector<Charged> charged_filters() {
  return {
      {"filter batch", "numbers|batch(7, 0)"},
      {"filter capitalize", "text|capitalize"},
      {"filter center", "text|center(2000000)"},
      {"filter dictsort", "table|dictsort"},
      {"filter e", "text|e"},
      {"filter escape", "text|escape"},
      {"filter filesizeformat", "('1' * 1000000)|filesizeformat"},
      {"filter float", "digits|float"},
      {"filter forceescape", "text|forceescape"},
      {"filter format", "'%s %s'|format(text, 1)"},
      {"filter groupby", "items|groupby('a')"},
      {"filter indent", "text|indent(2)"},
      {"filter int", "digits|int"},
      {"filter items", "table|items"},
      {"filter join", "words|join(text)"},
      {"filter list", "numbers|list"},
      {"filter lower", "text|lower"},
      {"filter map", "numbers|map('string')"},
      {"filter max", "numbers|max"},
      {"filter min", "numbers|min"},
      {"filter pprint", "numbers|pprint"},
      {"filter reject", "numbers|reject('odd')"},
      {"filter rejectattr", "items|rejectattr('a')"},
      {"filter replace", "text|replace('a', 'b')"},
      {"filter reverse", "text|reverse"},
      {"filter safe", "text|safe"},
      {"filter select", "numbers|select('odd')"},
      {"filter selectattr", "items|selectattr('a')"},
      {"filter slice", "numbers|slice(3)"},
      {"filter sort", "numbers|sort"},
      {"filter string", "text|string"},
      {"filter striptags", "text|striptags"},
      {"filter sum", "numbers|sum"},
      {"filter title", "text|title"},
      {"filter tojson", "numbers|tojson"},
      {"filter trim", "text|trim"},
      {"filter truncate", "text|truncate(999000)"},
      {"filter unique", "numbers|unique"},
      {"filter upper", "text|upper"},
      {"filter urlencode", "text|urlencode"},
      {"filter wordcount", "text|wordcount"},
      {"filter wordwrap", "text|wordwrap(5)"},
      {"filter xmlattr", "{'name': text}|xmlattr"},
  };
}

std::vector<Charged> charged_methods() {
  return {
      {"method capitalize", "text.capitalize()"},
      {"method casefold", "text.casefold()"},
      {"method center", "text.center(2000000)"},
      {"method count", "text.count('b')"},
      {"method endswith", "text.endswith(text2)"},
      {"method expandtabs", "text.expandtabs()"},
      {"method find", "text.find('zz')"},
      {"method format", "'{} {}'.format(text, 1)"},
      {"method format_map", "'{x}'.format_map({'x': text})"},
      {"method index", "(text ~ 'zz').index('zz')"},
      {"method isalnum", "word.isalnum()"},
      {"method isalpha", "word.isalpha()"},
      {"method isdecimal", "digits.isdecimal()"},
      {"method isdigit", "digits.isdigit()"},
      {"method isidentifier", "word.isidentifier()"},
      {"method islower", "word.islower()"},
      {"method isnumeric", "digits.isnumeric()"},
      {"method isprintable", "word.isprintable()"},
      {"method isspace", "blanks.isspace()"},
      {"method istitle", "text.title().istitle()"},
      {"method isupper", "digits.isupper()"},
      {"method join", "text.join(words)"},
      {"method ljust", "text.ljust(2000000)"},
      {"method lower", "text.lower()"},
      {"method lstrip", "blanks.lstrip()"},
      {"method partition", "text.partition('zz')"},
      {"method removeprefix", "text.removeprefix(text2)"},
      {"method removesuffix", "text.removesuffix(text2)"},
      {"method replace", "text.replace('a', 'b')"},
      {"method rfind", "text.rfind('zz')"},
      {"method rindex", "('zz' ~ text).rindex('zz')"},
      {"method rjust", "text.rjust(2000000)"},
      {"method rpartition", "text.rpartition('zz')"},
      {"method rsplit", "text.rsplit()"},
      {"method rstrip", "blanks.rstrip()"},
      {"method split", "text.split('a')"},
      {"method splitlines", "lines.splitlines()"},
      {"method startswith", "text.startswith(text2)"},
      {"method strip", "blanks.strip()"},
      {"method swapcase", "text.swapcase()"},
      {"method title", "text.title()"},
      {"method upper", "text.upper()"},
      {"method zfill", "text.zfill(2000000)"},
  };
}

std::vector<Charged> charged_others() {
  return {
      {"method dict.copy", "table.copy()"},
      {"method dict.fromkeys", "dict.fromkeys(numbers)"},
      {"method dict.get", "table.get(text)"},
      {"method list.copy", "numbers.copy()"},
      {"method list.count", "numbers.count(-1)"},
      {"method list.index", "numbers.index(49999)"},
      {"method loop.changed", "loop.changed(*numbers)"},
      {"method loop.cycle", "loop.cycle(*numbers)"},
      {"global cycler", "cycler(*numbers)"},
      {"global dict", "dict(table)"},
      {"global dict keywords", "dict(**table)"},
      {"global dict merged", "dict(table, x=1)"},
      {"global namespace", "namespace(table)"},
      {"global strftime_now", "strftime_now(text)"},
      {"test lower", "text is lower"},
      {"test upper", "digits is upper"},
      {"test in", "-1 is in numbers"},
      {"test eq", "numbers is eq(numbers2)"},
      {"test lt", "numbers is lt(numbers2)"},
      {"operator +", "numbers + numbers"},
      {"operator + of text", "text + text"},
      {"operator ~", "text ~ text"},
      {"operator * of text", "text * 2"},
      {"operator * of a list", "numbers * 2"},
      {"operator %", "'%s' % text"},
      {"operator % with padding", "'%1000000d' % 1"},
      {"operator == of lists", "numbers == numbers2"},
      {"operator == of texts", "text == text2"},
      {"operator == of dicts", "table == table2"},
      {"operator < of lists", "numbers < numbers2"},
      {"operator in of text", "'zz' in text"},
      {"operator in of a list", "-1 in numbers"},
      {"operator in of a range", "-1 in range(50000)"},
      {"operator in of a dict", "text in table"},
      {"slice of text", "text[1:]"},
      {"slice of text backwards", "text[::-1]"},
      {"slice of a list", "numbers[1:]"},
      {"subscript of wide text", "wide[400000]"},
      {"subscript with a long key", "{'a': 1}[text]"},
      {"subscript with a tuple", "{1: 1}[tuple]"},
      {"zero padding in groups", "'{:0=1000000,}'.format(1)"},
      {"conversion to ascii", "'%a' % wide"},
      {"long separator of empty lines", "('\\n' * 1000)|wordwrap(5, true, text)"},
      {"wrapping a long word", "word|wordwrap(1)"},
      {"filter with many arguments", "items|map('default', *numbers)"},
      {"text of a list", "numbers|string"},
      {"comparison of constants", "'" + std::string(100000, 'c') + "' == '" + std::string(100000, 'c') + "'"},
      {"macro with variable arguments", "varargs_of(*numbers)"},
      {"macro with keyword arguments", "kwargs_of(**table)"},
  };
}

std::vector<Charged> all_rows() {
  std::vector<Charged> rows = charged_filters();
  for (auto more : {charged_methods(), charged_others()}) rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

Json variables() {
  Json kwargs = Json::object();
  std::string text, lines, wide;
  while (text.size() < 1000000) text += "some text, ";
  while (lines.size() < 1000000) lines += "a\n";
  while (wide.size() < 1000000) wide += "\xc3\xa9";
  kwargs["text"] = text;
  kwargs["text2"] = text;
  kwargs["lines"] = lines;
  kwargs["wide"] = wide;
  kwargs["word"] = std::string(1000000, 'w');
  kwargs["digits"] = std::string(1000000, '7');
  kwargs["blanks"] = std::string(1000000, ' ');
  Json numbers = Json::array(), items = Json::array(), words = Json::array();
  Json table = Json::object();
  for (int i = 0; i < 50000; ++i) numbers.push_back(i);
  for (int i = 0; i < 5000; ++i) items.push_back({{"a", i % 7}});
  for (int i = 0; i < 50; ++i) words.push_back("word" + std::to_string(i));
  for (int i = 0; i < 5000; ++i) table["key" + std::to_string(i)] = i;
  kwargs["numbers"] = numbers;
  kwargs["numbers2"] = numbers;
  kwargs["items"] = items;
  kwargs["words"] = words;
  kwargs["table"] = table;
  kwargs["table2"] = table;
  return kwargs;
}

class ChatCharges : public testing::TestWithParam<Charged> {};

TEST_P(ChatCharges, StopsALoopOverABuiltIn) {
  const std::string source =
      "{% macro varargs_of() %}{{ varargs|length }}{% endmacro %}"
      "{% macro kwargs_of() %}{{ kwargs|length }}{% endmacro %}"
      "{% set tuple = (1, 2, 3, 4, 5, 6, 7, 8) * 5000 %}"
      "{% for i in range(50) %}{% set ignored = " +
      GetParam().expression + " %}{% endfor %}";
  static const Json kVariables = variables();
  const auto tmpl = ChatTemplate::parse(source, "charged");
  ChatRenderOptions options;
  options.messages = Json::array();
  options.kwargs = kVariables;
  ChatRenderLimits limits;
  limits.max_steps = 100'000;
  const auto result = tmpl.render(options, limits);
  ASSERT_FALSE(result.ok()) << "the loop finished";
  EXPECT_NE(result.failure().message.find("the template "), std::string::npos) << result.failure().message;
  EXPECT_TRUE(result.failure().message.find("too many steps") != std::string::npos ||
              result.failure().message.find("too much memory") != std::string::npos)
      << result.failure().message;
}

std::string row_name(const testing::TestParamInfo<Charged>& info) {
  std::string name;
  for (const char c : info.param.name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
  }
  return name + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(BuiltIns, ChatCharges, testing::ValuesIn(all_rows()), row_name);

TEST(ChatChargesTable, CoversAllFiltersAndStringMethods) {
  std::set<std::string> named = constant_built_ins();
  for (const Charged& row : all_rows()) named.insert(row.name);
  for (const auto table : {jinja::value_filters(), jinja::sequence_filters(), jinja::string_filters()}) {
    for (const auto& filter : table)
      EXPECT_TRUE(named.contains("filter " + std::string(filter.name))) << filter.name;
  }
  for (const auto& method : jinja::string_methods())
    EXPECT_TRUE(named.contains("method " + std::string(method.name))) << method.name;
}

TEST(ChatCancel, StopsARunningRendering) {
  const auto tmpl = ChatTemplate::parse(
      "{% for a in range(99999) %}{% for b in range(99999) %}{% set x = a + b %}{% endfor %}{% endfor %}",
      "t");
  ChatRenderOptions options;
  options.messages = Json::array();
  std::atomic<bool> cancelled{false};
  options.cancelled = &cancelled;
  ChatRenderLimits limits;
  limits.max_steps = 2'000'000'000;  // not reached, and ends a rendering that cannot be cancelled
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancelled = true;
  });
  const auto result = tmpl.render(options, limits);
  other.join();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().kind, ErrorKind::kOverloaded);
  EXPECT_NE(result.failure().message.find("cancelled"), std::string::npos);
}

}  // namespace
}  // namespace quire::test
