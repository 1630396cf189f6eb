#include "sample/workspace.h"

#include "sample/buffers.h"

namespace quire {

SamplerWorkspace::SamplerWorkspace(int32_t vocab_size, LogprobsMode mode)
    : vocab_size_(vocab_size), mode_(mode), buffers_(std::make_unique<SamplerBuffers>(vocab_size)) {
  if (is_processed(mode)) buffers_->processed.resize(static_cast<size_t>(vocab_size));
}

SamplerWorkspace::~SamplerWorkspace() = default;
SamplerWorkspace::SamplerWorkspace(SamplerWorkspace&&) noexcept = default;
SamplerWorkspace& SamplerWorkspace::operator=(SamplerWorkspace&&) noexcept = default;

}  // namespace quire
