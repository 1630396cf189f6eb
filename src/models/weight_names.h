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
  kTokenTypes,
  kTaskTypes,
  kEmbeddingIn,   // from the tokens' vectors to the hidden size
  kEmbeddingOut,  // and back
  kPositionEmbedding,
  kRelativeTable,  // of RelativeSpec
  kRelativeNorm,
  kInputNorm,
  kQuery,
  kQueryGate,  // of what a head gives, where it is not with the queries
  kKey,
  kValue,
  kQkv,  // queries, keys and values in one matrix
  kAttentionOut,
  kQueryNorm,
  kKeyNorm,
  kSinks,      // a vector
  kQueryDown,  // of latent attention (nn/mla.h); its kQuery is what comes behind
  kQueryDownNorm,
  kLatent,
  kLatentNorm,
  kLatentUp,      // keys that do not turn and values, by head
  kLatentKeys,    // the former alone, each head's matrix transposed
  kLatentValues,  // the latter alone
  kIndexQuery,    // of an indexer (nn/indexer.h)
  kIndexQueryNorm,
  kIndexKey,
  kIndexKeyNorm,
  kIndexWeights,
  kIndexGate,     // of the indexer of compressed keys, whose kIndexKey is what tokens give to one
  kIndexBias,     // a matrix by token and dimension
  kCompressKey,   // of nn/compressed_attention.h: what tokens give to a key,
  kCompressGate,  // how much of it,
  kCompressBias,  // what is added to that, by token and dimension
  kCompressNorm,
  kOutDown,  // of groups of heads, one below the other; its kAttentionOut is what comes behind
  // Of layers that carry a state: Mamba 2, gated delta nets, short convolutions.
  kStateIn,    // all that comes in
  kStateConv,  // [channels, 1, taps]; of a gated delta net also in three parts:
  kStateConvQuery,
  kStateConvKey,
  kStateConvValue,
  kStepBias,     // a vector
  kRate,         // a vector of logarithms
  kSkip,         // a vector
  kStateNorm,    // of the result
  kStateSelect,  // of the first Mamba (nn/mamba1.h)
  kStateStep,
  kStepNorm,
  kWriteNorm,
  kReadNorm,
  kStateOut,
  kDeltaIn,  // queries, keys, values; or each apart:
  kDeltaQuery,
  kDeltaKey,
  kDeltaValue,
  kDeltaGate,       // of the result
  kDeltaInGate,     // both in one matrix
  kDeltaShare,      // how much is taken up
  kDeltaStep,       // how fast the matrix fades
  kDeltaGateDown,   // of Kimi delta attention: to the short vectors that gates
  kDeltaStepDown,   // and steps are made of
  kDeltaShareStep,  // both in one matrix
  kPostAttentionNorm,
  kMlpNorm,
  kPostMlpNorm,
  kLayerScalar,      // one number
  kLayerInputTable,  // of nn/layer_input.h
  kLayerInputsProject,
  kLayerInputsNorm,
  kLayerInputGate,
  kLayerInputProject,
  kLayerInputNorm,
  kGate,
  kUp,
  kGateUp,  // gates, then ups, in one matrix
  kDown,
  kXieluPositive,  // one number each (nn/layers.h)
  kXieluNegative,
  kXieluSlope,
  kXieluLimit,
  kRouter,            // of experts
  kRouterCorrection,  // a vector
  kRouterTable,       // the experts of each token, whole numbers
  kExpertGate,
  kExpertUp,
  kExpertGateUp,
  kExpertDown,
  kSharedExpertGate,  // of the expert that every row goes through
  kSharedExpertUp,
  kSharedExpertGateUp,
  kSharedExpertDown,
  kSharedExpertRouter,
  kFinalNorm,
  kLmHead,
  kAttentionSubNorm,
  kMlpSubNorm,
  kExpertScale,    // a vector
  kBesideRouter,   // norms of MoeSpec::beside: of what the router reads,
  kBesideExperts,  // of what the experts read,
  kBesideOut,      // of what they give,
  kBesideMlp,      // and of what the MLP gives
  kStreamIn,       // of nn/alt_up.h; "{}" is the stream's number, the second stream's 0
  kStreamOut,
  kStreamRouterNorm,
  kStreamRouter,
  kStreamPredict,
  kStreamCorrect,
  kStreamScale,  // a vector
  kLaurelDown,
  kLaurelUp,
  kLaurelNorm,
  kAttentionMix,  // of nn/streams.h: scores, and vectors of what is added to them and of their scales
  kAttentionMixBase,
  kAttentionMixScale,
  kMlpMix,
  kMlpMixBase,
  kMlpMixScale,
  kFinalMix,
  kFinalMixBase,
  kFinalMixScale,
  kBlockNorm,  // of nn/shared_block.h
  kBlockOut,
  kQueryAdapterDown,  // of a use of the block; "{}" is the layer of the block, then the use's number
  kQueryAdapterUp,
  kKeyAdapterDown,
  kKeyAdapterUp,
  kValueAdapterDown,
  kValueAdapterUp,
  kGateUpAdapterDown,
  kGateUpAdapterUp,
  kHeadDense,  // of OutputHeadSpec
  kHeadNorm,
  kLmHeadBias,  // a vector, where the matrix is the embedding
  kClassifierDense,
  kClassifierNorm,
  kClassifier,
};

// How the rows of kQkv, or of gates and ups, stand in the file.
enum class RowOrder : uint8_t {
  kPlain,       // all queries, all keys, all values; all gates, all ups
  kByKvHead,    // for each key head: its query heads, the key head, the value head
  kFourParts,   // of kQkv: four times the queries, the values, the keys of a fourth of the heads
  kPairs,       // each gate before its up
  kUpFirst,     // of kGateUp: all ups, all gates
  kTurnLast,    // of kLatent: what turns behind the short vector
  kGatedHeads,  // of kQuery: for each head the query, then its gates
  kHeadParts,   // of lightning attention's kStateIn: for each head the query, the key, the value
  kDeltaHeads,  // of kDeltaInGate: for each key head the query, the key, its values, their gates
  kDeltaSteps,  // of kDeltaShareStep: for each key head the shares of its values, then their steps
};

// A module: its tensors are `<prefix><module>.weight` and, where the model has one there,
// `<prefix><module>.bias`.
// "{}" stands for the layer's number, a second one for the expert's. A role that stands in a table several
// times has the first name that the checkpoint knows. Experts may have names of both kinds, for matrices of
// their own and for stacked ones ([experts, ...], "{}" once): the checkpoint says by its first layer with
// experts which.
struct ModuleName {
  Role role;
  std::string_view module;
  bool transposed = false;  // the matrix is stored [in, out] (GPT-2's Conv1D)
  RowOrder order = RowOrder::kPlain;
  bool bare = false;  // the tensors are `<prefix><module>` and `<prefix><module>_bias`
};

struct WeightNames {
  // Before each module but the output embedding. A checkpoint uses the first under which it has the token
  // embedding.
  std::span<const std::string_view> prefixes;
  std::span<const ModuleName> modules;
  // Tensor names (after the prefix, or in whole) that are no weights: they may be there and are not read.
  std::span<const std::string_view> ignored;
  // Layers behind the model's own may be there, which draft further tokens, and are not read.
  bool later_layers = false;
  // Experts behind the model's own may be there, for what is no text, and are not read; of vectors that are
  // there for both the first row counts.
  bool other_experts = false;
  // The file counts so many layers as one. "{}" is the number of those, a second one a layer's among them.
  int32_t sublayers = 1;
  // The text part of a model that also sees or hears: what is not under the prefix is not read.
  bool composite = false;
};

// pattern with its first "{}" replaced by the number.
std::string with_number(std::string_view pattern, int32_t number);
// Whether text is the pattern, with digits where it has "{}" (once), and anything where it ends with "*".
bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace quire
