#include "base/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

namespace isocost {
namespace fs = std::filesystem;
namespace {

std::string reason_of(int code) { return std::generic_category().message(code); }

Error cannot_write(const fs::path& file, const std::string& reason) {
  return {ErrorCode::kIo, "cannot write " + file.string() + ": " + reason};
}

// Returns whether it is something that a file must not replace, such as /dev/stdout.
bool is_device(const fs::path& file) {
  std::error_code failed;
  return fs::exists(file, failed) && fs::is_other(fs::status(file, failed));
}

// Makes a new name durable. Some file systems cannot; the file's content is durable even there.
void sync_folder(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.is_open()) static_cast<void>(::fsync(descriptor.get()));
}

Status write_in_place(const fs::path& file, std::span<const std::byte> bytes) {
  FileDescriptor descriptor(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!descriptor.is_open()) return cannot_write(file, reason_of(errno));
  const Status written = descriptor.write(bytes);
  return written ? Status() : cannot_write(file, written.error().message());
}

}  // namespace

Status check_output_file(std::string_view option, const fs::path& file) {
  if (file.empty()) return {};
  std::error_code failed;
  const bool there = fs::exists(file, failed);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code refused;
  if (fs::is_directory(file, failed)) {
    refused = std::make_error_code(std::errc::is_a_directory);
  } else if (access((there ? file : folder).c_str(), W_OK) != 0) {
    refused = {errno, std::generic_category()};
  }
  if (!refused) return {};
  const bool no_folder = !fs::exists(folder, failed);
  return Error(ErrorCode::kInvalidArgument,
               std::string(option) + ": cannot write " + file.string() + ": " + refused.message() +
                   (no_folder ? "; make the directory " + folder.string() + ", or" : ";") +
                   " name another file");
}

OutputFile::OutputFile(fs::path file, fs::path scratch, FileDescriptor descriptor)
    : file_(std::move(file)), scratch_(std::move(scratch)), descriptor_(std::move(descriptor)) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : file_(std::move(other.file_)),
      scratch_(std::exchange(other.scratch_, {})),
      descriptor_(std::move(other.descriptor_)) {}

OutputFile::~OutputFile() {
  if (!scratch_.empty()) ::unlink(scratch_.c_str());
}

// Creates the scratch file. A name is used once, even by processes of one id on several hosts: if
// it exists, the next is tried. Unlike mkstemp, open() applies the umask.
Result<OutputFile> OutputFile::create(const fs::path& file) {
  static std::atomic<std::uint64_t> files = 0;
  for (;;) {
    const std::string name = "." + file.filename().string() + "." + std::to_string(::getpid()) +
                             "-" + std::to_string(files++) + ".tmp";
    fs::path scratch = file.parent_path() / name;
    FileDescriptor descriptor(
        ::open(scratch.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (descriptor.is_open()) return OutputFile(file, std::move(scratch), std::move(descriptor));
    if (errno != EEXIST) return cannot_write(file, reason_of(errno));
  }
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  const Status written = descriptor_.write(bytes);
  return written ? Status() : cannot_write(file_, written.error().message());
}

Status OutputFile::commit() {
  if (::fsync(descriptor_.get()) != 0 || ::rename(scratch_.c_str(), file_.c_str()) != 0) {
    return cannot_write(file_, reason_of(errno));
  }
  scratch_.clear();
  sync_folder(file_);
  return {};
}

Status replace_file(const fs::path& file, std::span<const std::byte> bytes) {
  if (is_device(file)) return write_in_place(file, bytes);
  ISOCOST_ASSIGN(OutputFile output, OutputFile::create(file));
  ISOCOST_TRY(output.write(bytes));
  return output.commit();
}

Status replace_file(const fs::path& file, std::string_view bytes) {
  return replace_file(file, std::as_bytes(std::span(bytes)));
}

}  // namespace isocost
