// Where the configuration of a model comes from, for errors. Plain data.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace quire {

struct ConfigOrigin {
  std::string file = "config.json";
  // GGUF: the keys of the metadata that fields were read from, by the field's name without its objects.
  std::map<std::string, std::string, std::less<>> keys = {};
  // GGUF: keys that could change the output and that nothing asked for, except to copy them into those
  // fields.
  std::vector<std::string> unread = {};
};

}  // namespace quire
