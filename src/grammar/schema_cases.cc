#include "grammar/schema_cases.h"

#include <algorithm>
#include <unordered_map>

namespace quire::grammar {
namespace {

template <typename T>
void append_new(std::vector<T>& to, const std::vector<T>& from) {
  for (const T& value : from) {
    if (std::find(to.begin(), to.end(), value) == to.end()) to.push_back(value);
  }
}

}  // namespace

ObjectCase::Member& ObjectCase::member(const std::string& name) {
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.name == name; });
  if (found != members.end()) return *found;
  return members.emplace_back(Member{name, {}, false});
}

void ArrayCase::extend_prefix(size_t size) {
  while (prefix.size() < size) prefix.push_back(rest);
}

ObjectCase both(const ObjectCase& a, const ObjectCase& b) {
  ObjectCase result = a;
  if (b.members.size() < 8) {
    for (const ObjectCase::Member& member : b.members) {
      ObjectCase::Member& same = result.member(member.name);
      same.value = both(same.value, member.value);
      same.required = same.required || member.required;
    }
  } else {
    std::unordered_map<std::string, size_t> places;
    for (size_t i = 0; i < result.members.size(); ++i) places.emplace(result.members[i].name, i);
    for (const ObjectCase::Member& member : b.members) {
      const auto [place, added] = places.try_emplace(member.name, result.members.size());
      if (added) {
        result.members.push_back(member);
        continue;
      }
      ObjectCase::Member& same = result.members[place->second];
      same.value = both(same.value, member.value);
      same.required = same.required || member.required;
    }
  }
  append_new(result.all, b.all);
  append_new(result.some, b.some);
  result.min = std::max(a.min, b.min);
  result.max = std::min(a.max, b.max);
  result.evaluates_all = a.evaluates_all || b.evaluates_all;
  result.evaluated.insert(result.evaluated.end(), b.evaluated.begin(), b.evaluated.end());
  return result;
}

ArrayCase both(const ArrayCase& a, const ArrayCase& b) {
  ArrayCase result = a;
  result.extend_prefix(b.prefix.size());
  for (size_t i = 0; i < result.prefix.size(); ++i)
    result.prefix[i] = both(result.prefix[i], i < b.prefix.size() ? b.prefix[i] : b.rest);
  result.rest = both(a.rest, b.rest);
  result.min = std::max(a.min, b.min);
  result.max = std::min(a.max, b.max);
  append_new(result.counts, b.counts);
  result.unique = a.unique || b.unique;
  result.evaluated_prefix = std::max(a.evaluated_prefix, b.evaluated_prefix);
  result.evaluates_all = a.evaluates_all || b.evaluates_all;
  append_new(result.evaluated, b.evaluated);
  return result;
}

bool is_any(const ObjectCase& value) {
  return value.members.empty() && value.all.empty() && value.some.empty() && value.min == 0 &&
         value.max == kNoLimit;
}

bool is_any(const ArrayCase& value) {
  return value.prefix.empty() && is_any(value.rest) && value.min == 0 && value.max == kNoLimit &&
         value.counts.empty() && !value.unique;
}

size_t size_of(const ObjectCase& value) {
  return 1 + value.members.size() + value.all.size() + value.some.size() + value.evaluated.size();
}

size_t size_of(const ArrayCase& value) {
  return 1 + value.prefix.size() + value.counts.size() + value.evaluated.size();
}

}  // namespace quire::grammar
