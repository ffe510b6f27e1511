#include "loader/dataset/tokens/shard_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/scratch_directory.h"
#include "tests/loader/dataset/made_shards.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ShardTokensTest : public testing::Test {
 protected:
  ShardTokensTest()
      : index_(ShardIndex::in_memory(encode_index(contents_of({"key"})), scratch_ / "made.idx")
                   .value()) {
    tokenizer_.tokenizer = 3;
  }
  std::shared_ptr<const TokenFile> make(const TokenizerIdentity& tokenizer) const {
    return made_tokens(scratch_, std::vector<TokenizedSample>(1),
                       TokenFileIdentity::of(index_->view(), tokenizer));
  }
  // Returns why the tokens are refused; empty: they are not.
  std::string refusal() const {
    const auto tokens = open_shard_tokens("data/a.tar", *index_, tokenizer_, "make them");
    if (tokens) return "";
    EXPECT_EQ(tokens.error().code(), ErrorCode::kNotFound);
    return tokens.error().message();
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  const std::unique_ptr<const ShardIndex> index_;
  TokenizerIdentity tokenizer_;
};

TEST_F(ShardTokensTest, AreOpenedBesideTheIndex) {
  make(tokenizer_);
  EXPECT_EQ(refusal(), "");
  TokenizerIdentity other_options = tokenizer_;
  other_options.options = "--labels all";
  make(other_options);
  EXPECT_EQ(refusal(), "") << "options are the user's choice";
}

TEST_F(ShardTokensTest, RefusalsNameTheShardAndTheRemedy) {
  EXPECT_EQ(refusal(), "data/a.tar: its text has not been made into tokens; make them");
  write_file(scratch_ / "made.tokens", "short");
  EXPECT_EQ(refusal(), "data/a.tar: its tokens cannot be read: damaged; make them");
  TokenizerIdentity other = tokenizer_;
  ++other.chat_template;
  make(other);
  EXPECT_EQ(refusal(), "data/a.tar: its tokens were made with another chat template; make them");
}

TEST_F(ShardTokensTest, OptionsThatAreNoDefaultsAreLogged) {
  std::vector<std::string> lines;
  const LogSink sink = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
  TokenizerIdentity chosen = tokenizer_;
  chosen.options = "--labels all";
  const auto with_defaults = make(tokenizer_);
  log_tokenizer_options(std::vector{with_defaults}, sink);
  EXPECT_THAT(lines, IsEmpty());
  std::filesystem::remove(scratch_ / "made.tokens");  // the first file stays mapped
  log_tokenizer_options(std::vector{with_defaults, make(chosen)}, sink);
  EXPECT_THAT(lines, ElementsAre("the tokens of 1 of 2 shards were made with isocost tokenize "
                                 "--labels all"));
}

}  // namespace
}  // namespace isocost
