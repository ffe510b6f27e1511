#pragma once

#include <locale.h>

namespace isocost {

/// While it lives, the calling thread's characters are UTF-8: libarchive converts names to and from
/// the thread's locale, and a program that never called setlocale would lose (or, writing, crash
/// on) what is not ASCII. Costs a store, the first one a read of the locale's file.
class Utf8Locale {
 public:
  Utf8Locale();
  ~Utf8Locale();
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  locale_t previous_;
};

}  // namespace isocost
