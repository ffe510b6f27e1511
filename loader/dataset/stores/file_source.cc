#include "loader/dataset/stores/file_source.h"

#include <utility>

namespace isocost {

Result<std::unique_ptr<FileSource>> FileSource::open(const std::filesystem::path& path) {
  std::unique_ptr<FileSource> source(new FileSource());
  source->name_ = path.string();
  ISOCOST_ASSIGN(source->opened_, open_regular_file(path));
  return source;
}

Result<std::size_t> FileSource::read_at(std::int64_t offset,
                                        std::span<std::byte> destination) const {
  auto read = opened_.file.read_at(offset, destination);
  if (!read) return std::move(read).error().with_context(name_);
  return read;
}

}  // namespace isocost
