// The tools of a request, as far as a parser of calls needs them: their names and the types of their
// parameters. Immutable after construction; shared by the parsers of a request.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "text/chat/request_json.h"

namespace quire {

class ToolSet {
 public:
  // How the text of a parameter becomes JSON.
  enum class Kind : uint8_t {
    kString,     // escaped; also if the schema says nothing
    kNullable,   // a string or null
    kScalar,     // a number, true, false or null; escaped if it is something else
    kContainer,  // an array or an object
  };

  ToolSet() = default;
  // `tools` as clients send them: {"type": "function", "function": {"name", "parameters"}}, or the inner
  // objects. Others are left out.
  explicit ToolSet(const Json& tools);

  bool empty() const { return tools_.empty(); }
  bool contains(std::string_view name) const { return tools_.find(name) != tools_.end(); }
  // Whether a name starts with `text`.
  bool has_prefix(std::string_view text) const;
  Kind kind(std::string_view tool, std::string_view parameter) const;

 private:
  using Parameters = std::map<std::string, Kind, std::less<>>;
  std::map<std::string, Parameters, std::less<>> tools_;
};

}  // namespace quire
