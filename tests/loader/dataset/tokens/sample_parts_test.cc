#include "loader/dataset/tokens/sample_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "tests/loader/dataset/made_shards.h"

namespace isocost {
namespace {

using testing::ElementsAre;

// The second sample of a shard: a picture, a text, a second picture and a sound.
class SamplePartsTest : public testing::Test {
 protected:
  SamplePartsTest() {
    IndexContents contents = contents_of({"first", "second"});
    contents.samples[1].weight = 2;
    contents.samples[1].parts = {indexed_part("0.png"), indexed_part("txt"), indexed_part("1.png"),
                                 indexed_part("wav")};
    index_ = index_in_memory(contents);
    TokenizedSample tokenized;
    tokenized.tokens = {.ids = {900, 1, 2, 900, 901, 3},
                        .labelled = {false, false, true, false, false, true},
                        .turns = {{3, 1, {1, 0, 0}}, {6, 3, {2, 1, 0}}}};
    tokens_ = made_tokens(scratch_, std::vector{TokenizedSample{}, tokenized});
  }
  SampleParts parts(bool with_tokens, const TurnCut* cut) const {
    return {index_->view(), with_tokens ? tokens_.get() : nullptr, 1, cut};
  }
  static std::vector<std::string> names_of(const SampleParts& parts) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < parts.shape().parts.size(); ++i) names.emplace_back(parts.name(i));
    return names;
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  std::unique_ptr<const ShardIndex> index_;
  std::shared_ptr<const TokenFile> tokens_;
};

TEST_F(SamplePartsTest, AreThoseOfTheIndex) {
  const SampleParts all = parts(false, nullptr);
  EXPECT_THAT(names_of(all), ElementsAre("0.png", "txt", "1.png", "wav"));
  EXPECT_EQ(all.shape().weight, 2.0F);
  EXPECT_EQ(all.indexed(0), 1U) << "the first sample has one part";
  EXPECT_EQ(all.indexed(3), 4U);
}

TEST_F(SamplePartsTest, BeginWithTheTokensThatTakeThePlaceOfText) {
  const SampleParts all = parts(true, nullptr);
  EXPECT_THAT(names_of(all), ElementsAre("tokens", "0.png", "1.png", "wav"));
  EXPECT_EQ(all.shape().parts[0].format, MediaFormat::kTokens);
  EXPECT_EQ(all.shape().parts[0].label_tokens, 2);
  EXPECT_EQ(all.indexed(0), std::nullopt);
  EXPECT_EQ(all.indexed(1), 1U);
  EXPECT_EQ(all.indexed(2), 3U);
  EXPECT_EQ(all.indexed(3), 4U);
}

TEST_F(SamplePartsTest, EndAtTheCut) {
  const TurnCut cut{.end = {3, 1, {1, 0, 0}}, .at = {3, 1, 0}, .label_tokens = 1};
  const SampleParts first = parts(true, &cut);
  EXPECT_THAT(names_of(first), ElementsAre("tokens", "0.png"));
  const PartShape text = first.shape().parts[0];
  EXPECT_EQ(text.text_tokens, 2);
  EXPECT_EQ(text.label_tokens, 1);
  EXPECT_FALSE(text.weighted);
  EXPECT_EQ(text.encoded_bytes, encoded_tokens_bytes(3, 1, 0));
  EXPECT_EQ(first.indexed(1), 1U);
}

}  // namespace
}  // namespace isocost
