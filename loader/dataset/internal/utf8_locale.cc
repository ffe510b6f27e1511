#include "loader/dataset/internal/utf8_locale.h"

namespace isocost {
namespace {

// Made once and kept: making one reads files, 20 us, which is more than a member's header takes.
locale_t utf8() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

}  // namespace

// Without the locale (Debian's libc-bin holds it) the thread's own stays: uselocale(0) only asks.
Utf8Locale::Utf8Locale() : previous_(uselocale(utf8())) {}

Utf8Locale::~Utf8Locale() { uselocale(previous_); }

}  // namespace isocost
