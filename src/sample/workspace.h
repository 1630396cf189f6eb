// Scratch memory of the sampler.
#pragma once

#include <cstdint>
#include <memory>

#include "quire/logprobs_mode.h"

namespace quire {

struct SamplerBuffers;  // sample/buffers.h, internal

// Scratch memory of one worker thread, allocated once for the vocabulary (about 26 bytes per token). Its
// contents are valid within one call only. Not thread-safe.
class SamplerWorkspace {
 public:
  explicit SamplerWorkspace(int32_t vocab_size, LogprobsMode mode = LogprobsMode::kRawLogprobs);
  ~SamplerWorkspace();
  SamplerWorkspace(SamplerWorkspace&&) noexcept;
  SamplerWorkspace& operator=(SamplerWorkspace&&) noexcept;

  int32_t vocab_size() const { return vocab_size_; }
  LogprobsMode logprobs_mode() const { return mode_; }
  SamplerBuffers& buffers() { return *buffers_; }

 private:
  int32_t vocab_size_ = 0;
  LogprobsMode mode_ = LogprobsMode::kRawLogprobs;
  std::unique_ptr<SamplerBuffers> buffers_;
};

}  // namespace quire
