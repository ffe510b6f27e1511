#include "loader/dataset/stores/s3/s3_address.h"

#include <cstddef>

#include "base/utf8.h"

namespace isocost {
namespace {

constexpr std::string_view kScheme = "s3://";

}  // namespace

bool is_s3_address(std::string_view text) { return starts_with_ignoring_case(text, kScheme); }

Result<S3Address> parse_s3_address(std::string_view text) {
  const std::string shown = "'" + printable_utf8(text.substr(0, 200)) + "'";
  if (!is_s3_address(text)) {
    return Error(ErrorCode::kInvalidArgument, shown + " is no address such as s3://bucket/key");
  }
  text.remove_prefix(kScheme.size());
  const std::size_t slash = text.find('/');
  S3Address address{.bucket = std::string(text.substr(0, slash)), .key = {}};
  if (slash != text.npos) address.key = text.substr(slash + 1);
  if (address.bucket.empty()) {
    return Error(ErrorCode::kInvalidArgument, shown + " names no bucket: write s3://BUCKET/KEY");
  }
  if (address.bucket.starts_with("arn:")) {
    return Error(ErrorCode::kInvalidArgument,
                 shown +
                     " names an ARN, which Isocost does not read: write the access point's "
                     "alias (...-s3alias) in place of the bucket");
  }
  return address;
}

}  // namespace isocost
