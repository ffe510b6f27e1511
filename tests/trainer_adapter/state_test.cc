#include "trainer_adapter/state.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/result.h"

namespace isocost {
namespace {

State state_with(const std::string& cost_model_state) {
  return State(StartPoint{0xab54a98ceb1f0ad2, 2, 40, cost_model_state});
}

std::string refusal(const std::string& text) {
  const auto state = State::from_json(text);
  if (state) return "";
  EXPECT_EQ(state.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THROW(State::parse(text), Exception);
  return state.error().message();
}

// A state_dict() of Python, as json.dumps writes it.
TEST(State, IsPythonsStateDict) {
  const std::string python =
      R"({"version": 3, "cursor": "ab54a98ceb1f0ad2", "epoch": 2, "step": 40, )"
      R"("cost_model_state": "AGxlYXJuZWT/", "mixture": ""})";
  EXPECT_EQ(State::parse(python), state_with(std::string("\0learned\xff", 9)));
  EXPECT_EQ(state_with(std::string("\0learned\xff", 9)).to_json(), python);
  // A user may leave the cost model out.
  EXPECT_EQ(State::parse(R"({"version": 3, "cursor": "01", "epoch": 0, "step": 1, "mixture": ""})"),
            State(StartPoint{1, 0, 1, ""}));
}

TEST(State, KeepsAMixture) {
  for (const std::string mixture :
       {R"({"source": [{"name": "caf\u00e9 \\ \"a\""}]})", "{\n}", "caf\u00e9"}) {
    State state = state_with("learned");
    state.mixture = mixture;
    EXPECT_EQ(State::parse(state.to_json()), state) << state.to_json();
  }
  State state = state_with(std::string(kMaxCostModelStateBytes, 'x'));
  state.mixture = std::string(kMaxMixtureBytes, '\x1f');  // six characters each
  EXPECT_EQ(State::parse(state.to_json()), state);
  state.mixture += 'x';
  EXPECT_NE(refusal(state.to_json()).find("'mixture' must have at most 65536 bytes, and has 65537"),
            std::string::npos);
}

// Its cursor is another one until a node has given a new one, and so its version.
TEST(State, AStateOfVersion2HasNoMixtureAndKeepsItsVersion) {
  const State state = State::parse(
      R"({"version": 2, "cursor": "00f1", "epoch": 2, "step": 17, "cost_model_state": ""})");
  EXPECT_EQ(state, State(StartPoint{0xf1, 2, 17, "", "", 2}));
  EXPECT_EQ(State::parse(state.to_json()), state);
  EXPECT_NE(refusal(R"({"version": 2, "cursor": "1", "epoch": 0, "step": 0, "mixture": "{}"})")
                .find("'mixture' is not a key of version 2"),
            std::string::npos);
}

TEST(State, HasConstantKeysAndReadsBack) {
  EXPECT_EQ(State().to_json(), R"({"version": 3, "cursor": "0000000000000000", "epoch": 0, )"
                               R"("step": 0, "cost_model_state": "", "mixture": ""})");
  for (const std::string bytes : {"", "a", "ab", "abc", "abcd"}) {
    EXPECT_EQ(State::parse(state_with(bytes).to_json()), state_with(bytes)) << bytes;
  }
}

TEST(State, AStateIsAStart) {
  std::optional<StartPoint> start;
  start = state_with("ab");
  EXPECT_EQ(start->step, 40U);
  EXPECT_EQ(start->cost_model_state, "ab");
}

TEST(State, AnotherTextIsRefusedByKey) {
  EXPECT_NE(refusal("").find("state"), std::string::npos);
  EXPECT_NE(refusal(R"({"version": 1, "cursor": "1", "epoch": 0, "step": 0})").find("'version'"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"version": 1, "cursor": "1", "epoch": 0, "step": 0})")
                .find("take 'cursor', 'epoch' and 'step' alone and set 'version' to 2"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"version": 4})").find("this program reads version 3: load it with"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"version": 3, "cursor": "1", "epoch": 0, "step": 0})").find("'mixture'"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"version": 2, "cursor": "g", "epoch": 0, "step": 0})").find("cursor"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"version": 2, "cursor": "1", "epoch": -1, "step": 0})").find("epoch"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"version": 2, "cursor": "1", "epoch": 0})").find("step"),
            std::string::npos);
  EXPECT_NE(
      refusal(R"({"version": 2, "cursor": "1", "epoch": 0, "step": 0, "more": 1})").find("more"),
      std::string::npos);
  for (const std::string damaged : {"A", "AB=C", "A===", "AB*=", "AB==AB=="}) {
    EXPECT_NE(refusal(R"({"version": 2, "cursor": "1", "epoch": 0, "step": 0, )"
                      R"("cost_model_state": ")" +
                      damaged + R"("})")
                  .find("cost_model_state"),
              std::string::npos)
        << damaged;
  }
}

}  // namespace
}  // namespace isocost
