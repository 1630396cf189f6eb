// The size of the header of a weight file, so that its tensors can be checked before the file is downloaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire::hub {

// Bytes from the start of a safetensors or GGUF file to the end of its header. If `prefix` is too short to
// tell, a larger number of bytes to read before the next call. 0 if the file has no such header.
uint64_t header_size(std::string_view prefix);

}  // namespace quire::hub
