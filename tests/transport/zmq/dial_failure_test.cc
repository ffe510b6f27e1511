#include "transport/zmq/internal/dial_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zmq.h>

#include <string>

namespace isocost {
namespace {

using testing::HasSubstr;

const std::string kEndpoint = "tcp://node:5800";

// Events as libzmq 4.3.4 gives them for each kind of try.
TEST(DialFailure, ANameThatIsNotFoundLeavesNoEventButTheNextTry) {
  DialFailure failure;
  EXPECT_EQ(failure.why_unreached(kEndpoint), "");
  failure.see(ZMQ_EVENT_CONNECT_RETRIED);
  EXPECT_THAT(failure.why_unreached(kEndpoint),
              HasSubstr("the host of tcp://node:5800 is unknown"));
}

TEST(DialFailure, NobodyListens) {
  DialFailure failure;
  failure.see(ZMQ_EVENT_CONNECT_DELAYED);
  EXPECT_EQ(failure.why_unreached(kEndpoint), "");
  failure.see(ZMQ_EVENT_CLOSED);
  failure.see(ZMQ_EVENT_CONNECT_RETRIED);
  EXPECT_THAT(failure.why_unreached(kEndpoint), HasSubstr("nobody listens at tcp://node:5800"));
}

TEST(DialFailure, WhatListensIsNoNodeUntilItHasShakenHands) {
  DialFailure failure;
  failure.see(ZMQ_EVENT_CONNECT_DELAYED);
  failure.see(ZMQ_EVENT_CONNECTED);
  EXPECT_THAT(failure.why_unreached(kEndpoint), HasSubstr("is no node, or asks for another key"));
  failure.see(ZMQ_EVENT_CONNECT_RETRIED);
  EXPECT_THAT(failure.why_unreached(kEndpoint), HasSubstr("is no node, or asks for another key"));
  failure.see(ZMQ_EVENT_CONNECTED);
  failure.see(ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  EXPECT_EQ(failure.why_unreached(kEndpoint), "");
}

TEST(DialFailure, ALostConnectionIsNoUnknownHost) {
  DialFailure failure;
  failure.see(ZMQ_EVENT_CONNECTED);
  failure.see(ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  failure.see(ZMQ_EVENT_CONNECT_RETRIED);
  EXPECT_THAT(failure.why_unreached(kEndpoint), HasSubstr("nobody listens"));
}

}  // namespace
}  // namespace isocost
