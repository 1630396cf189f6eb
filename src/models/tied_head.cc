#include "models/tied_head.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "models/model_param_ids.h"

namespace quire {
namespace {

// The tensor of a matrix of the embedding's shape, whether or not the checkpoint has it.
std::string name_of(const ModelSpec& spec, const TensorResolver& resolver, const ParamId& id,
                    ParamScope scope) {
  const ParamSpec param = with_scope(replicated(id, spec.vocab_size, embedding_size_of(spec)), scope);
  const auto stored = resolver.resolve({&param, 1}, {});
  return stored.empty() ? "" : stored[0].weight.name;
}

// `name` if the checkpoint has it, else empty.
std::string if_stored(const TensorResolver& resolver, std::string name) {
  return resolver.checkpoint().find(name) != nullptr ? std::move(name) : "";
}

bool same_values(const Checkpoint& checkpoint, const std::string& a, const std::string& b) {
  const TensorInfo& one = *checkpoint.find(a);
  const TensorInfo& other = *checkpoint.find(b);
  return one.dtype == other.dtype && one.shape == other.shape && checkpoint.quantized(a) == nullptr &&
         checkpoint.quantized(b) == nullptr && std::ranges::equal(checkpoint.bytes(a), checkpoint.bytes(b));
}

}  // namespace

std::string head_name(const ModelSpec& spec, const TensorResolver& resolver) {
  return name_of(spec, resolver, model::kLmHead, ParamScope::kHead);
}

std::string stored_head(const ModelSpec& spec, const TensorResolver& resolver) {
  return if_stored(resolver, head_name(spec, resolver));
}

void use_own_head(const Checkpoint& checkpoint, ModelSpec& spec) {
  const bool needed = spec.task == ModelTask::kGenerate || spec.score_tokens[0] >= 0;
  if (!spec.tie_word_embeddings || !needed) return;
  const TensorResolver resolver(spec, checkpoint);
  const std::string head = stored_head(spec, resolver);
  const std::string embedding =
      if_stored(resolver, name_of(spec, resolver, model::kEmbedTokens, ParamScope::kDecoder));
  if (head.empty() || embedding.empty() || same_values(checkpoint, head, embedding)) return;
  spec.tie_word_embeddings = false;
  spec.warnings.push_back(cat("tie_word_embeddings is true, but ", head, " differs from ", embedding,
                              ", so that it is used as the output embedding"));
}

}  // namespace quire
