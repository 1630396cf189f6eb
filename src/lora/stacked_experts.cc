#include "lora/stacked_experts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "lora/tensor_checks.h"

namespace quire::lora {
namespace {

std::string_view parent_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

// The first three numbers of a version; zeros if it has none.
std::array<int, 3> version_of(std::string_view text) {
  std::array<int, 3> numbers = {0, 0, 0};
  for (int& number : numbers) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) break;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.starts_with('.')) break;
    text.remove_prefix(1);
  }
  return numbers;
}

template <typename Element>
void take(const StackedTensors& from, int64_t expert, Element* a, Element* b) {
  const auto* stored_a = reinterpret_cast<const Element*>(from.a);
  const auto* stored_b = reinterpret_cast<const Element*>(from.b);
  const auto own_b = [&](int64_t row, int64_t j) {
    return stored_b[(row * from.rank + j) * from.experts + expert];
  };
  if (!from.transposed) {
    std::memcpy(a, stored_a + expert * from.rank * from.in,
                static_cast<size_t>(from.rank * from.in) * sizeof(Element));
    for (int64_t n = 0; n < from.out; ++n) {
      for (int64_t j = 0; j < from.rank; ++j) *b++ = own_b(n, j);
    }
    return;
  }
  for (int64_t k = 0; k < from.in; ++k) {
    for (int64_t j = 0; j < from.rank; ++j) a[j * from.in + k] = own_b(k, j);
  }
  const Element* own_a = stored_a + expert * from.rank * from.out;
  for (int64_t j = 0; j < from.rank; ++j) {
    for (int64_t n = 0; n < from.out; ++n) b[n * from.rank + j] = *own_a++;
  }
}

}  // namespace

std::vector<std::string> targeted_parameters(const PeftConfig& config, std::string_view module,
                                             const std::vector<std::string>& parameters) {
  if (!has_targeted_parameter(config, module)) return parameters;
  std::vector<std::string> found;
  for (const std::string& parameter : parameters) {
    if (is_targeted(config, std::string(module) + "." + parameter)) found.push_back(parameter);
  }
  return found;
}

bool is_targeted(const PeftConfig& config, std::string_view parameter) {
  return std::ranges::any_of(config.target_parameters,
                             [&](const std::string& target) { return is_end_of_name(target, parameter); });
}

bool has_targeted_parameter(const PeftConfig& config, std::string_view module) {
  return std::ranges::any_of(config.target_parameters, [&](const std::string& target) {
    const std::string_view parent = parent_of(target);
    return parent.empty() || is_end_of_name(parent, module);
  });
}

std::optional<bool> transposes_change(std::string_view peft_version, bool stored_transposed) {
  const std::array<int, 3> version = version_of(peft_version);
  if (!stored_transposed) return version < std::array{0, 19, 1};
  // 0.19.0 takes these for [E, out, in] if transformers marks them as [E, in, out], which it did not always
  // do.
  if (version == std::array{0, 19, 0}) return std::nullopt;
  return false;
}

void take_expert(const StackedTensors& from, int64_t expert, std::byte* a, std::byte* b) {
  if (from.size == sizeof(float)) {
    take(from, expert, reinterpret_cast<uint32_t*>(a), reinterpret_cast<uint32_t*>(b));
  } else {
    take(from, expert, reinterpret_cast<uint16_t*>(a), reinterpret_cast<uint16_t*>(b));
  }
}

}  // namespace quire::lora
