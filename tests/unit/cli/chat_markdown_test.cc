#include <gtest/gtest.h>

#include "cli/chat/markdown.h"
#include "cli/chat/table.h"

namespace quire::cli {
namespace {

constexpr const char* kReset = "\x1b[0m";

std::string bold(const std::string& text) {
  return "\x1b[1m" + text + kReset;
}
std::string italic(const std::string& text) {
  return "\x1b[3m" + text + kReset;
}
std::string code(const std::string& text) {
  return "\x1b[36m" + text + kReset;
}
std::string dim(const std::string& text) {
  return "\x1b[2m" + text + kReset;
}

std::string render(const std::string& text, int width = 80) {
  MarkdownRenderer renderer(width);
  std::string out = renderer.feed(text);
  return out + renderer.finish();
}

// Without escape sequences.
std::string plain(const std::string& rendered) {
  std::string out;
  for (size_t i = 0; i < rendered.size(); ++i) {
    if (rendered[i] == '\x1b') {
      i = rendered.find('m', i);
    } else {
      out += rendered[i];
    }
  }
  return out;
}

TEST(Markdown, StylesEmphasis) {
  EXPECT_EQ(render("a **b c** d"), "a " + bold("b c") + " d\n");
  EXPECT_EQ(render("a *b* _c_"), "a " + italic("b") + " " + italic("c") + "\n");
  EXPECT_EQ(render("~~no~~"), "\x1b[9mno\x1b[0m\n");
  EXPECT_EQ(render("***x***"), "\x1b[1;3mx\x1b[0m\n");
  EXPECT_EQ(render("**a *b***"), "\x1b[1ma \x1b[0m\x1b[1;3mb\x1b[0m\n");
}

TEST(Markdown, KeepsDelimitersWithoutCounterpart) {
  for (const char* text :
       {"3 * 4 * 5", "a * b", "snake_case_name", "2**3", "*open", "`open", "[x] y", "a\\b", "~5"})
    EXPECT_EQ(render(text), std::string(text) + "\n") << text;
}

TEST(Markdown, KeepsTheContentOfCodeSpans) {
  EXPECT_EQ(render("use `a * b * c` here"), "use " + code("a * b * c") + " here\n");
  EXPECT_EQ(render("``a ` b``"), code("a ` b") + "\n");
  EXPECT_EQ(render("**`x`**"), "\x1b[1;36mx\x1b[0m\n");
}

TEST(Markdown, RemovesBackslashesOfEscapes) {
  EXPECT_EQ(render("\\*not bold\\*"), "*not bold*\n");
}

TEST(Markdown, ShowsTheAddressOfLinks) {
  EXPECT_EQ(plain(render("see [the docs](https://example.com/a \"Title\").")),
            "see the docs (https://example.com/a).\n");
  EXPECT_EQ(plain(render("[https://a.b](https://a.b)")), "https://a.b\n");
}

TEST(Markdown, StylesHeadings) {
  EXPECT_EQ(render("## Two\nrest"), bold("Two") + "\nrest\n");
  EXPECT_EQ(render("# One"), "\x1b[1;4mOne\x1b[0m\n");
  EXPECT_EQ(render("#hashtag"), "#hashtag\n");
}

TEST(Markdown, MarksListItems) {
  EXPECT_EQ(render("- a\n* b\n+ c\n1. d\n10) e\n  - f"), "• a\n• b\n• c\n1. d\n10) e\n  • f\n");
  EXPECT_EQ(render("1.5 is a number\n-5 too"), "1.5 is a number\n-5 too\n");
}

TEST(Markdown, DrawsRules) {
  EXPECT_EQ(plain(render("---", 3)), "───\n");
  EXPECT_EQ(plain(render("* * *", 3)), "───\n");
}

TEST(Markdown, MarksQuotes) {
  EXPECT_EQ(render("> a\n> > b"), "│ a\n│ │ b\n");
}

TEST(Markdown, KeepsFencedCode) {
  EXPECT_EQ(render("```py\na = **b**\n  # c\n```\n*d*"), dim("```py") + "\n" + code("a = **b**") + "\n" +
                                                             code("  # c") + "\n" + dim("```") + "\n" +
                                                             italic("d") + "\n");
  // A fence is closed by at least as many of the same marks.
  EXPECT_EQ(plain(render("````\n```\n~~~\n````\n- x")), "````\n```\n~~~\n````\n• x\n");
  EXPECT_EQ(plain(render("```\nopen")), "```\nopen\n");
}

TEST(Markdown, WrapsAtWords) {
  EXPECT_EQ(render("one two three", 8), "one two\nthree\n");
  EXPECT_EQ(render("- one two three", 8), "• one\n  two\n  three\n");
  EXPECT_EQ(render("abcdefghij", 4), "abcd\nefgh\nij\n");
  EXPECT_EQ(render("漢字漢字", 5), "漢字\n漢字\n");
  EXPECT_EQ(render("**one two**", 4), bold("one") + "\n" + bold("two") + "\n");
}

TEST(Markdown, AlignsTables) {
  const std::string table = "| Name | Size |\n|:--|--:|\n| a | **10** |\n| long one | 2 |\nafter";
  EXPECT_EQ(plain(render(table)),
            "Name     │ Size\n─────────┼─────\na        │   10\nlong one │    2\nafter\n");
  EXPECT_EQ(plain(render("| a | b |\nno table")), "| a | b |\nno table\n");
}

TEST(Markdown, WrapsCellsOfWideTables) {
  const std::string table = "| A | B |\n|---|---|\n| x | one two three |\n";
  EXPECT_EQ(plain(render(table, 11)), "A │ B\n──┼────────\nx │ one two\n  │ three\n");
}

TEST(Markdown, SplitsCellsAtBarsOutsideOfCode) {
  EXPECT_EQ(plain(render("| A | B |\n|-|-|\n| `a|b` | c\\|d |")), "A   │ B\n────┼────\na|b │ c|d\n");
}

TEST(Markdown, RemovesControlCharacters) {
  EXPECT_EQ(render("a\x1b[31mb\x07 c\xc2\x9b"
                   "d"),
            "a[31mb cd\n");
  EXPECT_EQ(plain(render("```\n\x1b]0;title\x07\n```")), "```\n]0;title\n```\n");
}

TEST(Markdown, RendersTheSameInAnyPieces) {
  const std::string text =
      "# T *i*\n\nSome **bold** text with `code` and [a](b), snake_case, 2 * 3.\n\n- one\n  1. two\n---\n> "
      "q\n"
      "```c\nint *p = **q;\n```\n| A | B |\n|--|:-:|\n| 1 | **2** |\n\nü漢 *end";
  const std::string whole = render(text, 30);
  for (size_t size = 1; size < 7; ++size) {
    MarkdownRenderer renderer(30);
    std::string out;
    for (size_t begin = 0; begin < text.size();) {
      size_t end = std::min(text.size(), begin + size);
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
      out += renderer.feed(text.substr(begin, end - begin));
      begin = end;
    }
    EXPECT_EQ(out + renderer.finish(), whole) << "pieces of " << size << " bytes";
  }
}

TEST(Markdown, ShowsWordsBeforeTheLineEnds) {
  MarkdownRenderer renderer(80);
  EXPECT_EQ(renderer.feed("one two thr"), "one two");
  EXPECT_EQ(renderer.feed("ee **bo"), " three");
  EXPECT_EQ(renderer.feed("ld** x"), " \x1b[1mbold");
  // A delimiter without a counterpart does not hold back the rest of a long line.
  MarkdownRenderer other(10000);
  const std::string out = other.feed("a *" + std::string(200, 'b') + " " + std::string(300, 'c') + " d");
  EXPECT_NE(out.find("ccc"), std::string::npos);
}

}  // namespace
}  // namespace quire::cli
