// Reads JSON text into an object that keeps the order of keys. Unlike nlohmann's own parser, which compares
// each key with all earlier ones, takes time that grows with the text. Used by one thread for one text.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "base/strings.h"
#include "grammar/schema_index.h"

namespace quire::grammar {

class SchemaReader : public nlohmann::json_sax<SchemaJson> {
 public:
  explicit SchemaReader(size_t max_nesting) : max_nesting_(max_nesting) {}

  SchemaJson& document() { return document_; }
  // Why a text that is JSON was refused; "" if it is not JSON.
  const std::string& error() const { return error_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return open(SchemaJson::object()); }
  bool start_array(size_t /*size*/) override { return open(SchemaJson::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    if (!keys_.back().insert(value).second) {
      error_ = cat("the key \"", value, "\" occurs twice in an object.");
      return false;
    }
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool add(SchemaJson value) {
    place(std::move(value));
    return true;
  }
  bool open(SchemaJson value) {
    if (open_.size() >= max_nesting_) {
      error_ = "the schema is nested too deeply.";
      return false;
    }
    open_.push_back(place(std::move(value)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }
  // Containers stay where they are while they are open: only the innermost one grows.
  SchemaJson* place(SchemaJson value) {
    if (open_.empty()) {
      document_ = std::move(value);
      return &document_;
    }
    SchemaJson& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    // As a vector of pairs, because emplace() of the map searches for the key.
    auto& members = static_cast<SchemaJson::object_t::Container&>(*parent.get_ptr<SchemaJson::object_t*>());
    members.emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }

  size_t max_nesting_;
  SchemaJson document_;
  std::vector<SchemaJson*> open_;
  std::vector<std::unordered_set<std::string>> keys_;  // keys seen so far, per open container
  std::string key_;
  std::string error_;
};

}  // namespace quire::grammar
