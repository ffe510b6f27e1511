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

/// Name of a kind of JSON document, for errors, and its limits.
struct JsonFormat {
  const char* name = "document";  ///< For example "profile".
  std::size_t max_bytes = std::size_t{1} << 20;
  int max_depth = 8;
  const char* remedy = "";  ///< Remedy for another version, for example "measure it again".
};

/// Converts an error in the contents of a file that the user named: kCorrupt and kUnsupported
/// become kInvalidArgument, and the message names the file.
Error error_of_file(const Error& error, const std::filesystem::path& file);

/// Returns a text in UTF-8 as a string of JSON, with its quotation marks. Bytes that are not UTF-8
/// become U+FFFD.
std::string quoted_json(std::string_view text);

/// An object of a JSON document from outside, read strictly. A duplicate, unknown or missing key, a
/// value of another type, and a number out of range or not finite are errors kCorrupt that name the
/// format and the key's path ("profile: 'modules.llm.points.3.forward_s' must be ..."). Value type:
/// copies share the document. Immutable.
class JsonObject {
 public:
  static Result<JsonObject> parse(std::string_view text, const JsonFormat& format);
  /// Parses a file. Errors: kNotFound, kIo, and those of `parse` converted by error_of_file.
  static Result<JsonObject> load(const std::filesystem::path& file, const JsonFormat& format);

  /// Checks that there are no other keys. Errors: kCorrupt.
  Status only_keys(std::span<const std::string_view> known) const;
  Status only_keys(std::initializer_list<std::string_view> known) const {
    return only_keys(std::span(known.begin(), known.size()));
  }
  bool has(std::string_view key) const;

  Result<std::string> text(std::string_view key) const;
  /// Returns a text; "" if there is no such key.
  Result<std::string> optional_text(std::string_view key) const;
  Result<std::int64_t> whole(std::string_view key, std::int64_t least, std::int64_t most) const;
  /// Returns a number that is finite and not negative.
  Result<double> amount(std::string_view key) const;
  Result<bool> flag(std::string_view key) const;
  Result<JsonObject> object(std::string_view key) const;
  /// Returns an array of up to `most` integers, each from `least` to `greatest`.
  Result<std::vector<std::int64_t>> wholes(std::string_view key, std::size_t most,
                                           std::int64_t least, std::int64_t greatest) const;
  /// Returns an array of up to `most` numbers, each finite and not negative.
  Result<std::vector<double>> amounts(std::string_view key, std::size_t most) const;
  /// Returns an array of up to `most` strings.
  Result<std::vector<std::string>> text_list(std::string_view key, std::size_t most) const;
  /// Returns an array of up to `most` objects.
  Result<std::vector<JsonObject>> objects(std::string_view key, std::size_t most) const;
  /// Returns the members of an object whose values are all strings, in the order of its keys.
  Result<std::vector<std::pair<std::string, std::string>>> texts(std::string_view key) const;

  /// Checks that "kind", if there is one, is the format's name, and that "version" is
  /// `supported`. Errors: kUnsupported for another kind or version.
  Status check_version(std::int64_t supported) const;

  /// Returns an error kCorrupt for a key of this object.
  Error wrong(std::string_view key, const std::string& what) const;

 private:
  struct Document;
  JsonObject(std::shared_ptr<const Document> document, const void* object, std::string path)
      : document_(std::move(document)), object_(object), path_(std::move(path)) {}

  Status check_kind() const;

  std::shared_ptr<const Document> document_;
  const void* object_;  // the object within document_
  std::string path_;    // path of the object, such as "modules.llm."
};

}  // namespace isocost
