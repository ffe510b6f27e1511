#include "transport/zmq/internal/dial_failure.h"

#include <zmq.h>

namespace isocost {

int DialFailure::events() {
  return ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED |
         ZMQ_EVENT_CLOSED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
}

// A try ends with CONNECT_RETRIED, the wait for the next one. libzmq looks a name up in each try,
// and one that is not found leaves no other event (4.3.4, stream_connecter_base.cpp).
void DialFailure::see(std::uint16_t event) {
  if (event == ZMQ_EVENT_CONNECT_DELAYED || event == ZMQ_EVENT_CLOSED) {
    tried_ = true;
  } else if (event == ZMQ_EVENT_CONNECTED) {
    answered_ = true;
    last_ = Outcome::kNoNode;  // until the handshake: what never answers it never ends the try
  } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    tried_ = true;
    answered_ = false;
    last_ = Outcome::kNone;
  } else if (event == ZMQ_EVENT_CONNECT_RETRIED) {
    const Outcome without_answer = tried_ ? Outcome::kNobodyListens : Outcome::kUnknownHost;
    last_ = answered_ ? Outcome::kNoNode : without_answer;
    tried_ = false;
    answered_ = false;
  }
}

std::string DialFailure::why_unreached(const std::string& endpoint) const {
  switch (last_.load()) {
    case Outcome::kNone:
      return "";
    case Outcome::kUnknownHost:
      return "the host of " + endpoint +
             " is unknown: is its name right, and does this machine's resolver have it?";
    case Outcome::kNobodyListens:
      return "nobody listens at " + endpoint + ": is the node up, and the endpoint right?";
    case Outcome::kNoNode:
      return "what listens at " + endpoint +
             " is no node, or asks for another key: is the endpoint right, and the key (if any) "
             "the node's? On loopback a node answers clients of its own user, or of all with "
             "--insecure";
  }
  return "";
}

}  // namespace isocost
