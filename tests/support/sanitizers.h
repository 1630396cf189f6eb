// Whether the tests are compiled with a sanitizer, for those whose limits depend on it.
#pragma once

namespace quire::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUIRE_ADDRESS_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define QUIRE_ADDRESS_SANITIZER
#endif

#if defined(QUIRE_ADDRESS_SANITIZER)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

}  // namespace quire::test
