#include "loader/dataset/stores/s3/internal/listing_page.h"

#include <charconv>
#include <cstdint>

#include "base/utf8.h"
#include "loader/dataset/stores/s3/internal/percent_encoding.h"
#include "loader/dataset/stores/s3/internal/time_text.h"
#include "loader/dataset/stores/s3/internal/xml.h"

namespace isocost {
namespace {

Error no_listing(const std::string& why) { return {ErrorCode::kCorrupt, "is no listing: " + why}; }

Result<std::int64_t> size_of(std::string_view text) {
  std::int64_t bytes = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size() || bytes < 0) {
    return no_listing("a size is '" + printable_utf8(text.substr(0, 40)) + "'");
  }
  return bytes;
}

// Some stores leave out the quotation marks, which belong to it in a header.
std::string quoted_etag(std::string_view etag) {
  if (etag.empty() || etag.starts_with('"') || etag.starts_with("W/")) return std::string(etag);
  return "\"" + std::string(etag) + "\"";
}

Result<ListedObject> listed_object(const XmlElement& contents, bool is_encoded) {
  ListedObject object;
  object.key = contents.text_of("Key");
  if (is_encoded) {
    Result<std::string> key = percent_decoded(object.key);
    if (!key) return no_listing("a key " + key.error().message());
    object.key = *std::move(key);
  }
  if (object.key.empty()) return no_listing("an object has no key");
  ISOCOST_ASSIGN(object.stamp.bytes, size_of(contents.text_of("Size")));
  object.stamp.etag = quoted_etag(contents.text_of("ETag"));
  const auto modified = parse_iso8601(contents.text_of("LastModified"));
  object.stamp.modified_s = modified ? modified->time_since_epoch().count() : 0;
  return object;
}

}  // namespace

Result<ListingPage> parse_listing_page(std::string_view xml) {
  Result<XmlElement> root = parse_xml(xml);
  if (!root) return no_listing("it " + root.error().message());
  if (root->name != "ListBucketResult") {
    return no_listing("its root is '" + printable_utf8(root->name.substr(0, 40)) + "'");
  }
  const bool is_encoded = root->text_of("EncodingType") == "url";
  ListingPage page;
  for (const XmlElement& child : root->children) {
    if (child.name != "Contents") continue;
    ISOCOST_ASSIGN(ListedObject object, listed_object(child, is_encoded));
    page.objects.push_back(std::move(object));
  }
  if (root->text_of("IsTruncated") != "true") return page;
  page.next_token = root->text_of("NextContinuationToken");
  if (page.next_token.empty()) {
    return no_listing(
        "it is cut off and names no next page, so that the server does not know "
        "version 2 of listings (ListObjectsV2)");
  }
  return page;
}

}  // namespace isocost
