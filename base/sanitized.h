#pragma once

// ISOCOST_SANITIZED is defined under AddressSanitizer and ThreadSanitizer, which need memory of
// their own and end the process where there is none.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ISOCOST_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ISOCOST_SANITIZED
#endif
