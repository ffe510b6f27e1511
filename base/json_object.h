#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace isocost {

/// What a JSON document is called in errors, and its bounds.
struct JsonFormat {
  const char* name = "document";  ///< "profile".
  std::size_t max_bytes = std::size_t{1} << 20;
  int max_depth = 8;
};

/// What is wrong in a file that somebody named is theirs to mend: kCorrupt and kUnsupported become
/// kInvalidArgument, and all name the file.
Error error_of_file(Error error, const std::filesystem::path& file);

/// An object of a JSON file from outside, read strictly: a key that is given twice, unknown or
/// missing, a value of another type, a number out of range or not finite is an error kCorrupt that
/// names the format and the key's path ("profile: 'modules.llm.points.3.forward_s' must be ...").
/// Value type: copies share the document. Immutable.
class JsonObject {
 public:
  static Result<JsonObject> parse(std::string_view text, const JsonFormat& format);
  /// A file's. Errors: kNotFound, kIo, and those of `parse` as error_of_file has them.
  static Result<JsonObject> load(const std::filesystem::path& file, const JsonFormat& format);

  /// Errors: kCorrupt where there are other keys.
  Status only_keys(std::span<const std::string_view> known) const;
  Status only_keys(std::initializer_list<std::string_view> known) const {
    return only_keys(std::span(known.begin(), known.size()));
  }
  bool has(std::string_view key) const;

  Result<std::string> text(std::string_view key) const;
  /// Empty where the key is left out.
  Result<std::string> optional_text(std::string_view key) const;
  Result<std::int64_t> whole(std::string_view key, std::int64_t least, std::int64_t most) const;
  /// Finite, not negative.
  Result<double> amount(std::string_view key) const;
  Result<bool> flag(std::string_view key) const;
  Result<JsonObject> object(std::string_view key) const;
  /// An array of integers, at most so many, each from `least` to `greatest`.
  Result<std::vector<std::int64_t>> wholes(std::string_view key, std::size_t most,
                                           std::int64_t least, std::int64_t greatest) const;
  /// An array of at most `most` numbers, each finite and not negative.
  Result<std::vector<double>> amounts(std::string_view key, std::size_t most) const;
  /// An array of at most `most` strings.
  Result<std::vector<std::string>> text_list(std::string_view key, std::size_t most) const;
  /// An array of objects, at most so many.
  Result<std::vector<JsonObject>> objects(std::string_view key, std::size_t most) const;
  /// An object whose values are all strings, in the order of its keys.
  Result<std::vector<std::pair<std::string, std::string>>> texts(std::string_view key) const;

  /// Version `supported` under the key "version". Errors: kUnsupported for another.
  Status check_version(std::int64_t supported) const;

  /// kCorrupt for a key of this object.
  Error wrong(std::string_view key, const std::string& what) const;

 private:
  struct Document;
  JsonObject(std::shared_ptr<const Document> document, const void* object, std::string path)
      : document_(std::move(document)), object_(object), path_(std::move(path)) {}

  std::shared_ptr<const Document> document_;
  const void* object_;  // within document_
  std::string path_;    // "modules.llm."
};

}  // namespace isocost
