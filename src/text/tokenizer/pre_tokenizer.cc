#include "text/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/normalizer.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {

namespace {

namespace u = quire::unicode;

// The text and its pieces between the steps.
struct Work {
  std::string_view text;
  std::vector<Range>& pieces;
  std::vector<Range>& next;  // output of the current step
  std::vector<Range> matches;
  bool at_start;
  std::string* target;  // buffer for a new text
  std::string* spare;
  Scratch& scratch;

  // Makes *target the current text.
  void take_text() {
    text = *target;
    std::swap(target, spare);
  }
  void take_pieces() {
    pieces.swap(next);
    next.clear();
  }
};

void push(std::vector<Range>& pieces, size_t begin, size_t end) {
  if (begin < end) pieces.push_back({begin, end});
}

// Appends the pieces of `range` that result from splitting at `matches` (sorted, not overlapping, within the
// range).
void cut(Range range, const std::vector<Range>& matches, Behavior behavior, bool invert,
         std::vector<Range>& pieces) {
  struct SplitPart {
    Range range;
    bool match;
  };
  if (!invert && behavior == Behavior::kIsolated) {
    size_t done = range.begin;
    for (const Range& m : matches) {
      push(pieces, done, m.begin);
      push(pieces, m.begin, m.end);
      done = m.end;
    }
    return push(pieces, done, range.end);
  }
  std::vector<SplitPart> parts;
  size_t done = range.begin;
  for (const Range& m : matches) {
    if (done < m.begin) parts.push_back({{done, m.begin}, invert});
    parts.push_back({m, !invert});
    done = m.end;
  }
  if (done < range.end) parts.push_back({{done, range.end}, invert});
  const size_t first = pieces.size();
  bool last_match = false;
  switch (behavior) {
    case Behavior::kRemoved:
      for (const SplitPart& p : parts) {
        if (!p.match) push(pieces, p.range.begin, p.range.end);
      }
      break;
    case Behavior::kIsolated:
      for (const SplitPart& p : parts) push(pieces, p.range.begin, p.range.end);
      break;
    case Behavior::kContiguous:
      for (size_t i = 0; i < parts.size(); ++i) {
        if (i > 0 && parts[i].match == last_match && pieces.size() > first) {
          pieces.back().end = parts[i].range.end;
        } else {
          push(pieces, parts[i].range.begin, parts[i].range.end);
        }
        last_match = parts[i].match;
      }
      break;
    case Behavior::kMergedWithPrevious:
      for (const SplitPart& p : parts) {
        if (p.match && !last_match && pieces.size() > first) {
          pieces.back().end = p.range.end;
        } else {
          push(pieces, p.range.begin, p.range.end);
        }
        last_match = p.match;
      }
      break;
    case Behavior::kMergedWithNext:
      for (size_t i = parts.size(); i > 0; --i) {
        const SplitPart& p = parts[i - 1];
        if (p.match && !last_match && pieces.size() > first) {
          pieces.back().begin = p.range.begin;
        } else {
          push(pieces, p.range.begin, p.range.end);
        }
        last_match = p.match;
      }
      std::reverse(pieces.begin() + static_cast<std::ptrdiff_t>(first), pieces.end());
      break;
  }
}

void apply(const SplitStep& step, Work& work) {
  for (const Range& piece : work.pieces) {
    if (step.known && step.behavior == Behavior::kIsolated && !step.invert) {
      if (*step.known < Splitter::kThreeDigits) {  // its matches are the pieces
        split(*step.known, work.text, piece, work.scratch, work.next);
        continue;
      }
    }
    work.matches.clear();
    if (step.known) {
      split(*step.known, work.text, piece, work.scratch, work.matches);
    } else if (step.regex) {
      Regex::Search search(*step.regex, work.text.substr(piece.begin, piece.size()));
      size_t begin = 0, end = 0;
      while (search.next(&begin, &end)) {
        work.scratch.check_cancelled();
        work.matches.push_back({piece.begin + begin, piece.begin + end});
      }
    } else if (!step.literal.empty()) {
      const std::string_view text = work.text.substr(0, piece.end);
      for (size_t at = text.find(step.literal, piece.begin); at != std::string_view::npos;
           at = text.find(step.literal, at + step.literal.size())) {
        work.matches.push_back({at, at + step.literal.size()});
      }
    }
    cut(piece, work.matches, step.behavior, step.invert, work.next);
  }
  work.take_pieces();
}

template <typename IsMember>
void cut_at_members(Work& work, Behavior behavior, const IsMember& is_member) {
  for (const Range& piece : work.pieces) {
    size_t length = 0, start = piece.begin;
    if (behavior == Behavior::kRemoved || behavior == Behavior::kIsolated) {
      for (size_t i = piece.begin; i < piece.end; i += length) {
        work.scratch.check_cancelled();
        if (!is_member(u::decode(work.text.data() + i, &length))) continue;
        push(work.next, start, i);
        if (behavior == Behavior::kIsolated) push(work.next, i, i + length);
        start = i + length;
      }
      push(work.next, start, piece.end);
      continue;
    }
    work.matches.clear();
    for (size_t i = piece.begin; i < piece.end; i += length) {
      work.scratch.check_cancelled();
      if (is_member(u::decode(work.text.data() + i, &length))) work.matches.push_back({i, i + length});
    }
    cut(piece, work.matches, behavior, false, work.next);
  }
  work.take_pieces();
}

void apply(const ClassStep& step, Work& work) {
  switch (step.of) {
    case ClassStep::Class::kSpace:
      return cut_at_members(work, step.behavior, [](uint32_t cp) { return u::is_space(cp); });
    case ClassStep::Class::kLegacyPunctuation:
      return cut_at_members(work, step.behavior,
                            [](uint32_t cp) { return (u::flags_of(cp) & u::kLegacyPunctuation) != 0; });
    case ClassStep::Class::kNumeric:
      return cut_at_members(work, step.behavior,
                            [](uint32_t cp) { return (u::flags_of(cp) & u::kNumeric) != 0; });
  }
}

void apply(const WordStep&, Work& work) {
  // 0 = white space, 1 = word, 2 = other.
  const auto kind_of = [](uint32_t cp) {
    if (u::is_word(cp)) return 1;
    return u::is_space(cp) ? 0 : 2;
  };
  for (const Range& piece : work.pieces) {
    size_t length = 0, start = piece.begin;
    int kind = 0;
    for (size_t i = piece.begin; i < piece.end; i += length) {
      work.scratch.check_cancelled();
      const int here = kind_of(u::decode(work.text.data() + i, &length));
      if (here == kind) continue;
      if (kind != 0) push(work.next, start, i);
      kind = here;
      start = i;
    }
    if (kind != 0) push(work.next, start, piece.end);
  }
  work.take_pieces();
}

void apply(const FixedLengthStep& step, Work& work) {
  for (const Range& piece : work.pieces) {
    for (size_t i = piece.begin; i < piece.end;) {
      work.scratch.check_cancelled();
      size_t end = i;
      for (size_t n = 0; n < step.length && end < piece.end; ++n) {
        end += u::sequence_length(static_cast<uint8_t>(work.text[end]));
      }
      push(work.next, i, end);
      i = end;
    }
  }
  work.take_pieces();
}

void apply(const MetaspaceStep& step, Work& work) {
  std::string& out = *work.target;
  out.clear();
  out.reserve(work.text.size() + work.text.size() / 2 + 16);
  for (const Range& piece : work.pieces) {
    const std::string_view text = work.text.substr(piece.begin, piece.size());
    const bool has_prefix =
        text.front() == ' ' || text.substr(0, step.replacement.size()) == step.replacement;
    const bool wanted = step.prepend == MetaspaceStep::Prepend::kAlways ||
                        (step.prepend == MetaspaceStep::Prepend::kFirst && work.at_start && piece.begin == 0);
    size_t start = out.size();
    if (wanted && !has_prefix) out += step.replacement;
    for (size_t i = 0; i < text.size();) {
      work.scratch.check_cancelled();
      const bool space = text[i] == ' ';
      const bool replacement = !space && text[i] == step.replacement[0] &&
                               text.substr(i, step.replacement.size()) == step.replacement;
      if (step.split && (space || replacement)) {
        push(work.next, start, out.size());
        start = out.size();
      }
      if (space) {
        out += step.replacement;
        ++i;
      } else if (replacement) {
        out += step.replacement;
        i += step.replacement.size();
      } else {
        size_t end = i + 1;
        while (end < text.size() && text[end] != ' ' && text[end] != step.replacement[0]) ++end;
        out.append(text, i, end - i);
        i = end;
      }
    }
    push(work.next, start, out.size());
  }
  work.take_text();
  work.take_pieces();
}

// Replaces every piece by the output of write(text of the piece, out).
template <typename Write>
void rewrite(Work& work, const Write& write) {
  std::string& out = *work.target;
  out.clear();
  for (Range& piece : work.pieces) {
    work.scratch.check_cancelled();
    const size_t begin = out.size();
    write(work.text.substr(piece.begin, piece.size()), out);
    piece = {begin, out.size()};
  }
  work.take_text();
}

void apply(const ByteLevelStep& step, Work& work) {
  const auto lacks_space = [&](const Range& p) { return work.text[p.begin] != ' '; };
  if (step.add_prefix_space && std::any_of(work.pieces.begin(), work.pieces.end(), lacks_space)) {
    rewrite(work, [](std::string_view text, std::string& out) {
      if (text.front() != ' ') out.push_back(' ');
      out += text;
    });
  }
  if (!step.use_regex) return;
  for (const Range& piece : work.pieces) split(Splitter::kGpt2, work.text, piece, work.scratch, work.next);
  work.take_pieces();
}

// Converts bytes to characters of byte-level vocabularies and back: steps after a ByteLevel step operate on
// these characters.
void to_byte_characters(Work& work) {
  rewrite(work, [](std::string_view text, std::string& out) {
    for (const char c : text) u::append(out, character_of_byte(static_cast<uint8_t>(c)));
  });
}
void from_byte_characters(Work& work) {
  rewrite(work, [](std::string_view text, std::string& out) {
    size_t length = 0;
    for (size_t i = 0; i < text.size(); i += length) {
      const int byte = byte_of_character(u::decode(text.data() + i, &length));
      if (byte >= 0) {
        out.push_back(static_cast<char>(byte));
      } else {
        out.append(text, i, length);
      }
    }
  });
}

Behavior read_behavior(const JsonPlace& place, Behavior otherwise) {
  static constexpr std::pair<std::string_view, Behavior> kNames[] = {
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous},
  };
  if (!place.present()) return otherwise;
  for (const auto& [name, behavior] : kNames) {
    if (name == place.string()) return behavior;
  }
  place.fail("\"" + std::string(place.string()) +
             "\" is not one of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

PreTokenizerStep read_split(const JsonPlace& place) {
  SplitStep step;
  const Pattern pattern = read_pattern(place.member("pattern"));
  if (pattern.is_regex) {
    step.known = find_splitter(pattern.regex);
    if (!step.known) step.regex = Regex::compile(pattern.regex, place.path());
  } else {
    step.literal = pattern.literal;
  }
  if (!place.member("behavior").present()) place.member("behavior").fail("is missing");
  step.behavior = read_behavior(place.member("behavior"), Behavior::kRemoved);
  step.invert = place.member("invert").boolean_or(false);
  return step;
}

PreTokenizerStep read_delimiter(const JsonPlace& place) {
  SplitStep step;
  step.literal = place.member("delimiter").string();
  return step;
}

using ReadPreTokenizerStep = PreTokenizerStep (*)(const JsonPlace&);
struct PreTokenizerStepType {
  std::string_view type;
  ReadPreTokenizerStep read;
};
using Class = ClassStep::Class;
constexpr PreTokenizerStepType kPreTokenizerTypes[] = {
    {"ByteLevel",
     [](const JsonPlace& p) -> PreTokenizerStep {
       return ByteLevelStep{p.member("add_prefix_space").boolean_or(true),
                            p.member("use_regex").boolean_or(true)};
     }},
    {"Split", read_split},
    {"CharDelimiterSplit", read_delimiter},
    {"Whitespace", [](const JsonPlace&) -> PreTokenizerStep { return WordStep{}; }},
    {"WhitespaceSplit",
     [](const JsonPlace&) -> PreTokenizerStep {
       return ClassStep{Class::kSpace, Behavior::kRemoved};
     }},
    {"Digits",
     [](const JsonPlace& p) -> PreTokenizerStep {
       const bool single = p.member("individual_digits").boolean_or(false);
       return ClassStep{Class::kNumeric, single ? Behavior::kIsolated : Behavior::kContiguous};
     }},
    {"Punctuation",
     [](const JsonPlace& p) -> PreTokenizerStep {
       return ClassStep{Class::kLegacyPunctuation, read_behavior(p.member("behavior"), Behavior::kIsolated)};
     }},
    {"Metaspace", [](const JsonPlace& p) -> PreTokenizerStep { return read_metaspace(p); }},
    {"FixedLength",
     [](const JsonPlace& p) -> PreTokenizerStep {
       return FixedLengthStep{std::max<size_t>(1, p.member("length").integer_or(5, 1u << 20))};
     }},
};

void read_steps(const JsonPlace& place, PreTokenizer& pre_tokenizer, int depth) {
  if (!place.present()) return;
  const std::string_view type = place.type();
  if (type == "Sequence") {
    if (depth == kDeepestSequence) place.fail("Sequences are nested too deep");
    const JsonPlace list = place.member("pretokenizers");
    list.expect_array();
    for (rapidjson::SizeType i = 0; i < list.value().Size(); ++i)
      read_steps(list.element(i), pre_tokenizer, depth + 1);
    return;
  }
  if (type == "BertPreTokenizer") {
    pre_tokenizer.steps.push_back(ClassStep{Class::kSpace, Behavior::kRemoved});
    pre_tokenizer.steps.push_back(ClassStep{Class::kLegacyPunctuation, Behavior::kIsolated});
    return;
  }
  for (const PreTokenizerStepType& known : kPreTokenizerTypes) {
    if (known.type != type) continue;
    pre_tokenizer.steps.push_back(known.read(place));
    pre_tokenizer.byte_level = pre_tokenizer.byte_level || type == "ByteLevel";
    return;
  }
  place.fail("the pre-tokenizer type \"" + std::string(type) + "\" is not supported");
}

}  // namespace

MetaspaceStep read_metaspace(const JsonPlace& place) {
  MetaspaceStep step;
  step.replacement = place.member("replacement").string_or("\xE2\x96\x81");
  if (u::count(step.replacement) != 1) place.member("replacement").fail("must be one character");
  step.split = place.member("split").boolean_or(true);
  const JsonPlace scheme = place.member("prepend_scheme");
  const std::string_view name = scheme.string_or("always");
  if (name == "first") {
    step.prepend = MetaspaceStep::Prepend::kFirst;
  } else if (name == "never") {
    step.prepend = MetaspaceStep::Prepend::kNever;
  } else if (name != "always") {
    scheme.fail("must be always, first or never");
  }
  // The older format.
  if (!place.member("add_prefix_space").boolean_or(true)) step.prepend = MetaspaceStep::Prepend::kNever;
  return step;
}

PreTokenizer read_pre_tokenizer(const JsonPlace& place) {
  PreTokenizer pre_tokenizer;
  read_steps(place, pre_tokenizer, 0);
  return pre_tokenizer;
}

std::string_view pre_tokenize(const PreTokenizer& pre_tokenizer, std::string_view text, bool at_start,
                              Scratch& scratch, std::string& buffer, std::string& other) {
  scratch.pieces.clear();
  scratch.matches.clear();
  push(scratch.pieces, 0, text.size());
  Work work{text, scratch.pieces, scratch.matches, {}, at_start, &buffer, &other, scratch};
  bool mapped = false;
  for (size_t i = 0; i < pre_tokenizer.steps.size(); ++i) {
    const PreTokenizerStep& step = pre_tokenizer.steps[i];
    scratch.yield_point.check();
    std::visit([&](const auto& s) { apply(s, work); }, step);
    if (std::holds_alternative<ByteLevelStep>(step) && (mapped || i + 1 < pre_tokenizer.steps.size())) {
      if (mapped) {
        // The reference would map the characters again; no known tokenizer depends on this.
        continue;
      }
      to_byte_characters(work);
      mapped = true;
    }
  }
  if (mapped) from_byte_characters(work);
  return work.text;
}

}  // namespace quire::tokenizer
