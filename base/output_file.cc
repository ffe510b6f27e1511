#include "base/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <ios>
#include <string>
#include <system_error>

namespace isocost {
namespace fs = std::filesystem;

Status check_output_file(std::string_view option, const fs::path& file) {
  if (file.empty()) return {};
  std::error_code failed;
  const bool there = fs::exists(file, failed);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code refused;
  if (fs::is_directory(file, failed)) {
    refused = std::make_error_code(std::errc::is_a_directory);
  } else if (access((there ? file : folder).c_str(), W_OK) != 0) {
    refused = {errno, std::generic_category()};
  }
  if (!refused) return {};
  return Error(ErrorCode::kInvalidArgument, std::string(option) + ": cannot write " +
                                                file.string() + ": " + refused.message() +
                                                "; name another file");
}

Status replace_file(const std::filesystem::path& file, std::string_view bytes) {
  const std::filesystem::path scratch = file.string() + "." + std::to_string(getpid()) + ".tmp";
  std::ofstream stream(scratch, std::ios::binary | std::ios::trunc);
  stream << bytes << std::flush;
  std::error_code failure;
  if (stream) std::filesystem::rename(scratch, file, failure);
  if (stream && !failure) return {};
  std::filesystem::remove(scratch, failure);
  return Error(ErrorCode::kIo, "cannot write " + file.string());
}

}  // namespace isocost
