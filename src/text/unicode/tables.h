// The generated character tables (tables.cc, written by tools/make_unicode_tables.py). Two-stage: index by
// code point / 128, then block * 128 + code point % 128.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::unicode::tables {

// Bits 0..4: general category (Unicode 16, the order of unicode::Category). Bit 5: White_Space.
extern const uint16_t kClassIndex[8704];
extern const uint8_t kClassBlocks[];

// One bit each, see unicode::Flag.
extern const uint16_t kFlagIndex[8704];
extern const uint8_t kFlagBlocks[];

// Every step-th code point of first to last has its lowercase at a distance of delta.
struct LowerRun {
  uint32_t first, last, step;
  int32_t delta;
};
extern const LowerRun kLowerRuns[];
extern const size_t kNumLowerRuns;

}  // namespace quire::unicode::tables
