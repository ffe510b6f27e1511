#include "tests/support/tar_files.h"

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace isocost {
namespace {

void append_big_endian(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

void append_little_endian(std::string& out, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void append_chunk(std::string& png, const std::string& type_and_data) {
  append_big_endian(png, static_cast<std::uint32_t>(type_and_data.size() - 4));
  png += type_and_data;
  append_big_endian(
      png, static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(type_and_data.data()),
                                            static_cast<uInt>(type_and_data.size()))));
}

std::string deflate_all(std::string_view bytes, int window_bits) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::string packed(deflateBound(&stream, bytes.size()) + 64, '\0');
  std::string input(bytes);
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int code = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw std::runtime_error("deflate");
  return packed;
}

void set_kind(archive_entry* entry, const TarFile& file) {
  archive_entry_set_filetype(entry, file.type == 'd'   ? AE_IFDIR
                                    : file.type == 's' ? AE_IFLNK
                                                       : AE_IFREG);
  if (file.type == 's') archive_entry_set_symlink(entry, file.bytes.c_str());
  if (file.type == 'h') archive_entry_set_hardlink(entry, file.bytes.c_str());
  if (file.type == 'p')
    archive_entry_sparse_add_entry(entry, 4096, static_cast<la_int64_t>(file.bytes.size()) - 4096);
}

}  // namespace

std::string make_tar(const std::vector<TarFile>& files, std::string_view format) {
  std::size_t room = 1 << 20;
  for (const TarFile& file : files) room += file.bytes.size() + file.name.size() * 4 + 8192;
  std::string tar(room, '\0');
  std::size_t used = 0;
  archive* writer = archive_write_new();
  archive_write_set_format_by_name(writer, std::string(format).c_str());
  archive_write_set_options(writer, "hdrcharset=BINARY");
  archive_write_set_bytes_per_block(writer, 0);
  if (archive_write_open_memory(writer, tar.data(), tar.size(), &used) != ARCHIVE_OK) {
    throw std::runtime_error("archive_write_open_memory");
  }
  for (const TarFile& file : files) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, file.name.c_str());
    archive_entry_set_perm(entry, 0644);
    const bool has_body = file.type == 'f' || file.type == 'p';
    archive_entry_set_size(entry, has_body ? static_cast<la_int64_t>(file.bytes.size()) : 0);
    set_kind(entry, file);
    if (archive_write_header(writer, entry) < ARCHIVE_WARN) {
      throw std::runtime_error(archive_error_string(writer));
    }
    if (has_body) archive_write_data(writer, file.bytes.data(), file.bytes.size());
    archive_entry_free(entry);
  }
  archive_write_close(writer);
  archive_write_free(writer);
  tar.resize(used);
  return tar;
}

std::string zstd(std::string_view bytes) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress2(context, packed.data(), packed.size(), bytes.data(), bytes.size());
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(size) != 0) throw std::runtime_error("ZSTD_compress2");
  packed.resize(size);
  return packed;
}

std::string gzip(std::string_view bytes) { return deflate_all(bytes, 15 + 16); }

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string tiny_png(std::uint32_t width, std::uint32_t height) {
  std::string png = "\x89PNG\r\n\x1a\n";
  std::string header = "IHDR";
  append_big_endian(header, width);
  append_big_endian(header, height);
  header += std::string("\x08\x00\x00\x00\x00", 5);  // 8-bit grey
  append_chunk(png, header);
  append_chunk(png, "IDAT" + deflate_all(std::string((std::size_t{width} + 1) * height, '\0'), 15));
  append_chunk(png, "IEND");
  return png;
}

std::string tiny_wav(std::uint32_t samples) {
  std::string wav = "RIFF";
  append_little_endian(wav, 36 + samples * 2, 4);
  wav += "WAVEfmt ";
  append_little_endian(wav, 16, 4);
  append_little_endian(wav, 1, 2);
  append_little_endian(wav, 1, 2);
  append_little_endian(wav, 16000, 4);
  append_little_endian(wav, 32000, 4);
  append_little_endian(wav, 2, 2);
  append_little_endian(wav, 16, 2);
  wav += "data";
  append_little_endian(wav, samples * 2, 4);
  wav.append(std::size_t{samples} * 2, '\0');
  return wav;
}

}  // namespace isocost
