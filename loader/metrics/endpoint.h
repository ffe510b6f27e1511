#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Where metrics are served: a numeric address and a port.
struct MetricsAddress {
  std::string host;        ///< "127.0.0.1", "::1"
  std::uint16_t port = 0;  ///< 0: any free one.
  bool loopback = true;
};

/// Reads "9464" (of 127.0.0.1), "ADDRESS:PORT" or "[IPV6]:PORT"; localhost is 127.0.0.1. Other
/// names are not looked up. Errors: kInvalidArgument.
Result<MetricsAddress> parse_metrics_address(std::string_view text);

/// What is served at a path.
struct MetricsPage {
  std::string path;                   ///< "/metrics"
  std::string type;                   ///< "text/plain; charset=utf-8"
  std::function<std::string()> text;  ///< Called once a request; must not throw.
};

/// Serves pages over HTTP, for Prometheus, `isocost top` and browsers. One thread of its own
/// serves all clients, none of which it waits for: 32 connections at most, each closed after 10 s
/// of silence, requests of a few KiB. The destructor stops it at once, whatever the clients do.
class MetricsEndpoint {
 public:
  /// Pages are written on the endpoint's thread; at least one. Errors: kAlreadyExists where
  /// something else listens there, kInvalidArgument for an address that this host does not have or
  /// may not use, kIo.
  static Result<std::unique_ptr<MetricsEndpoint>> create(const MetricsAddress& address,
                                                         std::vector<MetricsPage> pages);
  virtual ~MetricsEndpoint() = default;

  /// Of the first page: "http://127.0.0.1:9464/metrics", the port filled in.
  virtual const std::string& url() const = 0;
};

}  // namespace isocost
