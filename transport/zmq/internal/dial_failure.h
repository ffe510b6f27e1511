#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace isocost {

/// Tells from the events of a connecting socket's monitor why it reaches no node. `see` is for one
/// thread; the other functions are thread-safe.
class DialFailure {
 public:
  /// Returns the events of zmq_socket_monitor(3) that `see` needs.
  static int events();

  void see(std::uint16_t event);

  /// Returns a sentence with the endpoint that says why the last try failed, and what to do; empty
  /// before the first try has failed, and while the connection is up.
  std::string why_unreached(const std::string& endpoint) const;

 private:
  enum class Outcome : std::uint8_t { kNone, kUnknownHost, kNobodyListens, kNoNode };

  std::atomic<Outcome> last_ = Outcome::kNone;
  bool tried_ = false;     // whether the present try has got as far as an address
  bool answered_ = false;  // whether something has accepted it
};

}  // namespace isocost
