// Helpers for tests on the emulated device.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "../emulated/device.h"

// Seeds to run: EMULATED_SEEDS (default 4), from 0. Seed 0 runs all warps in step; the others let one run
// ahead.
inline int num_seeds() {
  const char* seeds = std::getenv("EMULATED_SEEDS");
  return seeds != nullptr ? std::atoi(seeds) : 4;
}

// Runs `run`, which returns the values that a kernel wrote, with every seed. Expects the same bits from all
// of them, and returns those of the last.
template <class Run>
std::vector<float> run_with_every_seed(Run run) {
  std::vector<float> first, values;
  for (int seed = 0; seed < num_seeds(); ++seed) {
    emulated::set_seed(static_cast<uint64_t>(seed));
    values = run();
    if (seed == 0) first = values;
    EXPECT_EQ(std::memcmp(first.data(), values.data(), values.size() * sizeof(float)), 0)
        << "seeds 0 and " << seed << " give different bits";
  }
  return values;
}

inline bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof(float)) == 0;
}

// Normally distributed bit patterns of `type`.
inline std::vector<uint16_t> random_operands(size_t count, probe::OperandType type, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> bits(count);
  for (uint16_t& x : bits) x = probe::from_float(normal(random), type);
  return bits;
}
