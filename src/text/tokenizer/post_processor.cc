#include "text/tokenizer/post_processor.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"
#include "text/tokenizer/vocabulary.h"

namespace quire::tokenizer {

namespace {

using Part = PostProcessor::Part;

// A member like "cls": ["[CLS]", 101].
TokenId read_pair_id(const JsonPlace& place) {
  place.expect_array();
  if (place.value().Size() != 2) place.fail("must be a pair of a token and its id");
  return static_cast<TokenId>(place.element(1).integer(kHighestTokenId));
}

std::vector<Part> read_template(const JsonPlace& place) {
  std::vector<Part> parts;
  const JsonPlace single = place.member("single");
  const JsonPlace special = place.member("special_tokens");
  single.expect_array();
  for (rapidjson::SizeType i = 0; i < single.value().Size(); ++i) {
    const JsonPlace part = single.element(i);
    if (part.member("Sequence").present()) {
      parts.push_back({true, -1});
      continue;
    }
    const JsonPlace token = part.member("SpecialToken");
    if (!token.present()) part.fail("must be a Sequence or a SpecialToken");
    const std::string name(token.member("id").string());
    const JsonPlace entry = special.member(name.c_str());
    if (!entry.present()) token.fail("\"" + name + "\" is not in special_tokens");
    const JsonPlace ids = entry.member("ids");
    ids.expect_array();
    for (rapidjson::SizeType k = 0; k < ids.value().Size(); ++k) {
      parts.push_back({false, static_cast<TokenId>(ids.element(k).integer(kHighestTokenId))});
    }
  }
  if (std::count_if(parts.begin(), parts.end(), [](const Part& p) { return p.is_text; }) != 1) {
    single.fail("must contain the text exactly once");
  }
  return parts;
}

// "pair" of a template, which is optional.
std::vector<PostProcessor::PairPart> read_pair_template(const JsonPlace& place) {
  std::vector<PostProcessor::PairPart> parts;
  const JsonPlace pair = place.member("pair");
  if (!pair.present()) return parts;
  pair.expect_array();
  for (rapidjson::SizeType i = 0; i < pair.value().Size(); ++i) {
    const JsonPlace part = pair.element(i);
    const JsonPlace text = part.member("Sequence");
    const JsonPlace token = part.member("SpecialToken");
    const JsonPlace& either = text.present() ? text : token;
    if (!either.present()) part.fail("must be a Sequence or a SpecialToken");
    const JsonPlace type_id = either.member("type_id");
    const int type = type_id.present() && type_id.integer(kHighestTokenId) == 1 ? 1 : 0;
    const std::string name(either.member("id").string());
    if (text.present()) {
      parts.push_back({name == "B" ? 1 : 0, -1, type});
      continue;
    }
    const JsonPlace ids = place.member("special_tokens").member(name.c_str()).member("ids");
    ids.expect_array();
    for (rapidjson::SizeType k = 0; k < ids.value().Size(); ++k)
      parts.push_back({-1, static_cast<TokenId>(ids.element(k).integer(kHighestTokenId)), type});
  }
  return parts;
}

void read_processors(const JsonPlace& place, PostProcessor& processor, int depth) {
  if (!place.present()) return;
  const std::string_view type = place.type();
  if (type == "Sequence") {
    if (depth == kDeepestSequence) place.fail("Sequences are nested too deep");
    const JsonPlace list = place.member("processors");
    list.expect_array();
    for (rapidjson::SizeType i = 0; i < list.value().Size(); ++i)
      read_processors(list.element(i), processor, depth + 1);
  } else if (type == "TemplateProcessing") {
    processor.templates.push_back(read_template(place));
    processor.pair = read_pair_template(place);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    const TokenId cls = read_pair_id(place.member("cls"));
    const TokenId sep = read_pair_id(place.member("sep"));
    processor.templates.push_back({{false, cls}, {true, -1}, {false, sep}});
    if (type == "BertProcessing") {
      processor.pair = {{-1, cls, 0}, {0, -1, 0}, {-1, sep, 0}, {1, -1, 1}, {-1, sep, 1}};
    } else {
      processor.pair = {{-1, cls, 0}, {0, -1, 0}, {-1, sep, 0}, {-1, sep, 0}, {1, -1, 0}, {-1, sep, 0}};
    }
  } else if (type != "ByteLevel") {  // ByteLevel affects only offsets
    place.fail("the post-processor type \"" + std::string(type) + "\" is not supported");
  }
}

}  // namespace

PostProcessor read_post_processor(const JsonPlace& place) {
  PostProcessor processor;
  read_processors(place, processor, 0);
  return processor;
}

void check_ids(const PostProcessor& processor, size_t vocab_size, const std::string& where) {
  const auto check = [&](TokenId id) {
    if (id >= 0 && static_cast<size_t>(id) >= vocab_size)
      throw Error(cat(where, ": post_processor: the token id ", id, " is not in the vocabulary, which has ",
                      vocab_size, " tokens"));
  };
  for (const auto& parts : processor.templates) {
    for (const Part& part : parts) check(part.id);
  }
  for (const PostProcessor::PairPart& part : processor.pair) check(part.id);
}

PairPlaces post_process_pair(const PostProcessor& processor, std::span<const TokenId> first,
                             std::span<const TokenId> second, std::vector<TokenId>& out) {
  static const std::vector<PostProcessor::PairPart> kConcatenated = {{0, -1, 0}, {1, -1, 1}};
  PairPlaces places;
  bool found = false;
  for (const PostProcessor::PairPart& part : processor.pair.empty() ? kConcatenated : processor.pair) {
    if (!found && (part.type == 1 || part.text == 1)) {
      places.second_part = out.size();
      found = true;
    }
    if (part.text == 1) places.second_text = out.size();
    const std::span<const TokenId> text = part.text == 1 ? second : first;
    if (part.text < 0) {
      out.push_back(part.id);
    } else {
      out.insert(out.end(), text.begin(), text.end());
    }
  }
  return places;
}

void post_process(const PostProcessor& processor, std::vector<TokenId>& ids) {
  for (const std::vector<Part>& parts : processor.templates) {
    std::vector<TokenId> before;
    bool after_text = false;
    for (const Part& part : parts) {
      if (part.is_text) {
        after_text = true;
      } else if (after_text) {
        ids.push_back(part.id);
      } else {
        before.push_back(part.id);
      }
    }
    ids.insert(ids.begin(), before.begin(), before.end());
  }
}

}  // namespace quire::tokenizer
