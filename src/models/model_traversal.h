// One traversal of the description of a whole model: calls the functions visit() of its mechanisms.
#pragma once

#include <cstdint>
#include <optional>

#include "models/decoder/decoder.h"
#include "models/param_list.h"

namespace quire {

// Visits every parameter of the given part of the model. The visitor fills the weights of the decoder, or
// leaves them as they are.
class ModelTraversal {
 public:
  ModelTraversal(const ModelToDescribe& source, ParamVisitor& visitor, Decoder& decoder)
      : source_(source), spec_(source.spec), visitor_(visitor), model_(decoder) {}
  void visit();

 private:
  void embeddings();
  void token_types();
  void position_embeddings();
  void output();
  void pooler();
  void pooler_files(Pooler& pooler);
  void token_scores(Pooler& pooler);
  void label_difference(Pooler& pooler);
  bool is_wanted(int32_t layer) const;
  void layers();
  void layer(int32_t index, DecoderLayer& out);
  void shared_block(int32_t index, DecoderLayer& out);

  // A norm with the settings of the model.
  void norm(ParamId id, int64_t size, Norm& out);
  ResidualAdd join(const BranchSpec& spec, ParamId norm_id);
  ParamSpec embedding_spec() const;
  ParamSpec lm_head_spec() const;

  const ModelToDescribe& source_;
  const ModelSpec& spec_;
  ParamVisitor& visitor_;
  Decoder& model_;
};

}  // namespace quire
