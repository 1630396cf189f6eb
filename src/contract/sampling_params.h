// SharedSamplingParams is the shared, immutable form of the public SamplingParams that the engine passes on.
#pragma once

#include <memory>
#include <utility>

#include "contract/ids.h"
#include "quire/sampling_params.h"

namespace quire {

// The parameters of one request, immutable and shared by its prompts, samples and records: copying
// one copies a pointer. Never null. Copies may be read from several threads at once.
class SharedSamplingParams {
 public:
  SharedSamplingParams() : params_(std::make_shared<SamplingParams>()) {}
  // NOLINTNEXTLINE(google-explicit-constructor): parameters are handed over as they are
  SharedSamplingParams(SamplingParams params)
      : params_(std::make_shared<SamplingParams>(std::move(params))) {}

  const SamplingParams& operator*() const { return *params_; }
  const SamplingParams* operator->() const { return params_.get(); }
  // Whether both refer to the same object, not only to equal values.
  bool same_as(const SharedSamplingParams& other) const { return params_ == other.params_; }

  // For changing a request before it is submitted. Copies the parameters first if they are shared.
  SamplingParams& edit() {
    if (params_.use_count() > 1) params_ = std::make_shared<SamplingParams>(*params_);
    return *params_;
  }

  // A pointer to one member, which keeps the whole object alive.
  template <typename T>
  std::shared_ptr<const T> share(T SamplingParams::*member) const {
    return std::shared_ptr<const T>(params_, &(params_.get()->*member));
  }

 private:
  std::shared_ptr<SamplingParams> params_;
};

}  // namespace quire
