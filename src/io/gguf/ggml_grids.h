// The vectors that ggml's IQ types choose from, an entry each: the first element in the lowest bits. Written
// by tools/make_ggml_grids.py.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

// Eight elements of two bits: 0, 1, 2 for the magnitudes 8, 25, 43.
extern const std::array<uint16_t, 256> kIq2XxsGrid;
extern const std::array<uint16_t, 512> kIq2XsGrid;
extern const std::array<uint16_t, 1024> kIq2SGrid;
// Four elements of three bits: the magnitudes 4, 12, 20, 28, 36, 44, 52, 62 and 1, 3, ... 15.
extern const std::array<uint16_t, 256> kIq3XxsGrid;
extern const std::array<uint16_t, 512> kIq3SGrid;
// Eight elements of two bits: 0, 1, 2 for -1, 0, 1.
extern const std::array<uint16_t, 2048> kIq1Grid;

}  // namespace quire
