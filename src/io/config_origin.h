// Where the configuration of a model comes from, for errors. Plain data.
#pragma once

#include <map>
#include <string>

namespace quire {

struct ConfigOrigin {
  std::string file = "config.json";
  // GGUF: the keys of the metadata that fields were read from, by the field's name without its objects.
  std::map<std::string, std::string, std::less<>> keys = {};
};

}  // namespace quire
