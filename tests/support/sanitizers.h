// Whether the tests are compiled with a sanitizer, for those whose limits and sizes depend on it.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUIRE_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define QUIRE_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define QUIRE_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define QUIRE_THREAD_SANITIZER 1
#endif

namespace quire::test {

#if defined(QUIRE_ADDRESS_SANITIZER)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(QUIRE_THREAD_SANITIZER)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

inline constexpr bool kSanitizer = kAddressSanitizer || kThreadSanitizer;

// The number of repetitions of a random test, or the size of its input: sanitizers slow it down by an order
// of magnitude.
constexpr int repetitions(int without_sanitizer, int with_sanitizer) {
  return kSanitizer ? with_sanitizer : without_sanitizer;
}

}  // namespace quire::test
