#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace isocost {

/// The file that lists a run's bad samples, as JSON lines. Only a list of an earlier run is
/// replaced: a file of anything else, a link or a device is refused. Single-thread.
class BadSampleFile {
 public:
  /// Removes the list of an earlier run; the file is made with the first line. An empty name
  /// passes, and nothing is written. Errors: kInvalidArgument if there is a file that is not such a
  /// list, or none can be written there.
  static Result<BadSampleFile> create(const std::filesystem::path& name);

  /// Appends a line, which the operating system has when this returns. Errors: kIo; also where
  /// another process has made a file of this name meanwhile.
  Status append(const std::string& line);

 private:
  explicit BadSampleFile(std::filesystem::path name) : name_(std::move(name)) {}

  std::filesystem::path name_;
  FileDescriptor file_;  // closed before the first line
};

}  // namespace isocost
