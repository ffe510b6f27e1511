#include "decode/isolation/internal/worker_environment.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace isocost {
namespace {

constexpr std::array<std::string_view, 27> kNames = {
    // The places of the program, its libraries and temporary files.
    "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "TMPDIR", "LIBHEIF_PLUGIN_PATH",
    // Texts and time.
    "LANG", "LC_ALL", "LC_CTYPE", "LOCPATH", "LOCALE_ARCHIVE", "TZ", "TZDIR",
    // Allocators.
    "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_CONF",
    // Sanitizers.
    "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "ASAN_SYMBOLIZER_PATH",
    "TSAN_SYMBOLIZER_PATH", "LLVM_SYMBOLIZER_PATH", "LLVM_PROFILE_FILE", "GCOV_PREFIX"};

}  // namespace

std::vector<std::string> worker_environment(const char* const* variables) {
  std::vector<std::string> kept;
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view variable = *variables;
    if (std::ranges::find(kNames, variable.substr(0, variable.find('='))) == kNames.end()) continue;
    kept.emplace_back(variable);
  }
  return kept;
}

}  // namespace isocost
