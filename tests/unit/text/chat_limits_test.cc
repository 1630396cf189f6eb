// Templates that try to block the server or exhaust its memory, and deeply nested requests.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "support/allocations.h"
#include "support/sanitizers.h"
#include "unit/text/chat_case.h"

namespace quire::test {
namespace {

struct Hostile {
  const char* name;
  std::string source;
};

void PrintTo(const Hostile& hostile, std::ostream* out) {
  *out << hostile.name;
}

std::string repeated(const std::string& text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

std::vector<Hostile> hostile_templates() {
  const std::string doubling =
      "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}";
  const std::string shared =
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
  const std::string tuples =
      "{% set ns = namespace(x=(1,)) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}";
  return {
      {"RangeTooBig", "{% for i in range(10 ** 9) %}{% endfor %}"},
      {"NestedLoops",
       "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% "
       "endfor %}{% endfor %}"},
      {"StringRepeat", "{{ 'a' * 10 ** 10 }}"},
      {"StringRepeatHuge", "{{ 'ab' * 9223372036854775807 }}"},
      {"ListRepeat", "{{ ([0] * 10 ** 9)|length }}"},
      {"ListRepeatHuge", "{{ ([0, 1] * 9223372036854775807)|length }}"},
      {"StringDoubling", doubling + "{{ ns.x }}"},
      {"OutputInLoop",
       "{% for a in range(99999) %}{% for b in range(999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% "
       "endfor %}{% endfor %}"},
      {"RecursiveMacro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
      {"MutualMacros",
       "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"},
      {"RecursiveLoop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"},
      {"RecursiveCaller", "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}"},
      {"ExponentialMacro",
       "{% macro m(k) %}{% if k %}{{ m(k - 1) }}{{ m(k - 1) }}{% endif %}{% endmacro %}{{ m(60) }}"},
      {"Width", "{{ '%999999999d' % 1 }}"},
      {"StarWidth", "{{ '%*d' % (2000000000, 1) }}"},
      {"BraceWidth", "{{ '{:999999999}'.format(1) }}"},
      {"Precision", "{{ '%.999999999f' % 1.0 }}"},
      {"Center", "{{ 'x'.center(9223372036854775807) }}"},
      {"Ljust", "{{ 'x'.ljust(9223372036854775807) }}"},
      {"Zfill", "{{ 'x'.zfill(9223372036854775807) }}"},
      {"Indent", "{{ ('a\n' * 10000)|indent(10000) }}"},
      {"Batch", "{{ [1]|batch(9223372036854775807, 0)|list|length }}"},
      {"Slice", "{{ [1]|slice(9223372036854775807)|list|length }}"},
      {"TojsonIndent", "{{ [[1]]|tojson(indent=9223372036854775807) }}"},
      {"TojsonIndentProduct", "{{ (['a'] * 100000)|tojson(indent=100000) }}"},
      {"ReplaceProduct", "{{ ('a' * 1000000)|replace('a', 'b' * 1000000) }}"},
      {"JoinProduct", "{{ range(100000)|join('b' * 1000000) }}"},
      {"FindInLoop",
       "{% set h = 'a' * 10000000 %}{% for i in range(99999) %}{% if 'ab' in h %}{% endif %}{% endfor %}"},
      {"SharedListEquality", shared + "{% set a = ns.x %}" + shared + "{{ a == ns.x }}"},
      {"SharedListText", shared + "{{ ns.x }}"},
      {"SharedListJson", shared + "{{ ns.x|tojson }}"},
      {"SharedTupleHash", tuples + "{{ {ns.x: 1} }}"},
      {"DeepList",
       "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x "
       "}}"},
      {"SelfReference", "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}"},
      {"Strftime", "{{ strftime_now('%c' * 10000000) }}"},
      {"PowerOfIntegers", "{{ 9 ** 999999999 }}"},
      {"SortInLoop",
       "{% set x = range(100000)|list %}{% for i in range(99999) %}{% set y = x|sort(reverse=true) %}{% "
       "endfor %}"},
      {"CaptureNesting",
       repeated("{% set a %}", 60) + "{{ 'x' * 8000000 }}" + repeated("{% endset %}{{ a }}{{ a }}", 60)},
      {"RsplitInLoop",
       "{% set h = 'a' * 1000000 %}{% for i in range(9999) %}{% set y = h.rsplit('a') %}{% endfor %}"},
      {"StripInLoop",
       "{% set h = ' ' * 1000000 %}{% for i in range(99999) %}{% set y = h.strip() %}{% endfor %}"},
      {"WordwrapInLoop",
       "{% set h = 'a b ' * 100000 %}{% for i in range(9999) %}{% set y = h|wordwrap(2) %}{% endfor %}"},
      {"Pprint", shared + "{{ ns.x|pprint }}"},
  };
}

class ChatHostile : public testing::TestWithParam<Hostile> {};

// Reaching the limit on steps takes little time: ChatCharges checks that they count all work.
TEST_P(ChatHostile, ReachesALimitInLittleMemory) {
  const auto tmpl = ChatTemplate::parse(GetParam().source, "hostile");
  ChatRenderOptions options;
  options.messages = Json::array();
  const AllocationPeak peak;
  const auto result = tmpl.render(options);
  const int64_t bytes = peak.bytes();
  ASSERT_FALSE(result.ok());
  // Values that are being made count only when they are complete.
  if (kCountsAllocations) {
    EXPECT_LT(bytes, static_cast<int64_t>(3 * ChatRenderLimits().max_bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, ChatHostile, testing::ValuesIn(hostile_templates()),
                         [](const auto& hostile) { return std::string(hostile.param.name); });

// Rendering, parsing and freeing use little stack, so that no template can overflow the stack of a server
// thread.
class ChatStack : public testing::TestWithParam<Hostile> {};

void run_with_stack(size_t bytes, void* (*body)(void*), void* argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, body, argument), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST_P(ChatStack, UsesLittleStack) {
  constexpr size_t kStack = size_t{test::kAddressSanitizer ? 8 : 1} << 20;
  auto body = [](void* argument) -> void* {
    try {
      const auto tmpl = ChatTemplate::parse(*static_cast<std::string*>(argument), "deep");
      ChatRenderOptions options;
      options.messages = Json::array();
      static_cast<void>(tmpl.render(options));
    } catch (const Error&) {  // rejecting the template is fine, too
    }
    return nullptr;
  };
  std::string source = GetParam().source;
  run_with_stack(kStack, body, &source);
}

std::vector<Hostile> deep_templates() {
  const size_t many = 100000;
  const std::string macro =
      "{% macro m(k) %}{% if true %}{% for i in [1] %}{% filter upper %}{% with %}{% set x %}";
  const std::string end =
      "{% endset %}{% endwith %}{% endfilter %}{% endfor %}{% endif %}{% endmacro %}{{ m(1) }}";
  return {
      {"Parentheses", "{{ " + repeated("(", many) + "1" + repeated(")", many) + " }}"},
      {"Lists", "{{ " + repeated("[", many) + repeated("]", many) + " }}"},
      {"Dicts", "{{ " + repeated("{1:", many) + "1" + repeated("}", many) + " }}"},
      {"Nots", "{{ " + repeated("not ", many) + "1 }}"},
      {"Minuses", "{{ " + repeated("-", many) + "1 }}"},
      {"Conditions", "{{ " + repeated("1 if 0 else ", many) + "1 }}"},
      {"Sums", "{{ 1" + repeated(" + 1", many) + " }}"},
      {"Attributes", "{{ x" + repeated(".a", many) + " }}"},
      {"Calls", "{{ x" + repeated("()", many) + " }}"},
      {"Filters", "{{ 1" + repeated("|string", many) + " }}"},
      {"Ifs", repeated("{% if 1 %}", many) + repeated("{% endif %}", many)},
      {"Elifs", "{% if 0 %}" + repeated("{% elif 0 %}", 2000) + "{% endif %}"},
      {"Targets", "{% for " + repeated("(", many) + "a" + repeated(")", many) + " in x %}{% endfor %}"},
      {"Tests", "{{ 1 is " + repeated("in [1 is ", many) + " }}"},
      {"DeepAllowedSum", "{{ 1" + repeated(" + 1", 390) + " }}"},
      {"MacroThroughEverything", macro + "{{ (((m(1) ~ 1) ~ 2)|string)[0:9] }}" + end},
      {"MacroThroughSum", "{% macro m() %}{{ m()" + repeated(" ~ 1 + 1", 190) + " }}{% endmacro %}{{ m() }}"},
      {"MacroThroughMap",
       "{% macro m() %}{{ [1]|map('string')|map('upper')|join(m()) }}{% endmacro %}{{ m() }}"},
      {"FreeDeepList",
       "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}"},
      {"FreeDeepDict",
       "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}"},
      {"CompareDeepLists",
       "{% set ns = namespace(x=[], y=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% set ns.y = "
       "[ns.y] %}{% endfor %}{{ ns.x == ns.y }}"},
  };
}

INSTANTIATE_TEST_SUITE_P(Templates, ChatStack, testing::ValuesIn(deep_templates()),
                         [](const auto& hostile) { return std::string(hostile.param.name); });

TEST(ChatLimits, RejectsDeeplyNestedJsonInARequest) {
  const auto tmpl = ChatTemplate::parse("{{ messages|tojson }}", "t");
  ChatRenderOptions options;
  options.messages = Json::array();
  Json deep = 1;
  for (int i = 0; i < 5000; ++i) deep = Json::array({std::move(deep)});
  options.messages.push_back({{"role", "user"}, {"content", std::move(deep)}});
  const auto result = tmpl.render(options);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.failure().message.find("nested too deeply"), std::string::npos);
}

TEST(ChatLimits, AcceptsALargeRequest) {
  const auto tmpl = ChatTemplate::parse("{% for m in messages %}{{ m.content|trim }}\n{% endfor %}", "t");
  ChatRenderOptions options;
  options.messages = Json::array();
  for (int i = 0; i < 2000; ++i)
    options.messages.push_back({{"role", "user"}, {"content", std::string(20000, 'x')}});
  const auto result = tmpl.render(options);
  ASSERT_TRUE(result.ok()) << result.failure().message;
  EXPECT_EQ(result->size(), 2000U * 20001U);
}

TEST(ChatLimits, TwoThreadsCanUseOneTemplate) {
  const auto tmpl = ChatTemplate::parse(
      "{% macro m(x) %}[{{ x|upper }}]{% endmacro %}{% for m2 in messages %}{{ m(m2.content) }}{{ 'é'|length "
      "}}{% endfor %}",
      "t");
  const auto work = [&] {
    for (int i = 0; i < 500; ++i) {
      ChatRenderOptions options;
      options.messages = Json::array({{{"role", "user"}, {"content", "a" + std::to_string(i)}}});
      const auto result = tmpl.render(options);
      EXPECT_EQ(result.ok() ? *result : "", "[A" + std::to_string(i) + "]1");
    }
  };
  std::thread other(work);
  work();
  other.join();
}

}  // namespace
}  // namespace quire::test
