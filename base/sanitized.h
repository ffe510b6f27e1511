#pragma once

namespace isocost {

/// Whether AddressSanitizer or ThreadSanitizer watches memory. They need much of their own, end the
/// process where there is none, and watch what malloc hands out.
#if defined(__has_feature)
inline constexpr bool kIsSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace isocost
