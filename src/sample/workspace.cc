#include "sample/workspace.h"

#include "sample/buffers.h"

namespace quire {

SamplerWorkspace::SamplerWorkspace(int32_t vocab_size)
    : vocab_size_(vocab_size), buffers_(std::make_unique<SamplerBuffers>(vocab_size)) {}

SamplerWorkspace::~SamplerWorkspace() = default;
SamplerWorkspace::SamplerWorkspace(SamplerWorkspace&&) noexcept = default;
SamplerWorkspace& SamplerWorkspace::operator=(SamplerWorkspace&&) noexcept = default;

}  // namespace quire
