// The files of a model whose weights are split, without an index that lists them.
#pragma once

#include <string>
#include <vector>

namespace quire {

struct ShardSet {
  std::vector<std::string> files;    // in order
  std::vector<std::string> missing;  // names that the numbers of the others imply
};

// The shards among safetensors files of a directory: those numbered "model-00001-of-00003.safetensors", or
// all files if none is. The set called "model" is taken from several numbered sets, or all files if there is
// none.
ShardSet shards_without_index(const std::vector<std::string>& files);

}  // namespace quire
