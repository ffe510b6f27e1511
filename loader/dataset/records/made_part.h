#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/dataset/records/record_range.h"

namespace isocost {

/// Makes a part of a record again, without a look at the files that the record names: the caption,
/// the JSON that was written anew, or the bytes of a medium that the record holds. `number` counts
/// all parts of the record's sample, from 0. Errors: kCorrupt if the record is none of this form,
/// or if its part is a file.
Result<std::string> make_part(std::string record, RecordForm form, std::size_t number);

/// Returns the JSON part that says the class of a sample of files: the name of the directory of its
/// key. Errors: kCorrupt if the key has no directory, or if its name is not UTF-8.
Result<std::string> make_class_part(std::string_view key);

}  // namespace isocost
