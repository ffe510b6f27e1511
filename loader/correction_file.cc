#include "loader/correction_file.h"

#include <string>
#include <system_error>
#include <utility>

#include "base/read_file.h"
#include "loader/internal/output_file.h"

namespace isocost {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

}  // namespace

Status restore_correction(OnlineModel& model, const std::filesystem::path& file,
                          const LogSink& sink) {
  std::error_code failure;
  if (file.empty() || !std::filesystem::exists(file, failure)) return {};
  ISOCOST_ASSIGN(const std::string state, read_file("correction_file", file, kMaxBytes));
  Status restored = model.restore_state(state);
  if (restored) return {};
  if (restored.error().code() == ErrorCode::kInvalidArgument) {
    log(sink, LogLevel::kWarning,
        "correction_file " + file.string() + " belongs to another profile; learning starts anew");
    return {};
  }
  return std::move(restored).error().with_context("correction_file " + file.string() +
                                                  " (remove it to start anew)");
}

Status save_correction(OnlineModel& model, const std::filesystem::path& file) {
  if (file.empty()) return {};
  return replace_file(file, model.save_state());
}

}  // namespace isocost
