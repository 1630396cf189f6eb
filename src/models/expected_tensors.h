// The tensors that a model reads from its checkpoint, and the check that the checkpoint has exactly those.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"
#include "models/model_spec.h"
#include "models/param_list.h"
#include "models/tensor_resolver.h"

namespace quire {

// Must not outlive its arguments. Any thread.
class ExpectedTensors {
 public:
  ExpectedTensors(const ModelSpec& spec, const TensorResolver& resolver, std::span<const ListedParam> params);

  // Throws one Error that lists the missing, misshapen and surplus tensors, the first twenty of them.
  void check() const;

  int64_t num_parameters() const;  // each tensor counts once
  int64_t stored_bytes() const;    // bytes of these tensors in the checkpoint; after check()
  // Number of times that a pass reads the tensor.
  int32_t num_uses(const std::string& name) const;

 private:
  enum class Content : uint8_t { kFloats, kFloatsOrQuantized, kIntegers };
  struct Expected {
    const StoredTensor* tensor;
    Content content = Content::kFloats;
    int32_t uses = 0;
  };
  void expect(const StoredTensor& tensor, Content content);
  // Describes what is wrong with a tensor; empty = nothing.
  std::string problem_of(const Expected& expected) const;
  bool is_ignored(const std::string& name) const;
  bool is_of_decoder(std::string_view name) const;
  bool is_of_head(std::string_view name) const;

  const ModelSpec& spec_;
  const TensorResolver& resolver_;
  const Checkpoint& checkpoint_;
  const std::string copied_head_;               // a second copy of a tied embedding; empty = none
  std::set<std::string, std::less<>> modules_;  // first parts of the names, after the prefix
  std::map<std::string, Expected, std::less<>> expected_;
  std::vector<const Expected*> order_;
};

}  // namespace quire
