#pragma once

#include <cstddef>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/dataset/names/named_files.h"
#include "loader/dataset/stores/stores.h"

namespace isocost {

/// Finds the objects that an address names: an object, several by braces; in a bucket also those of
/// a pattern, or those directly below a prefix. A prefix alone is the root, with and without a '/'
/// at its end. In addresses of HTTP, encoded characters ("%3F") are neither wildcards nor braces.
/// `given` is the entry for messages, without secrets; `most` is the number of objects that it may
/// name. Blocks while a bucket is listed. Errors: kInvalidArgument (what cannot be listed or read
/// on a server, a part of the path that is empty, "." or ".."), kNotFound (nothing of this name),
/// kResourceExhausted (over `most`), those of Stores::open and ObjectStore::list.
Result<NamedFiles> name_objects(std::string_view address, std::string given, std::size_t most,
                                Stores& stores, const std::stop_token& stop);

}  // namespace isocost
