// The values of templates: Python's data model, reduced to what templates can access. A Value has 16 bytes: a
// kind and either a number or a counted reference to an Object on a Heap. A Heap belongs to one rendering and
// one thread; it counts memory and throws at the limit. Objects of a parsed template (its constants) are
// immortal: their reference count is never written, so any number of threads may use them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/jinja/error.h"

namespace quire::jinja {

enum class Kind : uint8_t {
  kMissing,  // no value: an unset slot, or an argument that was not given; not visible to templates
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kBigInt,  // a JSON integer beyond 64 signed bits; supports printing and comparison, but no arithmetic
  kString,
  kList,
  kTuple,
  kDict,
  kDictView,
  kRange,
  kIterator,
  kNamespace,
  kMacro,
  kFunction,
  kMethod,
  kLoop,
  kCycler,
  kJoiner,
  kFrame,  // the variables of a running block; not visible to templates
};

class Heap;

struct Object {
  static constexpr uint32_t kImmortal = UINT32_MAX;

  uint32_t refs = 0;
  Kind kind;
  Heap* heap = nullptr;
  size_t charge = 0;  // bytes counted on the heap

  explicit Object(Kind k) : kind(k) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
};

struct Str;
struct List;
struct Dict;
struct UndefinedInfo;

class Value {
 public:
  Value() = default;
  Value(const Value& other) : kind_(other.kind_), data_(other.data_) { retain(); }
  Value(Value&& other) noexcept : kind_(other.kind_), data_(other.data_) { other.kind_ = Kind::kMissing; }
  Value& operator=(const Value& other) {
    Value copy(other);
    swap(copy);
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    Value taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Value() { release(); }

  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool b) {
    Value v(Kind::kBool);
    v.data_.i = b ? 1 : 0;
    return v;
  }
  static Value integer(int64_t i) {
    Value v(Kind::kInt);
    v.data_.i = i;
    return v;
  }
  static Value real(double d) {
    Value v(Kind::kFloat);
    v.data_.d = d;
    return v;
  }
  // Adds a reference to `object`.
  static Value of(Object* object) {
    Value v(object->kind);
    v.data_.o = object;
    v.retain();
    return v;
  }

  Kind kind() const { return kind_; }
  bool is(Kind k) const { return kind_ == k; }
  bool is_missing() const { return kind_ == Kind::kMissing; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_sequence_object() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }

  bool as_bool() const { return data_.i != 0; }
  int64_t as_int() const { return data_.i; }  // also for a bool
  double as_float() const { return data_.d; }
  Object* object() const { return data_.o; }
  template <typename T>
  T& get() const {
    return *static_cast<T*>(data_.o);
  }
  const std::string& str() const;     // the value must be a string
  std::vector<Value>& items() const;  // the value must be a list or tuple
  void swap(Value& other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(data_, other.data_);
  }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  bool counted() const { return kind_ == Kind::kUndefined || kind_ >= Kind::kBigInt; }
  void retain() {
    if (counted() && data_.o->refs != Object::kImmortal) ++data_.o->refs;
  }
  void release() {
    if (counted() && data_.o->refs != Object::kImmortal && --data_.o->refs == 0) destroy(data_.o);
  }
  static void destroy(Object* object);

  Kind kind_ = Kind::kMissing;
  union Data {
    int64_t i;
    double d;
    Object* o;
  } data_{0};
};

struct Str : Object {
  std::string text;
  bool markup = false;  // result of |safe or |escape: `+` escapes the other operand

  explicit Str(std::string t) : Object(Kind::kString), text(std::move(t)) {}
  // The length in code points, counted once; for a constant, during parsing.
  size_t length() const;
  bool ascii() const { return length() == text.size(); }

 private:
  mutable size_t length_ = SIZE_MAX;
};

struct BigInt : Object {
  std::string digits;
  explicit BigInt(std::string d) : Object(Kind::kBigInt), digits(std::move(d)) {}
};

// A list or a tuple. `grouped`: a group of the groupby filter, whose items are also accessible as .grouper
// and .list.
struct List : Object {
  std::vector<Value> items;
  bool grouped = false;
  explicit List(Kind k) : Object(k) {}
};

// A dictionary in insertion order. Keys are hashable values; equal numbers are the same key, as in Python.
struct Dict : Object {
  using Entry = std::pair<Value, Value>;
  std::vector<Entry> entries;

  Dict() : Object(Kind::kDict) {}
  // Throws a type error if `key` is not hashable.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);

 private:
  size_t position(const Value& key) const;
  size_t position(std::string_view key) const;
  void index_last();

  std::vector<uint32_t> buckets_;  // open addressing, entry index + 1; empty while the dictionary is small
};

struct DictView : Object {
  enum Part : uint8_t { kKeys, kValues, kItems };
  Value dict;
  Part part;
  DictView(Value d, Part p) : Object(Kind::kDictView), dict(std::move(d)), part(p) {}
};

struct Range : Object {
  int64_t start, stop, step;
  Range(int64_t a, int64_t b, int64_t s) : Object(Kind::kRange), start(a), stop(b), step(s) {}
  int64_t size() const;
};

// A generator or iterator in Python: it is consumed once. The items are computed immediately; an error is
// stored and thrown when the reader reaches it, as in Python.
struct IteratorObject : Object {
  std::vector<Value> items;
  size_t next = 0;
  std::optional<RenderError> error;
  const char* type_name;
  explicit IteratorObject(const char* name) : Object(Kind::kIterator), type_name(name) {}
};

// The reason why a value is undefined. The message is built only when it is needed.
struct UndefinedInfo : Object {
  ErrorClass error = ErrorClass::kUndefined;
  std::string hint;             // the full message, or empty
  const char* owner = nullptr;  // type of the object without this attribute; null = a variable
  Value name;                   // the requested name
  UndefinedInfo() : Object(Kind::kUndefined) {}
};

// An object that can contain itself (through a namespace, or a macro that can access the variable that
// contains it). The heap tracks all of them and empties them at the end of the rendering; reference counting
// suffices for the rest.
struct Container : Object {
  Container* before = nullptr;
  Container* after = nullptr;
  using Object::Object;
  ~Container() override;
  virtual void clear() = 0;
};

struct Namespace : Container {
  Value attributes;  // a Dict
  Namespace() : Container(Kind::kNamespace) {}
  void clear() override { attributes = Value(); }
};

// Owns the objects of a rendering, and counts live bytes and executed steps.
class Heap {
 public:
  Heap(size_t limit, uint64_t max_steps) : limit_(limit), max_steps_(max_steps) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  size_t live() const { return live_; }
  void set_limit(size_t limit) { limit_ = limit; }
  void set_max_steps(uint64_t steps) {
    max_steps_ = steps;
    next_check_ = 0;
  }
  // The rendering ends soon after the flag is set. The flag must outlive the heap; null = no flag.
  void set_cancelled(const std::atomic<bool>* cancelled) {
    cancelled_ = cancelled;
    next_check_ = 0;
  }
  // Throws if `bytes` more would exceed the limit. To be called before allocating memory of a size that the
  // template chooses.
  void require(size_t bytes) const {
    if (bytes > limit_ || live_ > limit_ - bytes) throw_full();
  }
  void grow(Object& object, size_t bytes) {
    require(bytes);
    live_ += bytes;
    object.charge += bytes;
  }
  void charge(size_t bytes) {
    require(bytes);
    live_ += bytes;
  }
  void discharge(size_t bytes) { live_ -= bytes; }
  // Counts work. A step corresponds to about one node of the syntax tree, or to one element or 64 bytes
  // processed by a built-in. string(), list() and Dict::set() count what they store, so a built-in must count
  // only what it reads in addition.
  void step(uint64_t count = 1) {
    steps_ += count;
    if (steps_ >= next_check_) check_steps();
  }
  void step_bytes(size_t bytes) { step(bytes / 64 + 1); }
  void step_items(size_t items) { step(items / 8 + 1); }
  uint64_t steps() const { return steps_; }

  template <typename T, typename... Args>
  T* create(Args&&... args) {
    require(sizeof(T));
    auto* object = new T(std::forward<Args>(args)...);
    object->heap = this;
    object->charge = sizeof(T);
    live_ += sizeof(T);
    if constexpr (std::is_base_of_v<Container, T>) track(object);
    return object;
  }
  Value string(std::string text);
  Value list(std::vector<Value> items, Kind kind = Kind::kList);
  Value dict() { return Value::of(create<Dict>()); }
  void destroy(Object* object);
  void untrack(Container* object);

 private:
  void track(Container* object);
  [[noreturn]] static void throw_full();
  void check_steps();

  size_t limit_;
  uint64_t max_steps_;
  uint64_t steps_ = 0;
  uint64_t next_check_ = 0;  // value of steps_ at which check_steps() runs next
  const std::atomic<bool>* cancelled_ = nullptr;
  size_t live_ = 0;
  std::vector<Object*> dead_;  // objects to be freed: freeing is a loop, never a recursion
  bool draining_ = false;
  Container* containers_ = nullptr;
};

inline const std::string& Value::str() const {
  return static_cast<Str*>(data_.o)->text;
}
inline std::vector<Value>& Value::items() const {
  return static_cast<List*>(data_.o)->items;
}

}  // namespace quire::jinja
