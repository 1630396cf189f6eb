#include "sample/race.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "sample/wide.h"

namespace quire {
namespace {

// The arrivals of 16 neighbouring ids, a group, are drawn together: the first of 16 exponential numbers is
// exponential with mean 1/16, it is each of them with the same probability, and each of the others exceeds it
// by an exponential number of mean 1. So one number shows for 16 tokens at once that none of them can win.
constexpr size_t kGroup = 16;
static_assert(kGroup == kLanes && kRowBlock == kGroup * kLanes);
constexpr uint32_t kMember = uint32_t{1} << 31;  // tells the numbers of members from those of groups

// Keyed mixing of 32 bits: a bijection for each key. The shifts and factors are those of lowbias32 (Wellons,
// "Prospecting for hash functions", 2018); the second word of the key enters between its two products.
template <typename Word>
QUIRE_INLINE Word mix(Word word, uint32_t key0, uint32_t key1) {
  word += key0;
  word ^= word >> 16;
  word *= 0x7FEB352DU;
  word ^= word >> 15;
  word ^= key1;
  word *= 0x846CA68BU;
  word ^= word >> 16;
  return word;
}

uint32_t upper_bits(const RaceKey& key, uint32_t number) {
  return mix(number, key[0], key[1]);
}
uint32_t lower_bits(const RaceKey& key, uint32_t number) {
  return mix(number, key[2], key[3]);
}

// -log(1 - (bits + 0.5) / 2^64). Not the C library's logarithm, whose last bit differs between processors.
double exponential(uint64_t bits) {
  constexpr double kLog2 = 0.693147180559945309;
  constexpr double kSqrtHalf = 0.707106781186547524;
  constexpr int kTerms = 12;  // number of terms of the series of atanh, for arguments up to 0.172
  const auto twice_atanh = [](double x) {
    const double square = x * x;
    double sum = 0.0;
    for (int term = kTerms; term >= 0; --term) sum = sum * square + 1.0 / (2 * term + 1);
    return 2.0 * x * sum;
  };
  if (bits < uint64_t{1} << 62) {
    const double part = (static_cast<double>(bits) + 0.5) * 0x1p-64;
    return twice_atanh(part / (2.0 - part));
  }
  int exponent = 0;
  double rest = std::frexp((static_cast<double>(~bits) + 0.5) * 0x1p-64, &exponent);  // 1 - part
  if (rest < kSqrtHalf) {
    rest *= 2.0;
    --exponent;
  }
  return twice_atanh((1.0 - rest) / (1.0 + rest)) - exponent * kLog2;
}

QUIRE_INLINE uint32_t bit_mask(const Bits& lanes) {
  uint32_t mask = 0;
  for (size_t i = 0; i < kLanes; ++i) mask |= (lanes[i] & 1U) << i;
  return mask;
}

// The largest upper bits of a group in which a token of at most this weight may still win. reach: what
// Race::reach() returns.
QUIRE_INLINE uint32_t limit_of(float weight, double reach) {
  constexpr double kLargest = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::min(reach * double{weight} + 1.0, kLargest));
}

struct BlockGroups {
  size_t block = 0;
  uint32_t groups = 0;  // bit i: group i of the block
};

// The first block from `block` on that has groups in which a token may still win; {num_blocks, 0} if none
// has. weights [num_blocks]: the largest weight of each block.
QUIRE_WIDE BlockGroups next_groups(size_t block, size_t num_blocks, const float* weights, double reach,
                                   uint32_t key0, uint32_t key1) {
  Bits lane;
  for (size_t i = 0; i < kLanes; ++i) lane[i] = static_cast<uint32_t>(i);
  for (; block < num_blocks; ++block) {
    const Bits group = lane + static_cast<uint32_t>(block * kLanes);
    const Bits below = reinterpret_cast<Bits>(mix(group, key0, key1) <= limit_of(weights[block], reach));
    if (any(below)) return {block, bit_mask(below)};
  }
  return {num_blocks, 0};
}

// Bit i is set if values[i] * scale is at least `bound`, for kLanes values.
QUIRE_WIDE uint32_t lanes_above(const float* values, float scale, float bound) {
  Floats lanes;
  std::memcpy(&lanes, values, sizeof lanes);
  const Bits above = reinterpret_cast<Bits>(lanes * scale >= bound);
  return any(above) ? bit_mask(above) : 0;
}

// Bit i is set if a token of at most this weight may still win in the group of ids[i], for kLanes ids.
QUIRE_WIDE uint32_t ids_in_reach(const TokenId* ids, float weight, double reach, uint32_t key0,
                                 uint32_t key1) {
  Bits group;
  std::memcpy(&group, ids, sizeof group);
  const Bits below = reinterpret_cast<Bits>(mix(group / static_cast<uint32_t>(kGroup), key0, key1) <=
                                            limit_of(weight, reach));
  return any(below) ? bit_mask(below) : 0;
}

// Whether the token is the first of its group to arrive. Its bits are also the last of the 64 that say when.
bool is_first(const RaceKey& key, uint32_t id) {
  return lower_bits(key, id / kGroup) % kGroup == id % kGroup;
}

uint64_t random_bits(const RaceKey& key, uint32_t number) {
  return uint64_t{upper_bits(key, number)} << 32 | lower_bits(key, number);
}

class Race {
 public:
  Race(const Row& row, const RaceKey& key) : row_(row), key_(key) {}

  // Lets the entries [begin, end) run, at most kLanes.
  void run(size_t begin, size_t end) { run(begin, end, (uint32_t{1} << (end - begin)) - 1); }

  // Same for a group of a row without a list of ids.
  void run_group(size_t begin, size_t end) {
    if (begin + kGroup > end) return run(begin, end);
    // No token of the group wins whose weight is below the ratio of the group's arrival and the best time.
    const double first = earliest_of_group(static_cast<uint32_t>(begin / kGroup));
    const double bound = std::log(first / best_) + double{row_.max} * double{row_.scale};
    constexpr double kRounding = 1e-4;
    const auto lowest = static_cast<float>(bound - kRounding * (1.0 + std::abs(bound)));
    const uint32_t lanes = lanes_above(&row_.values[begin], row_.scale, lowest);
    if (lanes != 0) run(begin, end, lanes);
  }

  // Same for entries of a list, whose weights are at most `weight`.
  void run_list(size_t begin, size_t end, float weight) {
    if (begin + kLanes > end) return run(begin, end);
    const uint32_t lanes = ids_in_reach(row_.ids + begin, weight, reach(), key_[0], key_[1]);
    if (lanes != 0) run(begin, end, lanes);
  }

  // The upper bits of a group in which a token of weight 1 may still win.
  double reach() const {
    constexpr double kMargin = 1.0 + 1e-6;  // weights in a row are rounded differently from their maximum
    return best_ * kMargin * kGroup * 0x1p32;
  }

  size_t winner() const { return winner_; }

 private:
  // Lets those entries run whose bits are set.
  void run(size_t begin, size_t end, uint32_t lanes) {
    std::array<float, kLanes> weights;
    double sum = 0.0;
    weigh(row_.values.subspan(begin, end - begin), row_.max, row_.scale, weights.data(), &sum);
    for (; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<size_t>(std::countr_zero(lanes));
      const double weight = double{weights[lane]};
      const TokenId token = row_.id(begin + lane);
      if (weight == 0.0 || earliest_arrival(token) > best_ * weight) continue;
      const double time = arrival(key_, token) / weight;
      if (time < best_ || (time == best_ && begin + lane < winner_)) {
        best_ = time;
        winner_ = begin + lane;
      }
    }
  }

  // Bounds of arrival(), since -log(1 - x) is at least x.
  double earliest_of_group(uint32_t group) const { return 0x1p-32 / kGroup * upper_bits(key_, group); }
  double earliest_arrival(TokenId token) const {
    const auto id = static_cast<uint32_t>(token);
    const double first = earliest_of_group(id / kGroup);
    return is_first(key_, id) ? first : first + 0x1p-32 * upper_bits(key_, kMember | id);
  }

  const Row& row_;
  const RaceKey& key_;
  double best_ = std::numeric_limits<double>::infinity();
  size_t winner_ = 0;
};

}  // namespace

double arrival(const RaceKey& key, TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  const double first = exponential(random_bits(key, id / kGroup)) / kGroup;
  return is_first(key, id) ? first : first + exponential(random_bits(key, kMember | id));
}

size_t win_race(const Row& row, const RaceKey& key, SamplerBuffers& buffers) {
  const size_t size = row.values.size();
  Race race(row, key);
  // The group of the largest weight first, so that few of the others have to be looked at.
  const size_t likely = find_max(row.values, buffers.block_max.data(), row.max) / kLanes * kLanes;
  race.run(likely, std::min(likely + kLanes, size));
  weigh(std::span(buffers.block_max).first(num_blocks(size)), row.max, row.scale, buffers.weights.data(),
        buffers.block_sum.data());
  const float* weights = buffers.weights.data();
  if (row.ids != nullptr) {
    for (size_t begin = 0; begin < size; begin += kLanes) {
      race.run_list(begin, std::min(begin + kLanes, size), weights[begin / kRowBlock]);
    }
    return race.winner();
  }
  const auto next = [&](size_t block) {
    return next_groups(block, num_blocks(size), weights, race.reach(), key[0], key[1]);
  };
  for (BlockGroups found = next(0); found.groups != 0; found = next(found.block + 1)) {
    for (; found.groups != 0; found.groups &= found.groups - 1) {
      const size_t begin =
          found.block * kRowBlock + static_cast<size_t>(std::countr_zero(found.groups)) * kGroup;
      if (begin < size) race.run_group(begin, std::min(begin + kGroup, size));
    }
  }
  return race.winner();
}

}  // namespace quire
