#include "loader/dataset/names/internal/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace isocost {
namespace {

struct Scheme {
  std::string_view begin;  // in lower case
  std::string_view of;
  std::string_view remedy;
};

constexpr std::array kSchemes = {
    Scheme{"hf://", "an address of Hugging Face",
           "name its shards by https://huggingface.co/datasets/NAME/resolve/main/..., or download "
           "it, as with 'hf download --repo-type dataset NAME --local-dir DIR', and give DIR"},
    Scheme{"gs://", "an address of Google Cloud Storage",
           "give s3://BUCKET/..., with AWS_ENDPOINT_URL=https://storage.googleapis.com and HMAC "
           "keys of the bucket as the keys of AWS"},
    Scheme{"oci://", "an address of Oracle Cloud",
           "give s3://BUCKET/..., with the endpoint of its S3 compatibility API as "
           "AWS_ENDPOINT_URL"},
    Scheme{"az://", "an address of Azure Blob Storage",
           "name its shards by https:// addresses, with a shared access signature as their query, "
           "or copy it to a disk, as with 'azcopy copy --recursive'"},
    Scheme{"s3a://", "an address of S3 as Hadoop writes it", "write s3:// in its place"},
    Scheme{"s3n://", "an address of S3 as Hadoop writes it", "write s3:// in its place"},
};

}  // namespace

std::optional<std::string> why_no_address(std::string_view text) {
  if (starts_with_ignoring_case(text, "pipe:")) {
    return "a command of WebDataset, which is not run; copy what it prints to a disk, and give the "
           "files";
  }
  const auto* const found = std::ranges::find_if(kSchemes, [text](const Scheme& scheme) {
    return starts_with_ignoring_case(text, scheme.begin);
  });
  if (found != kSchemes.end()) {
    return fmt::format("{}, which is not read here; {}", found->of, found->remedy);
  }
  if (text.find("://") == std::string_view::npos) return std::nullopt;
  return "an address of a kind that is not read; give one of https:// or s3://, or copy it to a "
         "disk";
}

}  // namespace isocost
