// A file system that answers late: delayed_files DIRECTORY MOUNT_POINT MILLISECONDS shows the files
// of a directory, given by its absolute path, read-only; each of its reads, of at most 128 KiB,
// takes so much longer. Up to 64 reads wait at once, as a network file system would have it. It
// ends when it is unmounted or interrupted, and needs the right to mount (fuse3).

#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

namespace {

struct Delayed {
  std::string directory;
  std::chrono::milliseconds time{};

  std::string path(const char* name) const { return directory + name; }
};

const Delayed& delayed() { return *static_cast<const Delayed*>(fuse_get_context()->private_data); }

// Requests about the directory itself are made once, and not delayed.
void* start(fuse_conn_info* connection, fuse_config* config) {
  connection->max_background = 64;
  config->kernel_cache = 1;
  config->attr_timeout = config->entry_timeout = 3600;
  return fuse_get_context()->private_data;
}

int describe(const char* name, struct stat* status, fuse_file_info* /*file*/) {
  return lstat(delayed().path(name).c_str(), status) == 0 ? 0 : -errno;
}

int list(const char* name, void* entries, fuse_fill_dir_t add, off_t /*from*/,
         fuse_file_info* /*file*/, fuse_readdir_flags /*flags*/) {
  DIR* const directory = opendir(delayed().path(name).c_str());
  if (directory == nullptr) return -errno;
  while (const dirent* entry = readdir(directory)) {
    add(entries, entry->d_name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
  }
  closedir(directory);
  return 0;
}

int open_file(const char* name, fuse_file_info* file) {
  const int descriptor = open(delayed().path(name).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return -errno;
  file->fh = static_cast<std::uint64_t>(descriptor);
  return 0;
}

int read_file(const char* /*name*/, char* bytes, std::size_t count, off_t from,
              fuse_file_info* file) {
  std::this_thread::sleep_for(delayed().time);
  const ssize_t read = pread(static_cast<int>(file->fh), bytes, count, from);
  return read < 0 ? -errno : static_cast<int>(read);
}

int close_file(const char* /*name*/, fuse_file_info* file) {
  close(static_cast<int>(file->fh));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Delayed delayed;
  int milliseconds = -1;
  if (argc == 4) {
    const std::string_view text = argv[3];
    std::from_chars(text.data(), text.data() + text.size(), milliseconds);
    delayed.directory = argv[1];
    delayed.time = std::chrono::milliseconds(milliseconds);
  }
  if (milliseconds < 0) {
    std::fputs("usage: delayed_files DIRECTORY MOUNT_POINT MILLISECONDS\n", stderr);
    return 2;
  }
  fuse_operations operations{};
  operations.init = [](fuse_conn_info* connection, fuse_config* config) {
    return start(connection, config);
  };
  operations.getattr = describe;
  operations.readdir = list;
  operations.open = open_file;
  operations.read = read_file;
  operations.release = close_file;
  std::string foreground = "-f";
  std::string option = "-o";
  std::string threads = "ro,max_threads=64,max_idle_threads=64";
  std::array<char*, 5> arguments = {argv[0], argv[2], foreground.data(), option.data(),
                                    threads.data()};
  return fuse_main(static_cast<int>(arguments.size()), arguments.data(), &operations, &delayed);
}
