// For any bytes, parsing them as a listing and as an error ends, and gives objects that can be. A
// listing that has the bytes as a key in percent-encoding gives them back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "loader/dataset/stores/s3/internal/error_document.h"
#include "loader/dataset/stores/s3/internal/listing_page.h"
#include "loader/dataset/stores/s3/internal/percent_encoding.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto page = isocost::parse_listing_page(bytes);
  if (page) {
    // An object takes at least this much of a page.
    if (page->objects.size() > size / std::string_view("<Contents>").size()) std::abort();
    for (const isocost::ListedObject& object : page->objects) {
      if (object.key.empty() || object.stamp.bytes < 0) std::abort();
    }
  } else if (page.error().code() != isocost::ErrorCode::kCorrupt) {
    std::abort();
  }
  const auto error = isocost::parse_error_document(bytes);
  if (error && (error->code.empty() || error->message.size() > 1500)) std::abort();
  if (size == 0 || size > (std::size_t{1} << 20)) return 0;
  const auto listed = isocost::parse_listing_page(
      "<ListBucketResult><EncodingType>url</EncodingType><Contents><Size>1</Size><Key>" +
      isocost::percent_encoded(bytes) + "</Key></Contents></ListBucketResult>");
  if (!listed || listed->objects.size() != 1 || listed->objects[0].key != bytes) std::abort();
  return 0;
}
