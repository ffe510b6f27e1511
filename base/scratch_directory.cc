#include "base/scratch_directory.h"

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace isocost {
namespace {

Error refused(const std::string& parent, const std::error_code& why) {
  return {ErrorCode::kInvalidArgument, "cannot make a temporary directory in '" + parent + "': " +
                                           why.message() + "; name a directory for them in TMPDIR"};
}

}  // namespace

Result<ScratchDirectory> ScratchDirectory::create(std::string_view prefix) {
  std::error_code failure;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(failure);
  if (failure) {
    const char* chosen = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): nothing sets it
    return refused(chosen == nullptr ? "/tmp" : chosen, failure);
  }
  std::string pattern = (parent / prefix).string() + "-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return refused(parent.string(), {errno, std::generic_category()});
  }
  return ScratchDirectory(pattern);
}

ScratchDirectory::ScratchDirectory(std::filesystem::path path) : path_(std::move(path)) {}

ScratchDirectory::ScratchDirectory(ScratchDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

void ScratchDirectory::remove() noexcept {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace isocost
