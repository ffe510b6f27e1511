#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/result.h"

namespace isocost {

/// A part to write: bytes given in place, or a file.
struct InputPart {
  std::string name;
  std::variant<std::string, std::filesystem::path> body;
};

struct InputSample {
  std::string place;  ///< Its position in the source, for messages: "manifest.jsonl:17".
  std::string key;
  std::vector<InputPart> parts;
};

/// Reads samples in an order that depends on the source alone. Single-thread.
class SampleInput {
 public:
  /// Opens a manifest, or lists a directory. Errors: kNotFound, kIo.
  static Result<std::unique_ptr<SampleInput>> open(const std::filesystem::path& source,
                                                   const LogSink& log);
  virtual ~SampleInput() = default;

  /// Returns the next sample, or nothing at the end. Errors: kCorrupt for a bad manifest line, with
  /// file, line and reason; the next call reads on after it.
  virtual Result<std::optional<InputSample>> next() = 0;

  /// Return the progress of `next` and its end: bytes of the manifest, or samples.
  virtual std::uint64_t done() const = 0;
  virtual std::uint64_t total() const = 0;
};

}  // namespace isocost
