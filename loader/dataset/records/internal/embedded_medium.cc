#include "loader/dataset/records/internal/embedded_medium.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/base64.h"
#include "base/utf8.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/sniff.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/records/internal/percents.h"

namespace isocost {
namespace {

constexpr std::string_view kData = "data:";

ByteView head_of(std::string_view bytes) {
  constexpr std::size_t kHead = 512;
  bytes = bytes.substr(0, kHead);
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

// Returns the extension that a record's word for a format is: "wav", "audio/x-wav", "image/png".
std::string extension_of_word(std::string_view format) {
  format = format.substr(0, format.find(';'));
  if (const std::size_t slash = format.find('/'); slash != format.npos) {
    format.remove_prefix(slash + 1);
  }
  std::string word = lower_ascii(format);
  if (word.starts_with("x-")) word.erase(0, 2);
  // The type of MP3 in URLs has the name of an extension of videos.
  return word == "mpeg" ? "mp3" : word;
}

Result<EmbeddedMedium> medium_of_bytes(std::string bytes, std::string_view format) {
  if (bytes.empty()) return corrupt("holds zero bytes");
  const std::string word = extension_of_word(format);
  const auto named = modality_from_name(word);
  const bool is_medium = named && *named != Modality::kText;
  if (const auto found = sniff(head_of(bytes))) {
    // A word for another name of the same format, such as "jpeg", is kept.
    std::string extension(is_medium && format_from_extension(word) == found ? std::string_view(word)
                                                                            : extension_of(*found));
    return EmbeddedMedium{std::move(bytes), std::move(extension)};
  }
  if (is_medium) return EmbeddedMedium{std::move(bytes), word};
  const auto why = format_by_content(head_of(bytes), std::nullopt, "");
  return corrupt("holds bytes of no medium that is read: it " +
                 why.error().message().substr(0, why.error().message().find(':')));
}

}  // namespace

Result<std::optional<EmbeddedMedium>> medium_of_url(std::string_view text) {
  if (!starts_with_ignoring_case(text, kData)) return std::optional<EmbeddedMedium>();
  text.remove_prefix(kData.size());
  const std::size_t comma = text.find(',');
  if (comma == text.npos) return corrupt("is a data: URL without a comma before its data");
  const std::string_view type = text.substr(0, comma);
  std::string data(text.substr(comma + 1));
  // Base64 has no '%' but in a URL that escapes its '+', '/' or '='.
  if (data.find('%') != data.npos) data = decode_percents(data);
  if (lower_ascii(type).find(";base64") == type.npos) {
    ISOCOST_ASSIGN(EmbeddedMedium medium, medium_of_bytes(std::move(data), type));
    return std::optional(std::move(medium));
  }
  ISOCOST_ASSIGN(EmbeddedMedium medium, medium_of_base64(data, type));
  return std::optional(std::move(medium));
}

Result<EmbeddedMedium> medium_of_base64(std::string_view text, std::string_view format) {
  ISOCOST_ASSIGN(std::string bytes, decode_base64(text));
  return medium_of_bytes(std::move(bytes), format);
}

std::optional<EmbeddedMedium> medium_if_base64(std::string_view text) {
  auto bytes = decode_base64(text);
  if (!bytes || !sniff(head_of(*bytes))) return std::nullopt;
  auto medium = medium_of_bytes(*std::move(bytes), "");
  return medium ? std::optional(*std::move(medium)) : std::nullopt;
}

}  // namespace isocost
