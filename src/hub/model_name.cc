#include "hub/model_name.h"

#include <algorithm>

#include "base/strings.h"

namespace quire::hub {
namespace {

constexpr size_t kMaxRepoId = 96;
constexpr size_t kMaxPath = 1024;
constexpr size_t kMaxComponent = 255;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_part(std::string_view part) {
  if (part.empty() || !is_word(part.front()) || !is_word(part.back())) return false;
  if (part.find("--") != std::string_view::npos || part.find("..") != std::string_view::npos) return false;
  return std::ranges::all_of(part, [](char c) { return is_word(c) || c == '-' || c == '.'; });
}

std::string_view without_host(std::string_view text) {
  for (const std::string_view prefix :
       {"https://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/"}) {
    if (text.starts_with(prefix)) return text.substr(prefix.size());
  }
  return text;
}

}  // namespace

std::string ModelName::text() const {
  if (!file.empty()) return repo + "/" + file;
  return tag.empty() ? repo : repo + ":" + tag;
}

bool is_repo_id(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos || text.size() > kMaxRepoId) return false;
  const std::string_view name = text.substr(slash + 1);
  return is_part(text.substr(0, slash)) && is_part(name) && !name.ends_with(".git");
}

std::optional<ModelName> parse_model_name(std::string_view text) {
  text = without_host(text);
  const size_t first = text.find('/');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = text.find('/', first + 1);
  ModelName name;
  if (second != std::string_view::npos) {
    name.repo = text.substr(0, second);
    name.file = text.substr(second + 1);
    if (!name.file.ends_with(".gguf") || !is_safe_path(name.file)) return std::nullopt;
  } else {
    const size_t colon = text.find(':');
    name.repo = text.substr(0, colon);
    if (colon != std::string_view::npos) {
      name.tag = text.substr(colon + 1);
      if (!is_part(name.tag)) return std::nullopt;
    }
  }
  if (!is_repo_id(name.repo)) return std::nullopt;
  return name;
}

bool is_safe_path(std::string_view name) {
  if (name.empty() || name.size() > kMaxPath || !is_valid_utf8(name)) return false;
  if (std::ranges::any_of(name, [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7F || c == '\\';
      })) {
    return false;
  }
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > kMaxComponent) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

bool is_revision(std::string_view text) {
  return is_safe_path(text) && text.find_first_of("?#%: ") == std::string_view::npos;
}

bool is_commit(std::string_view text) {
  return text.size() == 40 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::vector<std::string> similar_names(std::string_view name, const std::vector<std::string>& candidates,
                                       size_t limit) {
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (2 * distance <= std::max(name.size(), candidate.size())) ranked.emplace_back(distance, candidate);
  }
  std::ranges::sort(ranked);
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  std::vector<std::string> names;
  for (const auto& [distance, candidate] : ranked) {
    if (names.size() < limit) names.push_back(candidate);
  }
  return names;
}

}  // namespace quire::hub
