#include "loader/correction_file.h"

#include <unistd.h>

#include <fstream>
#include <ios>
#include <string>
#include <system_error>
#include <utility>

namespace isocost {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

}  // namespace

Status restore_correction(OnlineModel& model, const std::filesystem::path& file,
                          const LogSink& sink) {
  std::error_code failure;
  if (file.empty() || !std::filesystem::exists(file, failure)) return {};
  std::ifstream stream(file, std::ios::binary);
  std::string state(kMaxBytes + 1, '\0');
  stream.read(state.data(), static_cast<std::streamsize>(state.size()));
  if (!stream.is_open() || stream.bad() || !std::filesystem::is_regular_file(file, failure)) {
    return Error(ErrorCode::kIo, "correction_file " + file.string() + " cannot be read");
  }
  state.resize(static_cast<std::size_t>(stream.gcount()));
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
  const std::filesystem::path scratch = file.string() + "." + std::to_string(getpid()) + ".tmp";
  std::ofstream stream(scratch, std::ios::binary | std::ios::trunc);
  stream << model.save_state() << std::flush;
  std::error_code failure;
  if (stream) std::filesystem::rename(scratch, file, failure);
  if (stream && !failure) return {};
  std::filesystem::remove(scratch, failure);
  return Error(ErrorCode::kIo, "cannot write correction_file " + file.string());
}

}  // namespace isocost
