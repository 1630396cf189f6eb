// Text operations for filters and methods. Their output is bounded by the limits of the heap.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat/jinja/value.h"

namespace quire::jinja {

// count < 0 = all occurrences
std::string replace_text(Heap& heap, std::string_view text, std::string_view from, std::string_view to,
                         int64_t count);
std::string center_text(Heap& heap, const Str& text, int64_t width, char32_t fill);
// strip() of unicode_text.h, with its work counted.
std::string_view strip_counted(Heap& heap, std::string_view text, const std::string* chars, bool left,
                               bool right);
std::string quote_url(Heap& heap, std::string_view text, bool query);
// Removes tags and comments, normalizes white space, and decodes common entities.
std::string strip_tags(Heap& heap, std::string_view text);

struct WrapOptions {
  int64_t width = 79;  // code points
  bool break_long_words = true;
  bool break_on_hyphens = true;
};
// Python's textwrap.wrap for one line.
std::vector<std::string> wrap_line(Heap& heap, std::string_view line, const WrapOptions& options);

}  // namespace quire::jinja
