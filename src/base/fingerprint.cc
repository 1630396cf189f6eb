#include "base/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstdio>

namespace quire {

struct Fingerprint::State {
  XXH3_state_t hash;
};

Fingerprint::Fingerprint() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->hash);
}

Fingerprint::~Fingerprint() = default;

void Fingerprint::add(std::string_view text) {
  add(std::as_bytes(std::span(text)));
}

void Fingerprint::add(int64_t number) {
  add(std::as_bytes(std::span(&number, 1)));
}

void Fingerprint::add(std::span<const std::byte> bytes) {
  const size_t size = bytes.size();
  XXH3_128bits_update(&state_->hash, &size, sizeof(size));
  XXH3_128bits_update(&state_->hash, bytes.data(), size);
}

std::string Fingerprint::text() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->hash);
  std::array<char, kDigits + 1> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return digits.data();
}

}  // namespace quire
