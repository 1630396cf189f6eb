// The values a template computes with: Python's model, reduced to what a template can reach. A Value is 16
// bytes: a kind and either a number or a counted reference to an Object on a Heap. A Heap belongs to one
// rendering and one thread; it counts what lives on it and throws when that is too much. Objects of a parsed
// template (its constants) are immortal: their count is never written, so any number of threads may use them
// at once.
#pragma once

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
  kMissing,  // no value at all: an unset slot, an argument not given. Templates never see it.
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kBigInt,  // a JSON integer beyond 64 signed bits: printed and compared, no arithmetic
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
  kFrame,  // the variables of a running block; templates never see it
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
  // Takes one more reference to `object`.
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
  int64_t as_int() const { return data_.i; }  // also of a bool
  double as_float() const { return data_.d; }
  Object* object() const { return data_.o; }
  template <typename T>
  T& get() const {
    return *static_cast<T*>(data_.o);
  }
  const std::string& str() const;     // of a string
  std::vector<Value>& items() const;  // of a list or tuple
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
  bool markup = false;  // the result of |safe or |escape: `+` escapes what is joined to it

  explicit Str(std::string t) : Object(Kind::kString), text(std::move(t)) {}
  // The length in code points, counted once. (Of a constant it is counted while parsing.)
  size_t length() const;
  bool ascii() const { return length() == text.size(); }

 private:
  mutable size_t length_ = SIZE_MAX;
};

struct BigInt : Object {
  std::string digits;
  explicit BigInt(std::string d) : Object(Kind::kBigInt), digits(std::move(d)) {}
};

// A list or a tuple. `grouped`: a group of the groupby filter, whose items are also .grouper and .list.
struct List : Object {
  std::vector<Value> items;
  bool grouped = false;
  explicit List(Kind k) : Object(k) {}
};

// A dictionary in order of insertion. Keys are hashable values; equal numbers are one key, as in Python.
struct Dict : Object {
  using Entry = std::pair<Value, Value>;
  std::vector<Entry> entries;

  Dict() : Object(Kind::kDict) {}
  // Throws a type error when `key` cannot be hashed.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);

 private:
  size_t position(const Value& key) const;
  size_t position(std::string_view key, size_t hash) const;
  void index_last();

  std::vector<uint32_t> buckets_;  // open addressing, entry number + 1; empty while the dictionary is small
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

// What Python returns as a generator or iterator: it is consumed once. The items are computed at once; an
// error met on the way is kept and thrown when a reader gets there, which is when Python would meet it.
struct IteratorObject : Object {
  std::vector<Value> items;
  size_t next = 0;
  std::optional<RenderError> error;
  const char* type_name;
  explicit IteratorObject(const char* name) : Object(Kind::kIterator), type_name(name) {}
};

// Why a value is undefined; the sentence is made only when it is needed.
struct UndefinedInfo : Object {
  ErrorClass error = ErrorClass::kUndefined;
  std::string hint;             // the whole message, or empty
  const char* owner = nullptr;  // type of the object that lacks the name, null: a variable
  Value name;                   // what was asked for
  UndefinedInfo() : Object(Kind::kUndefined) {}
};

// An object that can hold itself (through a namespace, or a macro that sees the variable it is kept in). The
// heap knows all of them and empties them when the rendering ends, so that counting references suffices for
// the rest.
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

// Owns the objects of one rendering and counts what it uses: bytes that live, and steps of work done.
class Heap {
 public:
  Heap(size_t limit, uint64_t max_steps) : limit_(limit), max_steps_(max_steps) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  size_t live() const { return live_; }
  void set_limit(size_t limit) { limit_ = limit; }
  void set_max_steps(uint64_t steps) { max_steps_ = steps; }
  // Throws when `bytes` more would pass the limit: ask before allocating something whose size the template
  // chose.
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
  // Counts work. One step is about one node of the syntax tree, or one element or 64 bytes handled by a
  // built-in.
  void step(uint64_t count = 1) {
    steps_ += count;
    if (steps_ > max_steps_) throw_slow();
  }
  void step_bytes(size_t bytes) { step(bytes / 64 + 1); }
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
  [[noreturn]] static void throw_slow();

  size_t limit_;
  uint64_t max_steps_;
  uint64_t steps_ = 0;
  size_t live_ = 0;
  std::vector<Object*> dead_;  // waiting to be freed: freeing is a loop, never a recursion
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
