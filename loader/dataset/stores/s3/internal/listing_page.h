#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/stores/remote/object_store.h"

namespace isocost {

/// A bucket's answer to ListObjectsV2: up to 1,000 objects.
struct ListingPage {
  std::vector<ListedObject> objects;
  std::string next_token;  ///< Asks for the next page; empty: this is the last one.
};

/// Parses a page, with keys in percent-encoding where the page says so. Errors: kCorrupt, as a
/// predicate: "is no listing: ...".
Result<ListingPage> parse_listing_page(std::string_view xml);

}  // namespace isocost
