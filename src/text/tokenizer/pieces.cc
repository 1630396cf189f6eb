#include "text/tokenizer/pieces.h"

#include <algorithm>
#include <bit>

#include "text/unicode/unicode.h"

namespace quire::tokenizer {

namespace {

template <typename EncodeUncached>
void through_cache(std::string_view word, Scratch& scratch, std::vector<TokenId>& out,
                   const EncodeUncached& encode) {
  if (!WordCache::cacheable(word)) return encode();
  WordCache::Entry& entry = scratch.cache.slot(word);
  if (entry.holds(word)) {
    out.insert(out.end(), entry.tokens.begin(), entry.tokens.begin() + entry.num_tokens);
    return;
  }
  const size_t before = out.size();
  encode();
  WordCache::fill(entry, word, out.data() + before, out.size() - before);
}

}  // namespace

void encode_word(const WordPiece& model, std::string_view word, Scratch& scratch, std::vector<TokenId>& out) {
  through_cache(word, scratch, out, [&] {
    const size_t before = out.size();
    bool known = word.size() <= model.max_characters || unicode::count(word) <= model.max_characters;
    for (size_t begin = 0; known && begin < word.size();) {
      ByteTrie::Node node = begin == 0 ? ByteTrie::kRoot : model.continuing;
      TokenId best = kNoToken;
      size_t best_end = begin;
      known = begin == 0 || model.has_continuing;
      for (size_t i = begin; known && i < word.size() && model.trie.step(node, static_cast<uint8_t>(word[i]));
           ++i) {
        if (model.trie.value(node) >= 0) {
          best = model.trie.value(node);
          best_end = i + 1;
        }
      }
      known = known && best != kNoToken;
      if (known) out.push_back(best);
      begin = best_end;
    }
    if (!known) {
      out.resize(before);
      if (model.unknown != kNoToken) out.push_back(model.unknown);
    }
  });
}

namespace {

constexpr size_t kLongestCharacter = 4;  // bytes

// The last token of the best segmentation up to a position of the word.
struct Step {
  TokenId id = kNoToken;
  uint32_t length = 0;  // 0 = unreachable
};

template <typename Score>
void viterbi(const Unigram& model, const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
             std::vector<TokenId>& out) {
  std::vector<Step> steps(word.size() + 1);
  // A ring of the scores of the positions that a token can reach, because a long word has too many positions.
  std::vector<Score> scores(std::bit_ceil(std::max(model.trie.longest_key(), kLongestCharacter) + 1));
  const size_t mask = scores.size() - 1;
  const auto reach = [&](size_t begin, size_t length, TokenId id, double score) {
    Step& target = steps[begin + length];
    Score& best = scores[(begin + length) & mask];
    const double total = score + static_cast<double>(scores[begin & mask]);
    if (target.length == 0 || total > static_cast<double>(best)) {
      target = {id, static_cast<uint32_t>(length)};
      best = static_cast<Score>(total);
    }
  };
  for (size_t begin = 0; begin < word.size();) {
    scratch.check_cancelled();
    const size_t character = unicode::sequence_length(static_cast<uint8_t>(word[begin]));
    bool has_character = false;
    ByteTrie::Node node = ByteTrie::kRoot;
    for (size_t i = begin; i < word.size() && model.trie.step(node, static_cast<uint8_t>(word[i]));) {
      ++i;
      const int32_t id = model.trie.value(node);
      if (id < 0) continue;
      reach(begin, i - begin, id, model.scores[static_cast<size_t>(id)]);
      has_character = has_character || i - begin == character;
    }
    if (!has_character) reach(begin, character, model.unknown, model.unknown_score);
    begin += character;
  }
  // Backtracks from the end; adjacent unknown characters become one token.
  const size_t first = out.size();
  for (size_t end = word.size(); end > 0;) {
    scratch.check_cancelled();
    const Step& step = steps[end];
    size_t begin = end - step.length;
    if (step.id != model.unknown) {
      out.push_back(step.id);
    } else {
      while (begin > 0 && steps[begin].id == model.unknown) begin -= steps[begin].length;
      const std::string_view unknown = word.substr(begin, end - begin);
      const auto spelled = vocabulary.find(unknown);
      const bool bytes =
          !spelled && model.byte_fallback && std::all_of(unknown.begin(), unknown.end(), [&](char c) {
            return model.fallback_bytes[static_cast<uint8_t>(c)] != kNoToken;
          });
      if (bytes) {
        for (size_t i = unknown.size(); i > 0; --i) {
          out.push_back(model.fallback_bytes[static_cast<uint8_t>(unknown[i - 1])]);
        }
      } else if (spelled || model.unknown != kNoToken) {
        out.push_back(spelled.value_or(model.unknown));
      }
    }
    end = begin;
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

}  // namespace

void encode_word(const Unigram& model, const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
                 std::vector<TokenId>& out) {
  through_cache(word, scratch, out, [&] {
    model.single_precision ? viterbi<float>(model, vocabulary, word, scratch, out)
                           : viterbi<double>(model, vocabulary, word, scratch, out);
  });
}

void encode_word(const WordLevel& model, const Vocabulary& vocabulary, std::string_view word,
                 std::vector<TokenId>& out) {
  const TokenId id = vocabulary.find(word).value_or(model.unknown);
  if (id != kNoToken) out.push_back(id);
}

}  // namespace quire::tokenizer
