#include "balancer/layout/layout_receiver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "balancer/layout/layout.h"
#include "base/scratch_directory.h"

namespace isocost {
namespace {

using testing::HasSubstr;

// The encoder has ranks 0 and 1. The LLM has 2 to 5, of which pairs are tensor-parallel.
class LayoutReceiverTest : public testing::Test {
 protected:
  LayoutReceiverTest() {
    layout_.encoder = {1, 1, 2};
    layout_.llm = {2, 2, 1};
    layout_.microbatches = 4;
    std::ofstream(file_) << layout_.to_json();
  }

  Layout layout_;
  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-layout").value();
  const std::filesystem::path file_ = scratch_.path() / "layout.json";
};

TEST_F(LayoutReceiverTest, ReturnsTheFingerprintOfTheFile) {
  EXPECT_EQ(layout_fingerprint(file_).value(), layout_.fingerprint());
}

TEST_F(LayoutReceiverTest, TensorRanksShareAReceiver) {
  constexpr std::array<std::int32_t, 6> kReceivers{0, 1, 2, 2, 3, 3};
  for (std::size_t rank = 0; rank < kReceivers.size(); ++rank) {
    const LayoutReceiver receiver = layout_receiver(file_, static_cast<std::int64_t>(rank)).value();
    EXPECT_EQ(receiver.rank, kReceivers.at(rank)) << rank;
    EXPECT_EQ(receiver.world_size, 4);
    EXPECT_EQ(receiver.layout, layout_.fingerprint());
  }
}

TEST_F(LayoutReceiverTest, RefusesARankThatTheLayoutDoesNotHave) {
  for (const std::int64_t rank : {-1, 6}) {
    const auto refused = layout_receiver(file_, rank);
    ASSERT_FALSE(refused) << rank;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), HasSubstr(std::to_string(rank)));
  }
}

TEST_F(LayoutReceiverTest, NamesAFileThatIsNotThere) {
  const auto refused = layout_fingerprint(scratch_.path() / "absent.json");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(refused.error().message(), HasSubstr("absent.json"));
}

}  // namespace
}  // namespace isocost
