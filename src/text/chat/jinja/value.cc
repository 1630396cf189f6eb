#include "text/chat/jinja/value.h"

#include <algorithm>
#include <functional>

#include "text/chat/jinja/ops.h"
#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

constexpr size_t kLinearSearch = 8;  // dictionaries up to this size are searched linearly

}  // namespace

void Value::destroy(Object* object) {
  object->heap->destroy(object);
}

size_t Str::length() const {
  if (length_ == SIZE_MAX) length_ = utf8_length(text);
  return length_;
}

int64_t Range::size() const {
  if (step > 0 && start < stop)
    return static_cast<int64_t>((static_cast<uint64_t>(stop) - static_cast<uint64_t>(start) - 1) /
                                static_cast<uint64_t>(step)) +
           1;
  if (step < 0 && start > stop) {
    const uint64_t stride = 0 - static_cast<uint64_t>(step);
    return static_cast<int64_t>((static_cast<uint64_t>(start) - static_cast<uint64_t>(stop) - 1) / stride) +
           1;
  }
  return 0;
}

const Value* Dict::find(const Value& key) const {
  const size_t at = position(key);
  return at == SIZE_MAX ? nullptr : &entries[at].second;
}

const Value* Dict::find(std::string_view key) const {
  const size_t at = position(key);
  return at == SIZE_MAX ? nullptr : &entries[at].second;
}

size_t Dict::position(const Value& key) const {
  if (key.is_string()) return position(std::string_view(key.str()));
  const size_t hash = hash_value(*heap, key);
  if (buckets_.empty()) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (equal(*heap, entries[i].first, key)) return i;
    }
    return SIZE_MAX;
  }
  const size_t mask = buckets_.size() - 1;
  for (size_t b = hash & mask; buckets_[b] != 0; b = (b + 1) & mask) {
    if (equal(*heap, entries[buckets_[b] - 1].first, key)) return buckets_[b] - 1;
  }
  return SIZE_MAX;
}

size_t Dict::position(std::string_view key) const {
  // Reads the key once to hash it, or compares it with up to kLinearSearch entries of the same length.
  constexpr size_t kShortKey = 64;
  if (key.size() > kShortKey) heap->step_bytes(key.size() * (buckets_.empty() ? entries.size() : 2));
  if (buckets_.empty()) {
    for (size_t i = 0; i < entries.size(); ++i) {
      const Value& own = entries[i].first;
      if (own.is_string() && own.str() == key) return i;
    }
    return SIZE_MAX;
  }
  const size_t mask = buckets_.size() - 1;
  for (size_t b = hash_string(key) & mask; buckets_[b] != 0; b = (b + 1) & mask) {
    const Value& own = entries[buckets_[b] - 1].first;
    if (own.is_string() && own.str() == key) return buckets_[b] - 1;
  }
  return SIZE_MAX;
}

void Dict::set(const Value& key, Value value) {
  heap->step();
  const size_t at = position(key);
  if (at != SIZE_MAX) {
    entries[at].second = std::move(value);
    return;
  }
  heap->grow(*this, sizeof(Entry) + sizeof(uint32_t) * 2);
  entries.emplace_back(key, std::move(value));
  if (entries.size() > kLinearSearch) index_last();
}

void Dict::index_last() {
  const auto insert = [this](size_t entry) {
    const size_t mask = buckets_.size() - 1;
    size_t b = hash_value(*heap, entries[entry].first) & mask;
    while (buckets_[b] != 0) b = (b + 1) & mask;
    buckets_[b] = static_cast<uint32_t>(entry + 1);
  };
  if (entries.size() * 2 <= buckets_.size()) {
    insert(entries.size() - 1);
    return;
  }
  buckets_.assign(buckets_.empty() ? 32 : buckets_.size() * 2, 0);
  for (size_t i = 0; i < entries.size(); ++i) insert(i);
}

Container::~Container() {
  if (heap != nullptr) heap->untrack(this);
}

Heap::~Heap() {
  // Emptying a container may free others, so the list is read from its head each time.
  while (containers_ != nullptr) {
    Container* first = containers_;
    untrack(first);
    const Value keep = Value::of(first);
    first->clear();
  }
}

void Heap::track(Container* object) {
  object->after = containers_;
  if (containers_ != nullptr) containers_->before = object;
  containers_ = object;
}

void Heap::untrack(Container* object) {
  if (object->before == nullptr && object->after == nullptr && containers_ != object) return;
  if (object->before != nullptr) object->before->after = object->after;
  if (object->after != nullptr) object->after->before = object->before;
  if (containers_ == object) containers_ = object->after;
  object->before = object->after = nullptr;
}

void Heap::throw_full() {
  fail(ErrorClass::kLimit, "the template needs too much memory");
}

void Heap::check_steps() {
  constexpr uint64_t kInterval = 4096;  // some hundred microseconds between two checks of the flag
  if (steps_ > max_steps_) fail(ErrorClass::kLimit, "the template takes too many steps");
  if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed))
    fail(ErrorClass::kCancelled, "the rendering was cancelled");
  next_check_ = std::min(max_steps_, steps_ + kInterval - 1) + 1;
}

Value Heap::string(std::string text) {
  require(sizeof(Str) + text.size());
  step_bytes(text.size());
  auto* object = create<Str>(std::move(text));
  object->charge += object->text.size();
  live_ += object->text.size();
  return Value::of(object);
}

Value Heap::list(std::vector<Value> items, Kind kind) {
  require(sizeof(List) + items.size() * sizeof(Value));
  step_items(items.size());
  auto* object = create<List>(kind);
  object->items = std::move(items);
  object->charge += object->items.size() * sizeof(Value);
  live_ += object->items.size() * sizeof(Value);
  return Value::of(object);
}

void Heap::destroy(Object* object) {
  dead_.push_back(object);
  if (draining_) return;
  draining_ = true;
  while (!dead_.empty()) {
    Object* next = dead_.back();
    dead_.pop_back();
    live_ -= next->charge;
    delete next;
  }
  draining_ = false;
}

}  // namespace quire::jinja
