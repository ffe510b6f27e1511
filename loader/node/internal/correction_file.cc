#include "loader/node/internal/correction_file.h"

#include <string>
#include <system_error>

#include "base/output_file.h"
#include "base/read_file.h"
#include "transport/wire/messages.h"

namespace isocost {
namespace {

// Returns a name that no file has, so that files that were set aside before are kept.
std::filesystem::path free_name(const std::string& wanted) {
  std::error_code failure;
  std::string name = wanted;
  for (int i = 1; std::filesystem::exists(name, failure); ++i) {
    name = wanted + "." + std::to_string(i);
  }
  return name;
}

}  // namespace

Status restore_correction(OnlineModel& model, const std::filesystem::path& file,
                          const LogSink& sink) {
  std::error_code failure;
  if (file.empty() || !std::filesystem::exists(file, failure)) return {};
  ISOCOST_ASSIGN(const std::string state,
                 read_file("correction_file", file, kMaxCostModelStateBytes));
  const Status restored = model.restore_state(state);
  if (restored) return {};
  const std::string name = "correction_file " + file.string();
  if (restored.error().code() == ErrorCode::kInvalidArgument) {
    log(sink, LogLevel::kWarning,
        name + " belongs to another model profile: it is ignored, and correction starts from none");
    return {};
  }
  const std::filesystem::path aside = free_name(file.string() + ".damaged");
  std::filesystem::rename(file, aside, failure);
  log(sink, LogLevel::kWarning,
      name + ": " + restored.error().message() + ": it is " +
          (failure ? std::string("ignored") : "set aside as " + aside.string()) +
          ", and correction starts from none");
  return {};
}

Status save_correction(OnlineModel& model, const std::filesystem::path& file) {
  if (file.empty()) return {};
  const std::string state = model.save_state();
  return state.empty() ? Status() : replace_file(file, state);
}

}  // namespace isocost
