// Handles reads of mapped files that were truncated. The kernel raises SIGBUS for a page past the end of the
// file or one that the disk cannot read. The handler replaces the lost pages with zeros and marks the region,
// so that the reading thread continues. Users of the bytes must check lost_mapped_file() before they use a
// result that was computed from them.
//
// Reading the weights into memory at load is no alternative: it would need twice the memory while they are
// packed, would prevent processes from sharing the weight cache, and would not help during loading.
//
// The handler is process-wide, like all signal handlers. It is installed with the first region and forwards
// every other SIGBUS to the previous handler.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace quire {

// Registers a mapping until unregister_mapping(). Thread-safe. name: the file name, for messages.
void register_mapping(std::span<const std::byte> bytes, const std::string& name);
// Must be called before the mapping ends. begin: its first byte; unknown mappings are ignored.
void unregister_mapping(const std::byte* begin) noexcept;

// The name of a registered file with lost pages; nullopt if there is none. Thread-safe; one atomic load in
// the normal case.
std::optional<std::string> lost_mapped_file();

}  // namespace quire
