// The parameters of a tool for formats that write them between tags, where a value is not always JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/chat/request_json.h"

namespace quire {

struct TagParameter {
  enum class Kind : uint8_t {
    kText,    // any text, which becomes a string
    kChoice,  // one of `choices`
    kJson,    // a value of `schema`
  };

  std::string name;
  bool required = false;
  Kind kind = Kind::kText;
  std::vector<std::string> choices;
  Json schema;
};

struct TagParameters {
  std::vector<TagParameter> list;  // in the order of the schema
  bool any = false;                // instead of the list, parameters of any name with any text
};

// Values that these parameters allow become arguments that are valid for the schema. nullopt if the schema
// demands what tags cannot express, such as a pattern of a string.
std::optional<TagParameters> read_tag_parameters(const Json& schema);

}  // namespace quire
