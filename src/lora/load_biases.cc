#include "lora/load_biases.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "base/strings.h"

namespace quire::lora {
namespace {

// Adds values - base to the rows of the site. Returns whether any of them differs.
bool add_difference(const std::vector<float>& values, std::span<const float> base, const AdapterRange& range,
                    std::unique_ptr<LowRank>& site) {
  if (std::ranges::equal(values, base)) return false;
  if (site == nullptr) {
    site = std::make_unique<LowRank>();
    site->k = range.in;
  }
  if (site->bias.size() == 0) site->bias = Buffer(static_cast<size_t>(range.site_rows) * sizeof(float));
  float* to = site->bias.as<float>() + range.out_begin;
  for (size_t i = 0; i < values.size(); ++i) to[i] += values[i] - base[i];
  return true;
}

// Whether another bias has the same rows. Remembers these.
class RowsOfBiases {
 public:
  bool overlap(const AdapterRange& range) {
    auto& rows = rows_[range.site];
    const int64_t end = range.out_begin + range.rows;
    const bool found = std::ranges::any_of(
        rows, [&](const auto& other) { return other.first < end && range.out_begin < other.second; });
    rows.emplace_back(range.out_begin, end);
    return found;
  }

 private:
  std::map<int32_t, std::vector<std::pair<int64_t, int64_t>>> rows_;
};

}  // namespace

std::vector<std::string> load_biases(std::vector<PlannedBias>& planned, const AdapterBase& base,
                                     TensorValues& values, Problems& problems,
                                     std::vector<std::unique_ptr<LowRank>>& sites) {
  std::vector<int32_t> wanted;
  for (const PlannedBias& bias : planned) {
    for (const AdapterRange& range : bias.ranges) wanted.push_back(range.site);
  }
  if (wanted.empty()) return {};
  std::map<int32_t, std::vector<float>> of_base;
  if (base.biases) of_base = base.biases(wanted);
  RowsOfBiases rows;
  std::vector<std::string> equal;
  std::erase_if(planned, [&](const PlannedBias& bias) {
    std::vector<float> stored(static_cast<size_t>(bias.bias.shape[0]));
    values.read(bias.bias, DType::kF32, reinterpret_cast<std::byte*>(stored.data()));
    bool differs = false;
    for (const AdapterRange& range : bias.ranges) {
      const auto own = of_base.find(range.site);
      if (own == of_base.end()) {
        problems.add(cat(shown(bias.bias.name), ": is a trained bias, the model's module has none"));
        return false;
      }
      if (rows.overlap(range))
        problems.add(cat(shown(bias.bias.name), ": another bias is that of the same rows"));
      const auto part = std::span<const float>(own->second)
                            .subspan(static_cast<size_t>(range.out_begin), static_cast<size_t>(range.rows));
      differs = add_difference(in_order(stored, range.layout), part, range,
                               sites[static_cast<size_t>(range.site)]) ||
                differs;
    }
    if (!differs) equal.push_back(bias.bias.name);
    return !differs;
  });
  return equal;
}

}  // namespace quire::lora
