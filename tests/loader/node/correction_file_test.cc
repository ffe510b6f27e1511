#include "loader/node/internal/correction_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "base/scratch_directory.h"
#include "tests/loader/node/online_model_fixture.h"
#include "tests/support/log_lines.h"

namespace isocost {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CorrectionFile : public OnlineModelFixture {
 protected:
  // The model learned something, and the file holds it.
  std::string save_trained() {
    train(model_, 20, 3);
    plan(model_);
    EXPECT_TRUE(save_correction(model_, file_));
    return model_.save_state();
  }
  std::string content() const {
    std::ifstream file(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  std::filesystem::path file_ = scratch_ / "correction";
  LogLines log_;
  OnlineModel next_{profile_, {}, {}};  // of the node's next run
};

TEST_F(CorrectionFile, KeepsTheStateForTheNextRun) {
  const std::string state = save_trained();
  EXPECT_EQ(content(), state);
  ASSERT_TRUE(restore_correction(next_, file_, log_.sink()));
  EXPECT_EQ(next_.save_state(), state);
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(CorrectionFile, ReplacesTheStateOfTheRunBefore) {
  const std::string before = save_trained();
  const std::string now = save_trained();
  EXPECT_NE(now, before);
  EXPECT_EQ(content(), now);
}

TEST_F(CorrectionFile, IsNotWrittenBeforeAnythingIsLearned) {
  ASSERT_TRUE(save_correction(model_, file_));
  EXPECT_FALSE(std::filesystem::exists(file_));
  EXPECT_TRUE(restore_correction(next_, file_, log_.sink()));
  EXPECT_EQ(next_.save_state(), "");
}

TEST_F(CorrectionFile, NothingIsReadOrWrittenWithoutAName) {
  train(model_, 20, 3);
  plan(model_);
  EXPECT_TRUE(save_correction(model_, ""));
  EXPECT_TRUE(restore_correction(next_, "", log_.sink()));
  EXPECT_TRUE(std::filesystem::is_empty(file_.parent_path()));
}

TEST_F(CorrectionFile, OfAnotherModelProfileIsIgnoredWithAWarning) {
  save_trained();
  CostProfile other = profile_;
  other.modules[2].coefficients.per_unit *= 2;
  OnlineModel another(other, {}, {});
  EXPECT_TRUE(restore_correction(another, file_, log_.sink()));
  EXPECT_EQ(another.save_state(), "");
  EXPECT_THAT(log_.lines(),
              ElementsAre(AllOf(HasSubstr(file_.string()), HasSubstr("another model profile"))));
}

TEST_F(CorrectionFile, ThatIsDamagedIsSetAsideWithAWarning) {
  const std::string state = save_trained();
  std::string kept = file_.string() + ".damaged";  // what was set aside before stays
  for (const std::string& text : {std::string("something"), state.substr(0, state.size() - 20)}) {
    std::ofstream(file_, std::ios::binary) << text;
    LogLines log;
    EXPECT_TRUE(restore_correction(next_, file_, log.sink()));
    EXPECT_EQ(next_.save_state(), "");
    EXPECT_FALSE(std::filesystem::exists(file_));
    std::ifstream aside(std::exchange(kept, file_.string() + ".damaged.1"), std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(aside), {}), text);
    EXPECT_THAT(log.lines(), ElementsAre(AllOf(HasSubstr("correction_file " + file_.string()),
                                               HasSubstr("set aside as"))));
  }
}

TEST_F(CorrectionFile, ThatCannotBeWrittenIsAnError) {
  train(model_, 20, 3);
  plan(model_);
  EXPECT_FALSE(save_correction(model_, scratch_ / "nowhere" / "correction").has_value());
}

}  // namespace
}  // namespace isocost
