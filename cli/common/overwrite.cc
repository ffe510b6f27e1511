#include "cli/common/overwrite.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <system_error>

#include "base/output_file.h"

namespace isocost::cli {
namespace {

bool on_terminal() { return isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0; }

bool user_agrees(const std::string& question) {
  std::fprintf(stderr, "%s [y/N] ", question.c_str());
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

Status check_new_file(std::string_view option, const std::filesystem::path& file, bool force) {
  ISOCOST_TRY(check_output_file(option, file));
  std::error_code failed;
  if (force || file.empty() || !std::filesystem::is_regular_file(file, failed)) return {};
  const std::string exists = file.string() + " exists";
  if (!on_terminal()) {
    return Error(ErrorCode::kAlreadyExists, exists +
                                                ": --force replaces it, or name another file "
                                                "with " +
                                                std::string(option));
  }
  if (user_agrees(exists + ": overwrite it?")) return {};
  return Error(ErrorCode::kAlreadyExists,
               file.string() + " is kept; name another file with " + std::string(option));
}

}  // namespace isocost::cli
