#include "grammar/automaton_expressions.h"

#include <algorithm>
#include <utility>

namespace quire::grammar {
namespace {

// Deeper expressions are refused: front ends limit nesting far below.
constexpr int kMaxDepth = 1'000;

uint64_t mix_hash(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

uint64_t hash_of(const Expressions::Node& node, std::span<const ExpressionId> parts) {
  uint64_t hash = mix_hash(0x1234567, static_cast<uint64_t>(node.kind));
  hash = mix_hash(hash, static_cast<uint32_t>(node.first));
  hash = mix_hash(hash, static_cast<uint32_t>(node.second));
  hash = mix_hash(hash, (uint64_t{node.min} << 32) | node.max);
  for (const ExpressionId part : parts) hash = mix_hash(hash, static_cast<uint32_t>(part));
  return hash;
}

void sort_unique(std::vector<ExpressionId>& parts) {
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
}

}  // namespace

int32_t& IdMap::at(uint64_t key, bool* found) {
  if (count_ * 2 >= slots_.size()) grow();
  const size_t mask = slots_.size() - 1;
  size_t i = static_cast<size_t>(mix_hash(key, key >> 32)) & mask;
  while (slots_[i].used && slots_[i].key != key) i = (i + 1) & mask;
  *found = slots_[i].used;
  if (!slots_[i].used) {
    slots_[i] = {key, 0, true};
    ++count_;
  }
  return slots_[i].value;
}

void IdMap::clear() {
  slots_.clear();
  count_ = 0;
}

void IdMap::grow() {
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(std::max<size_t>(64, old.size() * 2), {});
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (!slot.used) continue;
    size_t i = static_cast<size_t>(mix_hash(slot.key, slot.key >> 32)) & mask;
    while (slots_[i].used) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

Expressions::Expressions(Budget& budget) : budget_(&budget), slots_(256, -1) {
  intern({.kind = Kind::kNothing});
  intern({.kind = Kind::kEmpty, .nullable = true, .has_string = true});
  intern({.kind = Kind::kComplement, .nullable = true, .has_string = true, .first = kNothing});
}

bool Expressions::equal(const Node& a, std::span<const ExpressionId> parts_of_a, const Node& b) const {
  return a.hash == b.hash && a.kind == b.kind && a.first == b.first && a.second == b.second &&
         a.min == b.min && a.max == b.max && std::ranges::equal(parts_of_a, parts(b));
}

ExpressionId Expressions::intern(Node node, std::span<const ExpressionId> parts) {
  spend(5 + 2 * parts.size());
  node.hash = hash_of(node, parts);
  size_t mask = slots_.size() - 1;
  size_t i = static_cast<size_t>(node.hash) & mask;
  for (; slots_[i] >= 0; i = (i + 1) & mask) {
    if (equal(node, parts, this->node(slots_[i]))) return slots_[i];
  }
  // The expressions of a failed grammar are not used, so it stops to grow.
  if (!budget_->spend_memory(sizeof(Node) + parts.size() * sizeof(ExpressionId) + 16)) failed_ = true;
  if (failed_ && nodes_.size() > static_cast<size_t>(kAll)) return kNothing;
  node.parts_begin = static_cast<uint32_t>(parts_.size());
  node.num_parts = static_cast<uint32_t>(parts.size());
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  const auto id = static_cast<ExpressionId>(nodes_.size());
  nodes_.push_back(node);
  slots_[i] = id;
  if (nodes_.size() * 2 < slots_.size()) return id;
  std::vector<int32_t> bigger(slots_.size() * 2, -1);
  mask = bigger.size() - 1;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    i = static_cast<size_t>(nodes_[n].hash) & mask;
    while (bigger[i] >= 0) i = (i + 1) & mask;
    bigger[i] = static_cast<int32_t>(n);
  }
  slots_ = std::move(bigger);
  return id;
}

ExpressionId Expressions::byte_set(const ByteSet& set) {
  if (set.none()) return kNothing;
  const auto [found, added] = set_ids_.try_emplace(set, static_cast<int32_t>(sets_.size()));
  if (added) sets_.push_back(set);
  return intern({.kind = Kind::kBytes, .has_string = true, .first = found->second});
}

ExpressionId Expressions::concat(ExpressionId head, ExpressionId tail) {
  if (head == kNothing || tail == kNothing) return kNothing;
  if (head == kEmpty) return tail;
  if (tail == kEmpty) return head;
  // (a b) c is a (b c): heads are never concatenations.
  std::vector<ExpressionId> heads;
  while (node(head).kind == Kind::kConcat) {
    heads.push_back(node(head).first);
    head = node(head).second;
  }
  heads.push_back(head);
  for (size_t i = heads.size(); i-- > 0;) {
    const Node& first = node(heads[i]);
    // x* x* is x*, also at the start of a longer tail.
    const bool star = heads[i] == kAll ||
                      (first.kind == Kind::kRepeat && first.min == 0 && first.max == RegularNode::kUnlimited);
    if (star && (tail == heads[i] || (node(tail).kind == Kind::kConcat && node(tail).first == heads[i])))
      continue;
    tail = intern({.kind = Kind::kConcat,
                   .nullable = first.nullable && nullable(tail),
                   .has_string = first.has_string && node(tail).has_string,
                   .first = heads[i],
                   .second = tail});
  }
  return tail;
}

void Expressions::flatten(std::vector<ExpressionId>& parts, Kind kind) {
  for (size_t i = 0; i < parts.size();) {
    const Node& part = node(parts[i]);
    if (part.kind != kind) {
      ++i;
      continue;
    }
    parts[i] = parts.back();
    parts.pop_back();
    const auto inner = this->parts(part);
    parts.insert(parts.end(), inner.begin(), inner.end());
  }
  spend(4 * parts.size());
}

// ab | ac becomes a(b | c), so that many fixed texts are a trie, in which a byte leads to one part.
void Expressions::factor_first_bytes(std::vector<ExpressionId>& parts, int depth) {
  // Longer common beginnings stay: they are found again in the derivatives.
  constexpr int kMaxFactors = 64;
  if (depth > kMaxFactors || parts.size() < 2) return;
  const auto head_of = [&](ExpressionId id) {
    const Node& part = node(id);
    return part.kind == Kind::kConcat && node(part.first).kind == Kind::kBytes ? part.first : -1;
  };
  std::stable_sort(parts.begin(), parts.end(),
                   [&](ExpressionId a, ExpressionId b) { return head_of(a) < head_of(b); });
  std::vector<ExpressionId> result;
  for (size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
    const ExpressionId head = head_of(parts[begin]);
    end = begin + 1;
    while (head >= 0 && end < parts.size() && head_of(parts[end]) == head) ++end;
    if (end == begin + 1) {
      result.push_back(parts[begin]);
      continue;
    }
    std::vector<ExpressionId> tails;
    for (size_t i = begin; i < end; ++i) tails.push_back(node(parts[i]).second);
    result.push_back(concat(head, any_of(std::move(tails), depth + 1)));
  }
  parts = std::move(result);
}

ExpressionId Expressions::any_of(std::vector<ExpressionId> parts, int depth) {
  flatten(parts, Kind::kUnion);
  ByteSet set;
  bool is_nullable = false, has_string = false;
  std::erase_if(parts, [&](ExpressionId id) {
    const Node& part = node(id);
    if (part.kind == Kind::kBytes) set |= sets_[static_cast<size_t>(part.first)];
    if (id != kEmpty) is_nullable = is_nullable || part.nullable;
    has_string = has_string || part.has_string;
    return part.kind == Kind::kBytes || id == kNothing;
  });
  if (set.any()) parts.push_back(byte_set(set));
  sort_unique(parts);
  factor_first_bytes(parts, depth);
  sort_unique(parts);
  if (is_nullable) {
    std::erase(parts, kEmpty);
  } else {
    is_nullable = std::ranges::binary_search(parts, kEmpty);
  }
  if (std::ranges::binary_search(parts, kAll)) return kAll;
  if (parts.empty()) return kNothing;
  if (parts.size() == 1) return parts[0];
  return intern({.kind = Kind::kUnion, .nullable = is_nullable, .has_string = has_string}, parts);
}

ExpressionId Expressions::all_of(std::vector<ExpressionId> parts) {
  flatten(parts, Kind::kIntersection);
  sort_unique(parts);
  std::erase(parts, kAll);
  bool is_nullable = true, has_set = false;
  ByteSet set;
  set.set();
  for (const ExpressionId id : parts) {
    const Node& part = node(id);
    if (id == kNothing) return kNothing;
    is_nullable = is_nullable && part.nullable;
    if (part.kind == Kind::kComplement && std::ranges::binary_search(parts, part.first)) return kNothing;
    if (part.kind == Kind::kBytes) {
      set &= sets_[static_cast<size_t>(part.first)];
      has_set = true;
    }
  }
  if (std::ranges::binary_search(parts, kEmpty)) return is_nullable ? kEmpty : kNothing;
  if (has_set) {
    std::erase_if(parts, [&](ExpressionId id) { return node(id).kind == Kind::kBytes; });
    const ExpressionId merged = byte_set(set);
    if (merged == kNothing) return kNothing;
    parts.push_back(merged);
    sort_unique(parts);
  }
  if (parts.empty()) return kAll;
  if (parts.size() == 1) return parts[0];
  return intern({.kind = Kind::kIntersection, .nullable = is_nullable, .has_string = is_nullable}, parts);
}

ExpressionId Expressions::complement(ExpressionId part) {
  if (part == kNothing) return kAll;
  if (node(part).kind == Kind::kComplement) return node(part).first;
  const bool is_nullable = !nullable(part);
  return intern(
      {.kind = Kind::kComplement, .nullable = is_nullable, .has_string = is_nullable, .first = part});
}

ExpressionId Expressions::repeat(ExpressionId part, uint32_t min, uint32_t max) {
  if (max == 0 || part == kEmpty) return kEmpty;
  if (part == kNothing) return min == 0 ? kEmpty : kNothing;
  const Node inner = node(part);
  if (inner.nullable) min = 0;
  if (min == 1 && max == 1) return part;
  const bool unlimited = max == RegularNode::kUnlimited;
  if (part == kAll && unlimited) return kAll;
  if (inner.nullable && max == 1) return part;
  if (inner.kind == Kind::kRepeat && inner.min == 0 && inner.max == RegularNode::kUnlimited) return part;
  return intern({.kind = Kind::kRepeat,
                 .nullable = min == 0,
                 .has_string = min == 0 || inner.has_string,
                 .first = part,
                 .min = min,
                 .max = max});
}

ExpressionId Expressions::add(const Regular& regular) {
  added_.push_back(regular);
  return convert(regular.get(), 0);
}

ExpressionId Expressions::convert(const RegularNode* regular, int depth) {
  const auto found = converted_.find(regular);
  if (found != converted_.end()) return found->second;
  if (depth > kMaxDepth || !spend(1)) {
    failed_ = true;
    return kNothing;
  }
  const ExpressionId id = convert_new(regular, depth + 1);
  converted_.emplace(regular, id);
  return id;
}

ExpressionId Expressions::convert_new(const RegularNode* regular, int depth) {
  std::vector<ExpressionId> parts;
  for (const Regular& part : regular->parts) parts.push_back(convert(part.get(), depth));
  switch (regular->kind) {
    case Kind::kNothing:
      return kNothing;
    case Kind::kEmpty:
      return kEmpty;
    case Kind::kBytes:
      return byte_set(regular->bytes);
    case Kind::kConcat: {
      ExpressionId all = kEmpty;
      for (size_t i = parts.size(); i-- > 0;) all = concat(parts[i], all);
      return all;
    }
    case Kind::kUnion:
      return any_of(std::move(parts));
    case Kind::kIntersection:
      return all_of(std::move(parts));
    case Kind::kComplement:
      return complement(parts[0]);
    case Kind::kRepeat:
      return regular->min > regular->max ? kNothing : repeat(parts[0], regular->min, regular->max);
  }
  return kNothing;
}

bool Expressions::is_fixed_text(ExpressionId id, std::string* text) const {
  for (;; id = node(id).second) {
    const bool last = node(id).kind != Kind::kConcat;
    const Node& first = last ? node(id) : node(node(id).first);
    if (first.kind != Kind::kBytes) return false;
    const ByteSet& set = sets_[static_cast<size_t>(first.first)];
    if (set.count() != 1 || (set & available_).none()) return false;
    *text += static_cast<char>(set._Find_first());
    if (last) return true;
  }
}

ByteClasses Expressions::classes(ExpressionId id) {
  // A mark per node and call: there may be many lexemes, each of them small.
  ++visit_;
  visits_.resize(nodes_.size());
  std::vector<ExpressionId> pending = {id};
  std::vector<int32_t> used;
  const auto visit = [&](ExpressionId next) {
    if (std::exchange(visits_[static_cast<size_t>(next)], visit_) != visit_) pending.push_back(next);
  };
  while (!pending.empty()) {
    const Node& node = this->node(pending.back());
    pending.pop_back();
    spend(1 + node.num_parts);
    if (node.kind == Kind::kBytes) used.push_back(node.first);
    if (node.kind == Kind::kConcat) visit(node.second);
    if (node.kind == Kind::kConcat || node.kind == Kind::kComplement || node.kind == Kind::kRepeat)
      visit(node.first);
    for (const ExpressionId part : parts(node)) visit(part);
  }
  ByteClasses classes;
  size_t count = 1;
  // Each class is divided into the bytes inside and outside of the set.
  const auto divide = [&](const ByteSet& set) {
    std::array<int, 512> renamed;
    renamed.fill(-1);
    count = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      int& name = renamed[size_t{classes.of[byte]} * 2 + (set.test(byte) ? 1 : 0)];
      if (name < 0) name = static_cast<int>(count++);
      classes.of[byte] = static_cast<uint8_t>(name);
    }
  };
  divide(available_);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (const int32_t set : used) {
    if (count < 256 && spend(64)) divide(sets_[static_cast<size_t>(set)]);
  }
  classes.example.resize(count);
  for (size_t byte = 256; byte-- > 0;) classes.example[classes.of[byte]] = static_cast<uint8_t>(byte);
  return classes;
}

void Expressions::use_classes(const ByteClasses& classes) {
  example_ = classes.example;
  derivatives_.clear();
}

ExpressionId Expressions::derivative(ExpressionId id, uint8_t byte_class) {
  const Kind kind = node(id).kind;
  if (kind == Kind::kNothing || kind == Kind::kEmpty || failed_) return kNothing;
  if (!available_.test(example_[byte_class])) return kNothing;
  if (kind == Kind::kBytes) {
    return sets_[static_cast<size_t>(node(id).first)].test(example_[byte_class]) ? kEmpty : kNothing;
  }
  bool found = false;
  const uint64_t key = (static_cast<uint64_t>(id) << 8) | byte_class;
  const int32_t known = derivatives_.at(key, &found);
  if (found) return known;
  const size_t before = derivatives_.memory();
  const ExpressionId result = derive(id, byte_class);
  derivatives_.at(key, &found) = result;
  if (derivatives_.memory() > before && derivatives_.memory() > 4 * budget_->limits().memory_bytes)
    failed_ = true;
  return result;
}

ExpressionId Expressions::derive(ExpressionId id, uint8_t byte_class) {
  // Copies, because the tables grow meanwhile.
  const Node node = this->node(id);
  spend(6 + 2 * node.num_parts);
  switch (node.kind) {
    case Kind::kConcat:
      return derive_concat(id, byte_class);
    case Kind::kComplement:
      return complement(derivative(node.first, byte_class));
    case Kind::kRepeat: {
      const uint32_t min = node.min > 0 ? node.min - 1 : 0;
      const uint32_t max = node.max == RegularNode::kUnlimited ? node.max : node.max - 1;
      const ExpressionId first = derivative(node.first, byte_class);
      return first == kNothing ? kNothing : concat(first, repeat(node.first, min, max));
    }
    default:
      break;
  }
  std::vector<ExpressionId> results;
  for (size_t i = 0; i < node.num_parts; ++i) {
    const ExpressionId part = derivative(parts_[node.parts_begin + i], byte_class);
    if (part == kNothing && node.kind == Kind::kIntersection) return kNothing;
    if (part != kNothing) results.push_back(part);
  }
  return node.kind == Kind::kUnion ? any_of(std::move(results)) : all_of(std::move(results));
}

// A loop over the parts that may be empty, because there may be many.
ExpressionId Expressions::derive_concat(ExpressionId id, uint8_t byte_class) {
  std::vector<ExpressionId> results;
  while (true) {
    const Node node = this->node(id);
    spend(3);
    if (node.kind != Kind::kConcat) {
      results.push_back(derivative(id, byte_class));
      break;
    }
    results.push_back(concat(derivative(node.first, byte_class), node.second));
    if (!nullable(node.first)) break;
    id = node.second;
  }
  return results.size() == 1 ? results[0] : any_of(std::move(results));
}

}  // namespace quire::grammar
