#include "loader/internal/utf8_locale.h"

#include <clocale>

namespace isocost {

Utf8Locale::Utf8Locale() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
  if (locale_ != nullptr) previous_ = uselocale(locale_);
}

Utf8Locale::~Utf8Locale() {
  if (locale_ == nullptr) return;
  uselocale(previous_);
  freelocale(locale_);
}

}  // namespace isocost
