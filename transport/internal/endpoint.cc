#include "transport/internal/endpoint.h"

namespace isocost {

Result<bool> is_local_endpoint(std::string_view endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  if (endpoint.starts_with("ipc://") && endpoint.size() > 6) return true;
  const auto colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kTcp) || colon <= kTcp.size() || colon + 1 == endpoint.size()) {
    return Error(ErrorCode::kInvalidArgument, "'" + std::string(endpoint) +
                                                  "' is no endpoint: write tcp://HOST:PORT (port * "
                                                  "picks a free one) or ipc://PATH");
  }
  const std::string_view host = endpoint.substr(kTcp.size(), colon - kTcp.size());
  return host == "localhost" || host == "[::1]" || host == "lo" || host.starts_with("127.");
}

}  // namespace isocost
