// A safetensors file: the reader accepts it or throws Error, and all accepted tensors are inside the file.
#include <algorithm>
#include <span>

#include "base/error.h"
#include "fuzz/fuzz.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"

namespace quire {
namespace {

void check_tensors(std::span<const std::byte> bytes) {
  const Safetensors file(bytes, "fuzz");
  for (const TensorInfo& info : file.tensors()) {
    fuzz::require(info.offset <= bytes.size() && info.bytes <= bytes.size() - info.offset,
                  "a tensor is inside");
    const auto data = file.data(info);
    fuzz::require(data.size() == info.bytes, "a tensor has its bytes");
    for (const std::byte b : data) static_cast<void>(*const_cast<const volatile std::byte*>(&b));
  }
}

void check_checkpoint(std::span<const std::byte> bytes) {
  const auto checkpoint = Checkpoint::from_memory({"fuzz", "{}", "", bytes});
  const auto names = checkpoint->names();
  fuzz::require(std::is_sorted(names.begin(), names.end()), "names are sorted");
  for (const std::string& name : names) {
    fuzz::require(checkpoint->find(name) != nullptr, "each name is found");
    checkpoint->bytes(name);
    if (checkpoint->find(name)->shape.size() <= 4 && checkpoint->aligned(name)) checkpoint->view(name);
    checkpoint->release(name);
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    quire::check_tensors(bytes);
    quire::check_checkpoint(bytes);
  } catch (const quire::Error&) {
  }
  return 0;
}
