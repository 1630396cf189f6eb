// An adapter that changes everything in a model that an adapter can change.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/adapter.h"
#include "nn/adapter_targets.h"

namespace quire::test {

// The ranges of one module of the pattern.
inline std::span<const AdapterRange> find_ranges(
    const AdapterModule& module, const std::array<int32_t, NumberedName::kMaxNumbers>& numbers) {
  const auto first = std::ranges::lower_bound(module.ranges, numbers, {}, &AdapterRange::numbers);
  const auto last = std::ranges::upper_bound(module.ranges, numbers, {}, &AdapterRange::numbers);
  return {first, last};
}

// Draws A [2, in] and B [out, 2] of a module, and fills those of a matrix that is computed from some of its
// rows.
inline void derive(const SourceRows& part, const ModuleShape& shape, const LowRank::Piece& piece, int64_t k,
                   float size, std::mt19937& random, float* to_a, float* to_b) {
  std::normal_distribution<float> normal;
  std::vector<float> a(static_cast<size_t>(2 * shape.in));
  std::vector<float> b(static_cast<size_t>(2 * shape.out));
  for (float& value : a) value = 0.2F * normal(random);
  for (float& value : b) value = size * normal(random);
  for (int64_t j = 0; j < 2; ++j) {
    const auto a_at = [&](int64_t column) { return a[static_cast<size_t>(j * shape.in + column)]; };
    const auto b_at = [&](int64_t row) { return b[static_cast<size_t>(2 * (part.begin + row) + j)]; };
    for (int64_t i = 0; i < (part.transposed ? part.count : k); ++i)
      to_a[j * k + i] = part.transposed ? b_at(i) : a_at(i);
    for (int64_t i = 0; i < piece.n; ++i) to_b[b_index(piece, i, j)] = part.transposed ? a_at(i) : b_at(i);
  }
}

// Changes of rank 2 of all places, with B times `size`. A module that is in several places, such as a
// projection that is both keys and values, changes all of them alike.
inline AdapterWeights adapter_of_all(const AdapterTargets& targets, float size) {
  struct Place {
    std::string_view name;
    const AdapterModule* module = nullptr;
    ModuleShape shape;  // shape of a derived module
    const AdapterRange* range = nullptr;
  };
  std::map<int32_t, std::map<int64_t, Place>> sites;
  for (const auto& [name, module] : targets.modules) {
    if (module.kind != AdapterModuleKind::kMatrix && module.kind != AdapterModuleKind::kStacked &&
        module.kind != AdapterModuleKind::kDerived)
      continue;
    for (const AdapterRange& range : module.ranges) {
      Place& at = sites[range.site][range.out_begin];
      // A range of several parameters is replaced by that of the first one alone.
      if (at.range == nullptr || range.rows < at.range->rows) at = {name, &module, {}, &range};
      if (range.part) at.shape = module_shape(find_ranges(module, range.numbers));
    }
  }
  AdapterWeights adapter;
  adapter.sites.resize(static_cast<size_t>(targets.num_sites));
  for (const auto& [site, places] : sites) {
    auto change = std::make_unique<LowRank>();
    change->k = places.begin()->second.range->in;
    int64_t elements = 0;
    for (const auto& [begin, place] : places) {
      change->pieces.push_back({.out_begin = begin, .n = place.range->rows, .rank = 2, .scale = 0.5F});
      elements += 2 * place.range->rows;
    }
    change->a = Buffer(static_cast<size_t>(change->ranks() * change->k) * sizeof(float));
    change->b = Buffer(static_cast<size_t>(elements) * sizeof(float));
    float* a = change->a.as<float>();
    float* b = change->b.as<float>();
    for (const auto& [begin, place] : places) {
      std::vector<uint32_t> seeds(place.name.begin(), place.name.end());
      seeds.insert(seeds.end(), place.range->numbers.begin(), place.range->numbers.end());
      if (place.module->kind == AdapterModuleKind::kStacked) seeds.push_back(static_cast<uint32_t>(site));
      std::seed_seq sequence(seeds.begin(), seeds.end());
      std::mt19937 random(sequence);
      std::normal_distribution<float> normal;
      if (place.range->part) {
        derive(place.range->part.value(), place.shape, change->pieces.front(), change->k, size, random, a, b);
        continue;
      }
      for (int64_t i = 0; i < 2 * change->k; ++i) *a++ = 0.2F * normal(random);
      for (int64_t i = 0; i < 2 * place.range->rows; ++i) *b++ = size * normal(random);
    }
    adapter.sites[static_cast<size_t>(site)] = std::move(change);
  }
  return adapter;
}

}  // namespace quire::test
