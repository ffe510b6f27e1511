#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Numeric address and port of a metrics endpoint.
struct MetricsAddress {
  std::string host;        ///< "127.0.0.1", "::1"
  std::uint16_t port = 0;  ///< 0: any free port.
  bool loopback = true;
};

/// Reads "9464" (on 127.0.0.1), "ADDRESS:PORT" or "[IPV6]:PORT". "localhost" is 127.0.0.1; other
/// host names are refused. Errors: kInvalidArgument.
Result<MetricsAddress> parse_metrics_address(std::string_view text);

/// Text of a page at a moment.
struct PageText {
  PageText(std::string says) : text(std::move(says)) {}  // NOLINT(google-explicit-constructor)
  PageText(std::string says, bool is_well) : text(std::move(says)), well(is_well) {}
  std::string text;
  bool well = true;  ///< Whether it is served with status 200; otherwise with 503.
};

/// A page that an endpoint serves.
struct MetricsPage {
  std::string path;                ///< "/metrics"
  std::string type;                ///< "text/plain; charset=utf-8"
  std::function<PageText()> text;  ///< Called for each request; must not throw.
};

/// Serves pages over HTTP to Prometheus, `isocost top` and browsers. A thread of the endpoint's own
/// serves all clients and waits for none of them: it keeps up to 32 connections, closes each after
/// 10 s of silence and refuses requests larger than a few KiB. The destructor stops the endpoint
/// at once, even while clients are connected.
class MetricsEndpoint {
 public:
  /// Starts serving. `pages` holds at least one page; their functions run on the endpoint's thread.
  /// Errors: kAlreadyExists if the port is in use, kInvalidArgument for an address that this host
  /// does not have or a port that needs privileges, kResourceExhausted, kIo.
  static Result<std::unique_ptr<MetricsEndpoint>> create(const MetricsAddress& address,
                                                         std::vector<MetricsPage> pages);
  virtual ~MetricsEndpoint() = default;

  /// Returns the URL of the first page with the actual port: "http://127.0.0.1:9464/metrics".
  virtual const std::string& url() const = 0;
};

}  // namespace isocost
