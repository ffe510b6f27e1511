#include "cli/common/exit_status.h"

#include "cli/common/signal_stop.h"

namespace isocost::cli {

int exit_status(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kAlreadyExists:
      return kUsageError;
    case ErrorCode::kCancelled:
      return first_stop_signal() > 0 ? 128 + first_stop_signal() : kFailed;
    default:
      return kFailed;
  }
}

Error as_usage_error(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kCorrupt:
    case ErrorCode::kUnsupported:
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kIo:
      return {ErrorCode::kInvalidArgument, error.message(), error.where()};
    default:
      return error;
  }
}

}  // namespace isocost::cli
