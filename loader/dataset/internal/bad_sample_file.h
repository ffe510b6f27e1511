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
  /// Writes nothing. An empty name passes, and nothing will be written. Errors: kInvalidArgument if
  /// there is a file that is not such a list, or is that of a node that runs, or none can be
  /// written there.
  static Result<BadSampleFile> create(const std::filesystem::path& name);

  /// Removes the list of an earlier run, if no line was appended: this one has none so far.
  void remove_earlier() const;
  /// Appends a line, which the operating system has when this returns; the first one replaces the
  /// list of an earlier run. Errors: kIo; also where another process has made a file of this name
  /// meanwhile.
  Status append(const std::string& line);

 private:
  explicit BadSampleFile(std::filesystem::path name) : name_(std::move(name)) {}

  std::filesystem::path name_;
  FileDescriptor file_;  // closed before the first line; locked from then on
};

}  // namespace isocost
