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

/// Returns an archive written by libarchive; `format` is "ustar", "pax" or "gnutar".
std::string make_tar(const std::vector<TarFile>& files, std::string_view format = "pax");

std::string gzip(std::string_view bytes);
/// Returns a zstd frame with a checksum.
std::string zstd(std::string_view bytes);
void write_file(const std::filesystem::path& path, std::string_view bytes);
std::string read_file(const std::filesystem::path& path);

/// Returns a complete PNG, 8-bit grey, all black.
std::string tiny_png(std::uint32_t width, std::uint32_t height);
/// Returns a silent 16-bit mono WAV.
std::string tiny_wav(std::uint32_t samples);

}  // namespace isocost
