#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace isocost {

/// The file that lists a run's bad samples, as JSON lines. Only the list of an earlier run is
/// replaced: any other file, a link or a device is refused. Single-thread.
class BadSampleFile {
 public:
  /// Checks the file and writes nothing. With an empty name nothing will be written. Errors:
  /// kInvalidArgument if a file exists that is not such a list, or is the list of a running node,
  /// or if none can be written there.
  static Result<BadSampleFile> create(const std::filesystem::path& name);

  /// Removes the list of an earlier run, if no line was appended, since this run then has no bad
  /// sample so far.
  void remove_earlier() const;
  /// Appends a line, which has reached the operating system when this returns; the first one
  /// replaces the list of an earlier run. Errors: kIo; also if another process has made a file
  /// of this name meanwhile.
  Status append(const std::string& line);

 private:
  explicit BadSampleFile(std::filesystem::path name) : name_(std::move(name)) {}

  std::filesystem::path name_;
  FileDescriptor file_;  // closed before the first line; locked from then on
};

}  // namespace isocost
