#include "decode/video/internal/leniency.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace isocost {
namespace {

using State = Leniency::State;

Leniency cut_in_open_group() {
  Leniency leniency;
  leniency.begin_in_open_group();
  return leniency;
}

/// Returns how many packets a lenient decoder is given.
std::int64_t lenient_packets(Leniency& leniency, std::int64_t pts) {
  for (std::int64_t packets = 0;; ++packets) {
    leniency.note_packet(pts);
    if (!leniency.is_lenient()) return packets;
  }
}

TEST(Leniency, StaysStrictFromTheStart) {
  Leniency leniency;
  EXPECT_EQ(leniency.state(), State::kStrict);
  leniency.note_packet(0);
  leniency.note_end();
  EXPECT_EQ(leniency.state(), State::kStrict);
}

TEST(Leniency, StrictBecomesLenientInAnOpenGroup) {
  EXPECT_EQ(cut_in_open_group().state(), State::kLenient);
}

TEST(Leniency, LenientBecomesStrictAfterTheDecodersMemory) {
  Leniency leniency = cut_in_open_group();
  EXPECT_EQ(lenient_packets(leniency, 0), Leniency::kLongestMemory);
}

TEST(Leniency, LenientBecomesStrictAtTheEnd) {
  Leniency leniency = cut_in_open_group();
  leniency.note_end();
  EXPECT_EQ(leniency.state(), State::kStrict);
}

TEST(Leniency, LenientBecomesStrictAtAJump) {
  Leniency leniency = cut_in_open_group();
  leniency.jump();
  EXPECT_EQ(leniency.state(), State::kStrict);
}

TEST(Leniency, StrictBecomesLenientWhenTheReaderGoesBack) {
  Leniency leniency;
  leniency.go_back(100, true);
  EXPECT_EQ(leniency.state(), State::kLenient);
  leniency.note_packet(INT64_MIN);  // It tells no time.
  leniency.note_packet(99);
  EXPECT_EQ(leniency.state(), State::kLenient);
}

TEST(Leniency, LenientBecomesStrictAtTheKeyFrameGoneBackFrom) {
  Leniency leniency;
  leniency.go_back(100, true);
  EXPECT_EQ(lenient_packets(leniency, 100), 0);
}

TEST(Leniency, GoingBackToAnOpenBeginningKeepsTheDecodersMemory) {
  Leniency leniency = cut_in_open_group();
  leniency.go_back(100, true);
  EXPECT_EQ(lenient_packets(leniency, 100), Leniency::kLongestMemory);
  leniency.go_back(100, false);
  EXPECT_EQ(lenient_packets(leniency, 100), 0);
}

}  // namespace
}  // namespace isocost
