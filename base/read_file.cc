#include "base/read_file.h"

#include <algorithm>
#include <fstream>
#include <ios>
#include <system_error>

namespace isocost {

Result<std::string> read_file(std::string_view what, const std::filesystem::path& file,
                              std::size_t max_bytes) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  const std::string named = std::string(what) + " " + file.string();
  std::error_code failure;
  if (!std::filesystem::exists(file, failure)) {
    return Error(ErrorCode::kNotFound, named + " does not exist");
  }
  if (std::filesystem::is_directory(file, failure)) {
    return Error(ErrorCode::kInvalidArgument, named + " is a directory");
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  while (stream && text.size() <= max_bytes) {
    const std::size_t before = text.size();
    text.resize(before + std::min(kPiece, max_bytes + 1 - before));
    stream.read(text.data() + before, static_cast<std::streamsize>(text.size() - before));
    text.resize(before + static_cast<std::size_t>(stream.gcount()));
  }
  if (!stream.is_open() || stream.bad()) return Error(ErrorCode::kIo, named + " cannot be read");
  if (text.size() <= max_bytes) return text;
  return Error(ErrorCode::kResourceExhausted,
               named + " is larger than " + std::to_string(max_bytes >> 10) + " KiB");
}

}  // namespace isocost
