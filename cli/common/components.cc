#include "cli/common/components.h"

#include <archive.h>
#include <curl/curl.h>
#include <expat.h>
#include <fmt/format.h>
#include <libdeflate.h>
#include <microhttpd.h>
#include <openssl/crypto.h>
#include <seccomp.h>
#include <sndfile.h>
#include <spng.h>
#include <tiffio.h>
#include <utf8proc.h>
#include <webp/decode.h>
#include <zlib.h>
#include <zmq.h>
#include <zstd.h>

#include <cstdio>  // jpeglib.h names FILE
#include <string>
#include <string_view>

#include <jpeglib.h>  // after cstdio
extern "C" {
#include <libavutil/avutil.h>
}
#if ISOCOST_WITH_HEIF
#include <libde265/de265.h>
#include <libheif/heif.h>
#endif
#if ISOCOST_WITH_AVIF
#include <avif/avif.h>
#endif
#if ISOCOST_WITH_GLPK
#include <glpk.h>
#endif
#if ISOCOST_WITH_TBB
#include <oneapi/tbb/version.h>
#endif

namespace isocost::cli {
namespace {

std::string zmq_text() {
  int major = 0;
  int minor = 0;
  int patch = 0;
  zmq_version(&major, &minor, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

std::string webp_text() {
  const int version = WebPGetDecoderVersion();
  return fmt::format("{}.{}.{}", version >> 16, (version >> 8) & 0xff, version & 0xff);
}

std::string jpeg_text() {
  constexpr int kVersion = LIBJPEG_TURBO_VERSION_NUMBER;  // 2001005 is 2.1.5
  return fmt::format("{}.{}.{}", kVersion / 1'000'000, kVersion / 1'000 % 1'000, kVersion % 1'000);
}

std::string expat_text() {
  const XML_Expat_Version version = XML_ExpatVersionInfo();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.micro);
}

std::string seccomp_text() {
  const scmp_version& version = *seccomp_version();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.micro);
}

// Returns the version in a line such as "LIBTIFF, Version 4.5.0\nCopyright ...".
std::string tiff_text() {
  const std::string_view line = TIFFGetVersion();
  const auto begin = line.find_last_of(' ', line.find('\n')) + 1;
  return std::string(line.substr(begin, line.find('\n') - begin));
}

// Returns the last word of `text`.
std::string last_word(std::string_view text) {
  return std::string(text.substr(text.find_last_of(" -") + 1));
}

}  // namespace

std::string components() {
  std::string lines;
  const auto add = [&lines](const char* name, const std::string& version) {
    lines += fmt::format("{:16} {}\n", name, version);
  };
  add("curl", curl_version_info(CURLVERSION_NOW)->version);
  add("expat", expat_text());
  add("FFmpeg", av_version_info());
#if ISOCOST_WITH_GLPK
  add("GLPK", glp_version());
#endif
  add("libarchive", last_word(archive_version_string()));
#if ISOCOST_WITH_AVIF
  add("libavif", avifVersion());
#endif
#if ISOCOST_WITH_HEIF
  add("libde265", de265_get_version());
#endif
  add("libdeflate", LIBDEFLATE_VERSION_STRING);
#if ISOCOST_WITH_HEIF
  add("libheif", heif_get_version());
#endif
  add("libjpeg-turbo", jpeg_text());
  add("libmicrohttpd", MHD_get_version());
  add("libseccomp", seccomp_text());
  add("libsndfile", last_word(sf_version_string()));
  add("libspng", spng_version_string());
  add("libtiff", tiff_text());
  add("libwebp", webp_text());
#if ISOCOST_WITH_TBB
  add("oneTBB", TBB_runtime_version());
#endif
  add("OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING));
  add("utf8proc", utf8proc_version());
  add("ZeroMQ", zmq_text());
  add("zlib", zlibVersion());
  add("zstd", ZSTD_versionString());
  lines.pop_back();
  return lines;
}

}  // namespace isocost::cli
