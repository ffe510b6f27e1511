#include "loader/dataset/stores/s3/internal/error_document.h"

#include <cstddef>

#include "base/utf8.h"
#include "loader/dataset/stores/s3/internal/xml.h"

namespace isocost {
namespace {

constexpr std::size_t kMostOfName = 64;
constexpr std::size_t kMostOfMessage = 400;

std::string shown(std::string_view text, std::size_t most) {
  std::string cut = printable_utf8(text.substr(0, most));
  return text.size() > most ? cut + "..." : cut;
}

}  // namespace

std::optional<ErrorDocument> parse_error_document(std::string_view body) {
  const Result<XmlElement> root = parse_xml(body, {.max_bytes = std::size_t{1} << 20});
  if (!root) return std::nullopt;
  const XmlElement* error = &*root;
  if (root->name == "ErrorResponse") error = root->child("Error");  // STS
  if (error == nullptr || error->name != "Error") return std::nullopt;
  ErrorDocument document;
  document.code = shown(error->text_of("Code"), kMostOfName);
  document.message = shown(error->text_of("Message"), kMostOfMessage);
  document.region = shown(error->text_of("Region"), kMostOfName);
  std::string_view request = error->text_of("RequestId");
  if (request.empty()) request = root->text_of("RequestId");
  document.request_id = shown(request, kMostOfName);
  if (document.code.empty()) return std::nullopt;
  return document;
}

}  // namespace isocost
