// Memory placement on NUMA machines. All functions may be called from any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace quire {

// Parses a list in the kernel's format: "0-2,5" is 0, 1, 2, 5. Returns nullopt if the text is not such a
// list or contains a number above 1023.
std::optional<std::vector<int>> parse_number_list(std::string_view text);

// The nodes with memory that this process may use; empty if the system does not report them.
std::vector<int> memory_nodes();

// Interleaves the pages of a mapping over memory_nodes() as they are touched for the first time. Memory that
// all threads read (weights, the KV cache) is then read with the bandwidth of all nodes, regardless of the
// thread that touched it first. `begin` is page-aligned. Does nothing if there are fewer than two nodes or
// the system call fails.
void interleave_pages(void* begin, size_t bytes);

}  // namespace quire
