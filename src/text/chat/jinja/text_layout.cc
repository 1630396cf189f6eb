#include "text/chat/jinja/text_layout.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

std::string unescape_entities(std::string_view text) {
  struct Entity {
    std::string_view name;
    std::string_view value;
  };
  static constexpr Entity kEntities[] = {{"amp", "&"},   {"lt", "<"},   {"gt", ">"},
                                         {"quot", "\""}, {"apos", "'"}, {"nbsp", "\xC2\xA0"}};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '&' ? text.substr(at, 12).find(';') : std::string_view::npos;
    if (end == std::string_view::npos) {
      out += text[at++];
      continue;
    }
    const auto name = text.substr(at + 1, end - 1);
    const auto* known = std::find_if(std::begin(kEntities), std::end(kEntities),
                                     [&](const Entity& e) { return e.name == name; });
    uint32_t code = 0;
    bool numeric = false;
    if (name.size() > 1 && name[0] == '#') {
      const bool hex = name[1] == 'x' || name[1] == 'X';
      const auto digits = name.substr(hex ? 2 : 1);
      const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
      numeric = result.ec == std::errc() && result.ptr == digits.data() + digits.size() && code > 0 &&
                code < 0x110000 && (code < 0xD800 || code > 0xDFFF);
    }
    if (known != std::end(kEntities)) {
      out += known->value;
    } else if (numeric) {
      append_utf8(out, code);
    } else {
      out += text[at++];
      continue;
    }
    at += end + 1;
  }
  return out;
}

// Pieces between which textwrap may break: runs of white space, words, and parts of words up to a hyphen.
std::vector<std::u32string_view> wrap_chunks(std::u32string_view line, bool hyphens) {
  const auto space = [](char32_t c) { return c == ' ' || (c >= 9 && c <= 13); };
  const auto letter = [](char32_t c) { return is_alpha(c) || c == '_'; };
  std::vector<std::u32string_view> chunks;
  for (size_t at = 0; at < line.size();) {
    size_t end = at + 1;
    if (space(line[at])) {
      while (end < line.size() && space(line[end])) ++end;
    } else {
      while (end < line.size() && !space(line[end])) {
        // A hyphen with two letters before it and a letter after it ends a piece.
        if (hyphens && line[end - 1] == '-' && end >= at + 3 && letter(line[end - 2]) &&
            letter(line[end - 3]) && letter(line[end])) {
          break;
        }
        ++end;
      }
    }
    chunks.push_back(line.substr(at, end - at));
    at = end;
  }
  return chunks;
}

}  // namespace

std::string replace_text(Heap& heap, std::string_view text, std::string_view from, std::string_view to,
                         int64_t count) {
  heap.step_bytes(text.size());
  std::string out;
  size_t at = 0;
  if (from.empty()) {
    // Inserts before every character and at the end.
    while (count != 0) {
      heap.require(out.size() + to.size() + text.size() - at);
      heap.step_bytes(to.size());
      out += to;
      --count;
      if (at >= text.size()) break;
      const size_t bytes = decode_at(text, at).bytes;
      out += text.substr(at, bytes);
      at += bytes;
    }
    out += text.substr(at);
    return out;
  }
  for (; count != 0; --count) {
    const size_t hit = find_text(text, from, at);
    if (hit == std::string_view::npos) break;
    heap.require(out.size() + (hit - at) + to.size());
    heap.step_bytes(to.size());
    out += text.substr(at, hit - at);
    out += to;
    at = hit + from.size();
  }
  heap.require(out.size() + text.size() - at);
  out += text.substr(at);
  return out;
}

std::string center_text(Heap& heap, const Str& text, int64_t width, char32_t fill) {
  const auto length = static_cast<int64_t>(text.length());
  if (width <= length) return text.text;
  const int64_t pad = width - length, left = pad / 2 + (pad & width & 1);
  std::string one;
  append_utf8(one, fill);
  if (static_cast<uint64_t>(pad) > SIZE_MAX / 8) heap.require(SIZE_MAX);
  heap.require(static_cast<size_t>(pad) * one.size() + text.text.size());
  heap.step_bytes(static_cast<size_t>(pad));
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += one;
  out += text.text;
  for (int64_t i = left; i < pad; ++i) out += one;
  return out;
}

std::string_view strip_counted(Heap& heap, std::string_view text, const std::string* chars, bool left,
                               bool right) {
  const auto out = strip(text, chars, left, right);
  const size_t dropped = text.size() - out.size() + 1;
  heap.step_bytes(chars == nullptr ? dropped * 8 : dropped * (chars->size() + 8));
  return out;
}

std::string quote_url(Heap& heap, std::string_view text, bool query) {
  heap.require(text.size() * 3);
  heap.step_bytes(text.size());
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      constexpr char kHex[] = "0123456789ABCDEF";
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

std::string strip_tags(Heap& heap, std::string_view text) {
  heap.step_bytes(text.size() * 4);
  std::string bare;
  size_t at = 0;
  bool comments = true, tags = true;  // a comment or tag may still be closed
  while (at < text.size()) {
    if (comments && text.substr(at, 4) == "<!--") {
      const size_t end = find_text(text, "-->", at + 4);
      comments = end != std::string_view::npos;
      if (comments) {
        at = end + 3;
        continue;
      }
    }
    if (tags && text[at] == '<') {
      const size_t end = text.find('>', at);
      tags = end != std::string_view::npos;
      if (tags) {
        at = end + 1;
        continue;
      }
    }
    bare += text[at++];
  }
  std::string out;
  bool gap = false;
  for (size_t i = 0; i < bare.size();) {
    const auto c = decode_at(bare, i);
    if (is_space(c.value)) {
      gap = !out.empty();
    } else {
      if (gap) out += ' ';
      gap = false;
      out.append(bare, i, c.bytes);
    }
    i += c.bytes;
  }
  return unescape_entities(out);
}

std::vector<std::string> wrap_line(Heap& heap, std::string_view text, const WrapOptions& options) {
  heap.step_bytes(text.size() * 64);  // each character is copied several times
  const auto width = static_cast<size_t>(options.width);
  const std::u32string points = to_code_points(text);
  auto chunks = wrap_chunks(points, options.break_on_hyphens);
  std::reverse(chunks.begin(), chunks.end());
  const auto blank = [](std::u32string_view chunk) {
    return std::all_of(chunk.begin(), chunk.end(), is_space);
  };
  std::vector<std::string> lines;
  while (!chunks.empty()) {
    heap.step();
    std::vector<std::u32string_view> line;
    size_t length = 0;
    if (!lines.empty() && blank(chunks.back())) chunks.pop_back();
    while (!chunks.empty() && length + chunks.back().size() <= width) {
      length += chunks.back().size();
      line.push_back(chunks.back());
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().size() > width) {
      const size_t room = width > length ? width - length : (width < 1 ? 1 : 0);
      if (options.break_long_words && room > 0) {
        size_t end = room;
        if (options.break_on_hyphens && chunks.back().size() > room) {
          const size_t hyphen = chunks.back().rfind(U'-', room - 1);
          const bool word =
              hyphen != std::u32string_view::npos && hyphen > 0 &&
              chunks.back().substr(0, hyphen).find_first_not_of(U'-') != std::u32string_view::npos;
          if (word) end = hyphen + 1;
        }
        line.push_back(chunks.back().substr(0, end));
        chunks.back().remove_prefix(end);
      } else if (line.empty() && !options.break_long_words) {
        line.push_back(chunks.back());
        chunks.pop_back();
      }
    }
    if (!line.empty() && blank(line.back())) line.pop_back();
    if (line.empty()) continue;
    std::string out;
    for (const auto chunk : line) out += to_utf8(chunk);
    lines.push_back(std::move(out));
  }
  return lines;
}

}  // namespace quire::jinja
