#include "loader/dataset/formats/utf8_locale.h"

namespace isocost {
namespace {

// Returns the locale, which is made once: making one reads files (20 us), longer than reading a
// member's header.
locale_t utf8() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

}  // namespace

// Sets the locale. Without it (in Debian's libc-bin) the thread keeps its own: uselocale(0) changes
// nothing.
Utf8Locale::Utf8Locale() : previous_(uselocale(utf8())) {}

Utf8Locale::~Utf8Locale() { uselocale(previous_); }

}  // namespace isocost
