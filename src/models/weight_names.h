// How an architecture's checkpoints call their tensors, as data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire {

// What a module of the checkpoint is to the decoder.
enum class Role : uint8_t {
  kEmbedding,
  kEmbeddingNorm,
  kPositionEmbedding,
  kInputNorm,
  kQuery,
  kKey,
  kValue,
  kQkv,  // queries, keys and values in one matrix
  kAttentionOut,
  kQueryNorm,
  kKeyNorm,
  kPostAttentionNorm,
  kMlpNorm,
  kPostMlpNorm,
  kGate,
  kUp,
  kGateUp,  // gates, then ups, in one matrix
  kDown,
  kFinalNorm,
  kLmHead,
};

// How the rows of kQkv stand in the file.
enum class RowOrder : uint8_t {
  kPlain,     // all queries, all keys, all values
  kByKvHead,  // for each key head: its query heads, the key head, the value head
};

// A module: its tensors are `<prefix><module>.weight` and, where the model has one there,
// `<prefix><module>.bias`.
// "{}" stands for the layer's number. A role that stands in a table several times has the first name that the
// checkpoint knows.
struct ModuleName {
  Role role;
  std::string_view module;
  bool transposed = false;  // the matrix is stored [in, out] (GPT-2's Conv1D)
  RowOrder order = RowOrder::kPlain;
};

struct WeightNames {
  // Before each module but the output embedding. A checkpoint uses the first under which it has the token
  // embedding.
  std::span<const std::string_view> prefixes;
  std::span<const ModuleName> modules;
  // Whole tensor names (after the prefix) that are no weights: they may be there and are not read.
  std::span<const std::string_view> ignored;
};

// pattern with "{}" replaced by the number.
std::string with_layer(std::string_view pattern, int32_t layer);
// Whether text is the pattern, with digits where it has "{}".
bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace quire
