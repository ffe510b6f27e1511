#include "loader/dataset/records/record_shards.h"

#include <optional>
#include <utility>

#include "loader/dataset/records/internal/json_records.h"
#include "loader/dataset/records/internal/record_forms.h"

namespace isocost {

Result<std::vector<RecordRange>> divide_records(const std::filesystem::path& path,
                                                std::shared_ptr<const ByteSource> bytes,
                                                std::uint64_t records_per_range,
                                                const ProgressSink& progress,
                                                const std::stop_token& stop) {
  const std::int64_t size = bytes->size();
  ISOCOST_ASSIGN(const auto records, JsonRecords::open(path, std::move(bytes)));
  std::vector<RecordRange> ranges;
  RecordForm form = RecordForm::kUnknown;
  for (std::uint64_t count = 0;; ++count) {
    if (stop.stop_requested()) {
      return Error(ErrorCode::kCancelled, "stopped while reading " + path.string());
    }
    RecordRange next = records->rest();
    next.form = form;
    const auto record = records->next();
    if (!record && record.error().code() != ErrorCode::kCorrupt) return record.error();
    if (record && !record->has_value()) break;
    if (ranges.empty()) {
      next = {.end = size, .is_array = next.is_array};  // with a mark of the byte order
      ranges.push_back(next);
    } else if (count % records_per_range == 0 && !records->is_behind_array()) {
      ranges.back().end = next.begin;
      ranges.back().is_last = false;
      next.end = size;
      ranges.push_back(next);
      if (progress) {
        progress(static_cast<std::uint64_t>(next.begin), static_cast<std::uint64_t>(size),
                 "finding records");
      }
    }
    if (form != RecordForm::kUnknown || !record) continue;
    if (const auto& json = *record; json.has_value()) form = RecordForms::form_of(*json);
  }
  return ranges;
}

}  // namespace isocost
