#pragma once

#include <cstddef>
#include <fstream>
#include <ios>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace isocost::test {

inline std::vector<std::byte> file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Returns the bytes of a file in golden_videos.
inline std::vector<std::byte> golden_video(const std::string& name) {
  return file_bytes(ISOCOST_SOURCE_DIR "/tests/decode/video/golden_videos/" + name);
}

}  // namespace isocost::test
