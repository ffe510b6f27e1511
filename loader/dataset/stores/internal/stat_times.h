#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "loader/dataset/stores/file_stamp.h"

namespace isocost {

inline std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

inline FileStamp stamp_from(const struct stat& status) {
  return {status.st_size, nanoseconds(status.st_mtim)};
}

}  // namespace isocost
