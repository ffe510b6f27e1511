#include "transport/zmq/internal/dial_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zmq.h>

#include <string>

namespace isocost {
namespace {

using testing::HasSubstr;

const std::string kEndpoint = "tcp://node:5800";

// Events as libzmq 4.3.4 gives them for each kind of try.
TEST(DialState, ANameThatIsNotFoundLeavesNoEventButTheNextTry) {
  DialState state;
  EXPECT_EQ(state.why_unreached(kEndpoint), "");
  state.see(ZMQ_EVENT_CONNECT_RETRIED);
  EXPECT_THAT(state.why_unreached(kEndpoint), HasSubstr("the host of tcp://node:5800 is unknown"));
}

TEST(DialState, NobodyListens) {
  DialState state;
  state.see(ZMQ_EVENT_CONNECT_DELAYED);
  EXPECT_EQ(state.why_unreached(kEndpoint), "");
  state.see(ZMQ_EVENT_CLOSED);
  state.see(ZMQ_EVENT_CONNECT_RETRIED);
  EXPECT_THAT(state.why_unreached(kEndpoint), HasSubstr("nobody listens at tcp://node:5800"));
}

TEST(DialState, WhatListensIsNoNodeUntilItHasShakenHands) {
  DialState state;
  state.see(ZMQ_EVENT_CONNECT_DELAYED);
  state.see(ZMQ_EVENT_CONNECTED);
  EXPECT_THAT(state.why_unreached(kEndpoint), HasSubstr("is no node, or asks for another key"));
  state.see(ZMQ_EVENT_CONNECT_RETRIED);
  EXPECT_THAT(state.why_unreached(kEndpoint), HasSubstr("is no node, or asks for another key"));
  state.see(ZMQ_EVENT_CONNECTED);
  state.see(ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  EXPECT_EQ(state.why_unreached(kEndpoint), "");
}

TEST(DialState, ALostConnectionIsNoUnknownHost) {
  DialState state;
  state.see(ZMQ_EVENT_CONNECTED);
  state.see(ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  state.see(ZMQ_EVENT_CONNECT_RETRIED);
  EXPECT_THAT(state.why_unreached(kEndpoint), HasSubstr("nobody listens"));
}

}  // namespace
}  // namespace isocost
