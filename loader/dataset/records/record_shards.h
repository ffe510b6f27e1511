#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <vector>

#include "base/byte_source.h"
#include "base/progress.h"
#include "base/result.h"
#include "loader/dataset/records/record_range.h"

namespace isocost {

inline constexpr std::uint64_t kRecordsPerShard = 10'000;

/// Divides a plain file of records into ranges of `records_per_range`, the last of which may have
/// fewer. Bad records count. Returns no range for a file without a record. Reads the file once, one
/// record at a time; `path` is for messages. Blocks. Errors: kIo, kCancelled; kCorrupt for bytes of
/// another format or encoding than JSON in UTF-8.
Result<std::vector<RecordRange>> divide_records(const std::filesystem::path& path,
                                                std::shared_ptr<const ByteSource> bytes,
                                                std::uint64_t records_per_range,
                                                const ProgressSink& progress,
                                                const std::stop_token& stop);

}  // namespace isocost
