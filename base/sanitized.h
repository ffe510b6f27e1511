#pragma once

namespace isocost {

/// Tells whether AddressSanitizer or ThreadSanitizer watches memory. They need much memory of their
/// own, end the process if there is none, and watch malloc's blocks.
#if defined(__has_feature)
inline constexpr bool kIsSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace isocost
