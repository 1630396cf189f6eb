// Arithmetic of one tensor core instruction, as far as it is known: a dot product of a few bf16 or fp16
// values, added to a float32 accumulator. The products and the accumulator are aligned to the largest
// exponent among them, truncated below `fraction_bits`, and summed exactly; the sum is truncated to float32.
// Hence the order of the products within one instruction does not matter, and the order of the instructions
// does. The formula and its parameters are those that MMA-Sim (arXiv 2511.10909) found by testing. The
// emulated device computes with this model; the program `bits` compares it with the device.
#pragma once

#include <cstdint>

namespace probe {

enum class OperandType { kBf16, kFp16 };

struct DotModel {
  int fraction_bits = 25;     // 25 = Hopper; 24 = Ampere and Ada
  int products_per_sum = 16;  // 16 = Hopper; 8 = Ampere and Ada, which split a step of 16 into two
};

// `count` products of a[i] and b[i], at most 32, summed in one step. The operands are bit patterns of `type`.
// Infinities and NaN give the value that float64 arithmetic gives.
float fused_dot_add(const uint16_t* a, const uint16_t* b, int count, float c, OperandType type,
                    int fraction_bits);

// Dot product of length k from zero, in ascending steps of model.products_per_sum. k is a multiple of it.
float dot_chain(const uint16_t* a, const uint16_t* b, int k, OperandType type, const DotModel& model);

// The value of a bit pattern, and the nearest bit pattern of a finite value (ties to even).
float to_float(uint16_t bits, OperandType type);
uint16_t from_float(float value, OperandType type);

}  // namespace probe
