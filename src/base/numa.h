// Machines whose memory is in several nodes, each nearer to some cores than to others. Any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace quire {

// The numbers of a list as the kernel writes them: "0-2,5" is 0, 1, 2, 5. Nothing where it is no such list,
// or one with numbers from 1024 on.
std::optional<std::vector<int>> parse_number_list(std::string_view text);

// The nodes with memory that this process may use; none where the system does not tell.
std::vector<int> memory_nodes();

// Spreads the pages of a mapping evenly over memory_nodes() as they are touched for the first time. What any
// thread may read (weights, the KV cache) is then read with the bandwidth of all nodes together, wherever the
// thread that touched it first ran. begin: of a page. Does nothing where there are fewer than two nodes or
// the system refuses.
void interleave_pages(void* begin, size_t bytes);

}  // namespace quire
