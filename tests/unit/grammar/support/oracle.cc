#include "unit/grammar/support/oracle.h"

#include <map>
#include <utility>

namespace quire::grammar {
namespace {

// Marks the ends of matches: ends[j] if output[i, j) matches, for the i at hand.
using Ends = std::vector<bool>;

class RegularOracle {
 public:
  explicit RegularOracle(const Output& output) : output_(output) {}

  const Ends& ends(const Regular& node, size_t begin) {
    const auto key = std::make_pair(node.get(), begin);
    const auto found = memo_.find(key);
    if (found != memo_.end()) return found->second;
    return memo_.emplace(key, compute(node, begin)).first->second;
  }

 private:
  Ends none() const { return Ends(output_.size() + 1, false); }

  // The ends of `node` from any of the positions.
  Ends after(const Regular& node, const Ends& positions) {
    Ends result = none();
    for (size_t i = 0; i < positions.size(); ++i)
      if (positions[i]) unite(result, ends(node, i));
    return result;
  }

  static void unite(Ends& ends, const Ends& other) {
    for (size_t i = 0; i < ends.size(); ++i) ends[i] = ends[i] || other[i];
  }

  Ends compute(const Regular& node, size_t begin) {
    Ends result = none();
    switch (node->kind) {
      case RegularNode::Kind::kNothing:
        break;
      case RegularNode::Kind::kEmpty:
        result[begin] = true;
        break;
      case RegularNode::Kind::kBytes:
        if (begin < output_.size() && output_[begin] < kFirstToken)
          result[begin + 1] = node->bytes.test(static_cast<size_t>(output_[begin]));
        break;
      case RegularNode::Kind::kConcat:
        result[begin] = true;
        for (const Regular& part : node->parts) result = after(part, result);
        break;
      case RegularNode::Kind::kUnion:
        for (const Regular& part : node->parts) unite(result, ends(part, begin));
        break;
      case RegularNode::Kind::kIntersection:
        result = ends(node->parts[0], begin);
        for (const Regular& part : node->parts) {
          const Ends& other = ends(part, begin);
          for (size_t i = 0; i < result.size(); ++i) result[i] = result[i] && other[i];
        }
        break;
      case RegularNode::Kind::kComplement: {
        const Ends& other = ends(node->parts[0], begin);
        for (size_t i = begin; i < result.size(); ++i) {
          if (i > begin && output_[i - 1] >= kFirstToken) break;  // a special token is not text
          result[i] = !other[i];
        }
        break;
      }
      case RegularNode::Kind::kRepeat:
        result = compute_repeat(*node, begin);
        break;
    }
    return result;
  }

  Ends compute_repeat(const RegularNode& node, size_t begin) {
    Ends result = none();
    Ends positions = none();
    positions[begin] = true;
    for (uint32_t count = 0;; ++count) {
      if (count >= node.min) unite(result, positions);
      if (count == node.max) break;
      Ends next = after(node.parts[0], positions);
      if (next == none()) break;
      // Nothing changes any more, after any number of iterations.
      if (next == positions) {
        unite(result, positions);
        break;
      }
      // Without an upper limit, ends that are known already add nothing.
      Ends all = result;
      unite(all, next);
      if (count >= node.min && all == result && node.max == RegularNode::kUnlimited) break;
      positions = std::move(next);
    }
    return result;
  }

  const Output& output_;
  std::map<std::pair<const RegularNode*, size_t>, Ends> memo_;
};

class GrammarOracle {
 public:
  GrammarOracle(const Grammar& grammar, const Output& output)
      : grammar_(grammar), output_(output), regular_(output) {}

  // Recursive rules see the ends that are known so far, so all is computed again until nothing is added.
  bool matches() {
    do {
      changed_ = false;
      visited_.clear();
      visit(grammar_.start, 0);
    } while (changed_);
    return ends_[{grammar_.start, 0}][output_.size()];
  }

 private:
  Ends visit(int32_t rule, size_t begin) {
    const auto key = std::make_pair(rule, begin);
    Ends& known = ends_.try_emplace(key, output_.size() + 1, false).first->second;
    if (visited_[key]) return known;
    visited_[key] = true;
    for (const std::vector<Symbol>& alternative : grammar_.rules[static_cast<size_t>(rule)].alternatives) {
      Ends positions(output_.size() + 1, false);
      positions[begin] = true;
      for (const Symbol& symbol : alternative) positions = after(symbol, positions);
      for (size_t i = 0; i < positions.size(); ++i) {
        if (!positions[i] || known[i]) continue;
        known[i] = true;
        changed_ = true;
      }
    }
    return known;
  }

  Ends after(const Symbol& symbol, const Ends& positions) {
    Ends result(positions.size(), false);
    for (size_t i = 0; i < positions.size(); ++i) {
      if (!positions[i]) continue;
      if (symbol.kind == Symbol::Kind::kToken) {
        if (i < output_.size() && output_[i] == kFirstToken + symbol.id) result[i + 1] = true;
        continue;
      }
      const Ends ends = symbol.kind == Symbol::Kind::kRule
                            ? visit(symbol.id, i)
                            : regular_.ends(grammar_.lexemes[static_cast<size_t>(symbol.id)], i);
      for (size_t j = 0; j < ends.size(); ++j) result[j] = result[j] || ends[j];
    }
    return result;
  }

  const Grammar& grammar_;
  const Output& output_;
  RegularOracle regular_;
  std::map<std::pair<int32_t, size_t>, Ends> ends_;
  std::map<std::pair<int32_t, size_t>, bool> visited_;
  bool changed_ = false;
};

}  // namespace

Output output_of(std::string_view text) {
  Output output;
  for (const char c : text) output.push_back(static_cast<uint8_t>(c));
  return output;
}

bool oracle_matches(const Regular& language, std::string_view text) {
  const Output output = output_of(text);
  return RegularOracle(output).ends(language, 0)[text.size()];
}

bool oracle_matches(const Grammar& grammar, const Output& output) {
  return GrammarOracle(grammar, output).matches();
}

bool oracle_matches(const Grammar& grammar, std::string_view text) {
  return oracle_matches(grammar, output_of(text));
}

}  // namespace quire::grammar
