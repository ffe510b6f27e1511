#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace isocost {

struct TarFile {
  std::string name;
  std::string bytes;
  char type = 'f';  ///< 'f' file, 'd' directory, 's' symbolic link, 'h' hard link, 'p' sparse file.
};

/// Writes an archive through libarchive: `format` is "ustar", "pax" or "gnutar".
std::string make_tar(const std::vector<TarFile>& files, std::string_view format = "pax");

std::string gzip(std::string_view bytes);
void write_file(const std::filesystem::path& path, std::string_view bytes);
std::string read_file(const std::filesystem::path& path);

/// A whole PNG, 8-bit grey, black.
std::string tiny_png(std::uint32_t width, std::uint32_t height);
/// 16-bit mono WAV of silence.
std::string tiny_wav(std::uint32_t samples);

}  // namespace isocost
