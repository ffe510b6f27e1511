#include "loader/dataset/stores/object_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/utf8.h"

namespace isocost {
namespace {

constexpr std::array<std::string_view, 3> kSchemes = {"s3", "http", "https"};
constexpr std::string_view kBetween = "://";

std::optional<std::string> scheme_of(std::string_view text) {
  const std::size_t end = text.find(kBetween);
  if (end == std::string_view::npos) return std::nullopt;
  std::string scheme = lower_ascii(text.substr(0, end));
  if (std::ranges::find(kSchemes, scheme) == kSchemes.end()) return std::nullopt;
  return scheme;
}

Error invalid(const std::string& name, std::string_view problem) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", printable_utf8(name), problem)};
}

}  // namespace

bool has_port_that_is_none(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || host.find(']', colon) != std::string_view::npos) {
    return false;
  }
  return host.find_first_not_of("0123456789", colon + 1) != std::string_view::npos;
}

bool ObjectAddress::is_one(std::string_view text) { return scheme_of(text).has_value(); }

Result<ObjectAddress> ObjectAddress::parse(std::string_view text) {
  const std::optional<std::string> scheme = scheme_of(text);
  if (!scheme) return Error(ErrorCode::kInvalidArgument, "no address of s3, http or https");
  ObjectAddress address{.scheme = *scheme, .host = "", .path = ""};
  std::string_view rest = text.substr(scheme->size() + kBetween.size());
  if (!address.is_s3()) {
    const std::size_t query = rest.find('?');
    if (query != std::string_view::npos) address.query = rest.substr(query + 1);
    rest = rest.substr(0, query);
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view host = rest.substr(0, slash);
  address.path = rest.substr(std::min(slash + 1, rest.size()));
  const std::size_t at = host.rfind('@');
  if (at != std::string_view::npos) {
    address.user = host.substr(0, at);
    host = host.substr(at + 1);
  }
  address.host = host;
  if (!address.is_s3() && has_port_that_is_none(host)) {
    // It may be the begin of a password, and so it is not shown.
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{}://...: what stands behind the host's ':' is no port; write '%2F', "
                             "'%3F', '%23' for '/', '?' and '#' in a user's name or password",
                             address.scheme));
  }
  const std::string name = address.name();
  if (host.empty()) {
    return invalid(name, address.is_s3() ? "it names no bucket; give s3://BUCKET/KEY"
                                         : "it names no host; give https://HOST/PATH");
  }
  if (address.is_s3() && !address.user.empty()) {
    return invalid(name,
                   "credentials of S3 do not stand in addresses; give them by "
                   "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in ~/.aws/credentials");
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::ranges::any_of(text, is_control)) {
    return invalid(name, "it holds a control character; leave it out");
  }
  if (!address.is_s3() && text.find('#') != std::string_view::npos) {
    return invalid(name,
                   "'#' ends the path of an address, and what follows it would not be asked for; "
                   "write '%23' for a '#' in a name, or leave it out");
  }
  return address;
}

std::string ObjectAddress::name() const { return scheme + "://" + host + "/" + path; }

Result<std::string> decoded_path(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    unsigned value = 0;
    const auto [end, failed] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() < 2 || failed != std::errc() || end != digits.data() + 2 || value == 0 ||
        value == '/') {
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("'%{}' stands for no character of a name here; write a '%' as '%25'",
                               printable_utf8(digits)));
    }
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

}  // namespace isocost
