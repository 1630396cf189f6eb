// Division of texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire {

// The parts between any of the separators, without empty ones.
std::vector<std::string> split_text(std::string_view text, std::string_view separators);

}  // namespace quire
