#pragma once

#include <locale.h>

namespace isocost {

/// Sets the calling thread's locale to UTF-8 while it lives. libarchive converts names to and from
/// the thread's locale; without this, a program that never called setlocale would lose characters
/// outside ASCII, or crash on them when writing. Costs a store; the first one reads the locale's
/// file.
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
