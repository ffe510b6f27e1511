#include "loader/dataset/token_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/random.h"
#include "base/scratch_directory.h"
#include "decode/shape/tokens.h"
#include "loader/dataset/dataset.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kTalk = R"({"messages": [{"role": "user", "content": "hi"}]})";

// Three samples in two shards: an image with a conversation, a conversation, and a caption.
class TokenPassTest : public testing::Test {
 protected:
  TokenPassTest() {
    write_file(
        shards_ / "a.tar",
        make_tar({{"one.json", kTalk}, {"one.0.png", tiny_png(30, 20)}, {"two.json", kTalk}}));
    write_file(shards_ / "b.tar", make_tar({{"three.0.png", tiny_png(9, 9)},
                                            {"three.1.wav", tiny_wav(1600)},
                                            {"three.txt", "a caption"}}));
    write_file(model_ / "tokenizer.json", "{}");
    write_file(model_ / "chat_template.jinja", "{{ messages }}");
  }
  std::unique_ptr<TokenPass> pass(const std::string& options = "") const {
    return TokenPass::open(shards_, model_, options, {}).value();
  }
  // Each sample has its number of media as its only ids, and one labelled token more.
  Status write_all(const std::string& options = "", const std::string& reason = "") const {
    const auto tokens = pass(options);
    for (std::size_t i = 0; i < tokens->shards(); ++i) {
      std::vector<TokenizedSample> samples;
      const std::vector<SampleText> texts = tokens->texts(i).value();
      for (const SampleText& text : texts) {
        TokenizedSample sample;
        for (std::size_t k = 0; k < text.media.size(); ++k) sample.tokens.ids.push_back(900);
        sample.tokens.ids.push_back(7);
        sample.tokens.labelled.resize(sample.tokens.ids.size());
        sample.tokens.labelled.back() = !text.media.empty();
        samples.push_back(std::move(sample));
      }
      if (!reason.empty()) samples[0] = {{}, reason};
      ISOCOST_TRY(tokens->write(i, samples));
    }
    return {};
  }
  Result<std::unique_ptr<Dataset>> open() const {
    DatasetOptions options;
    options.model = model_;
    return Dataset::open(shards_, options);
  }
  std::string refusal() const {
    const auto dataset = open();
    return dataset ? "" : dataset.error().message();
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  const fs::path shards_ = scratch_ / "shards";
  const fs::path model_ = scratch_ / "model";
};

TEST_F(TokenPassTest, ReadsWhatBecomesTokens) {
  const auto tokens = pass();
  ASSERT_EQ(tokens->shards(), 2U);
  EXPECT_FALSE(tokens->is_current(0));
  const auto first = tokens->texts(0).value();
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].key, "one");
  EXPECT_EQ(first[0].json, kTalk);
  EXPECT_THAT(first[0].media, ElementsAre(SamplePart{.modality = Modality::kImage}));
  EXPECT_TRUE(first[0].texts.empty());
  EXPECT_TRUE(first[1].media.empty());
  const auto second = tokens->texts(1).value();
  EXPECT_THAT(second[0].media, ElementsAre(SamplePart{.modality = Modality::kImage},
                                           SamplePart{.modality = Modality::kAudio}));
  EXPECT_THAT(second[0].texts, ElementsAre("a caption"));
  EXPECT_EQ(second[0].json, "");
}

TEST_F(TokenPassTest, ATextPartGoesBeforeTheTextOfTheJsonWithoutItsByteOrderMark) {
  write_file(shards_ / "c.tar", make_tar({{"four.png", tiny_png(9, 9)},
                                          {"four.json", R"({"text": "from json", "url": 4})"},
                                          {"four.txt", "\xEF\xBB\xBF from txt\r\n"}}));
  const auto tokens = pass();
  const auto texts = tokens->texts(2).value();
  EXPECT_THAT(texts.at(0).texts, ElementsAre(" from txt\r\n"));
  EXPECT_EQ(texts[0].json, R"({"text": "from json", "url": 4})");
  EXPECT_EQ(
      tokens->unread(),
      "no model sees 'text' beside a text part in the JSON of 1 sample, 'url' in the JSON of 1 "
      "sample; docs/formats.md says what is read");
}

TEST_F(TokenPassTest, TokensAreTheFirstPartInThePlaceOfText) {
  ASSERT_TRUE(write_all().has_value());
  EXPECT_TRUE(pass()->is_current(0) && pass()->is_current(1));
  const auto dataset = open().value();
  ASSERT_EQ(dataset->size(), 3U);
  const SampleShape shape = dataset->shape(2);
  ASSERT_EQ(shape.parts.size(), 3U);
  EXPECT_EQ(shape.parts[0].format, MediaFormat::kTokens);
  EXPECT_EQ(shape.parts[0].text_tokens, 1);
  EXPECT_EQ(shape.parts[0].label_tokens, 1);
  EXPECT_EQ(shape.parts[1].width, 9);
  EXPECT_EQ(shape.parts[2].modality, Modality::kAudio);
  EXPECT_EQ(dataset->part_name(2, 0), "tokens");
  EXPECT_EQ(dataset->part_name(2, 1), "0.png");
  EXPECT_EQ(dataset->part_name(2, 2), "1.wav");
  EXPECT_EQ(dataset->part_name(0, 1), "0.png") << "behind the JSON that became tokens";
  EXPECT_EQ(dataset->open_part(2, 1).value()->size(), shape.parts[1].encoded_bytes);

  const auto source = dataset->open_part(2, 0).value();
  std::vector<std::byte> bytes(static_cast<std::size_t>(source->size()));
  ASSERT_EQ(source->read_at(0, bytes).value(), bytes.size());
  const Tokens tokens = decode_tokens(bytes).value();
  EXPECT_THAT(tokens.ids, ElementsAre(900, 900, 7));
  EXPECT_THAT(tokens.labelled, ElementsAre(false, false, true));

  DatasetOptions plain;
  const auto without = Dataset::open(shards_, plain).value();
  EXPECT_EQ(without->shape(1).parts[0].format, MediaFormat::kJson);
  EXPECT_NE(without->fingerprint(), dataset->fingerprint());
}

// Three exchanges: an image, then text, then an image and a sound.
class LongSampleTest : public TokenPassTest {
 protected:
  LongSampleTest() {
    write_file(shards_ / "b.tar", make_tar({{"three.0.png", tiny_png(9, 9)},
                                            {"three.1.png", tiny_png(8, 8)},
                                            {"three.2.wav", tiny_wav(1600)},
                                            {"three.txt", "a caption"}}));
    EXPECT_TRUE(write_all().has_value());
    Tokens& tokens = long_.tokens;
    tokens.ids = {900, 1, 2, 3, 4, 5, 900, 901, 6, 7};
    tokens.labelled.resize(tokens.ids.size());
    for (const std::size_t i : {2U, 4U, 5U, 8U}) tokens.labelled[i] = true;
    tokens.turns = {{3, 1, {1, 0, 0}}, {6, 1, {1, 0, 0}}, {9, 3, {2, 1, 0}}};
    EXPECT_TRUE(pass()->write(1, std::vector{long_}).has_value());
  }
  // Ids, placeholders included, that a sample of the second shard may have at most.
  std::unique_ptr<Dataset> open_within(std::int64_t most, bool truncate = true) {
    DatasetOptions options;
    options.model = model_;
    options.truncate = truncate;
    options.check_shape = [most](const SampleShape& shape) {
      const std::int64_t ids = shape.parts.front().text_tokens + std::ssize(shape.parts) - 1;
      return ids > most ? "has " + std::to_string(ids) : std::string();
    };
    return Dataset::open(shards_, options).value();
  }
  static Tokens tokens_of(const Dataset& dataset, SampleId id) {
    const auto source = dataset.open_part(id, 0).value();
    std::vector<std::byte> bytes(static_cast<std::size_t>(source->size()));
    EXPECT_EQ(source->read_at(0, bytes).value(), bytes.size());
    EXPECT_EQ(dataset.shape(id).parts[0].encoded_bytes, source->size());
    return decode_tokens(bytes).value();
  }

  TokenizedSample long_;
};

// With a table, neither indexes nor tokens are read before a sample of them is asked for.
TEST_F(LongSampleTest, IsCutAtTheSamePlaceByTheNextStart) {
  std::vector<std::string> log;
  DatasetOptions options;
  options.model = model_;
  options.truncate = true;
  options.check_shape = [](const SampleShape& shape) {
    return shape.parts.front().text_tokens > 6 ? "is too long" : std::string();
  };
  options.check_identity = 6;
  options.log_remarks = false;
  options.log = [&](LogLevel, std::string_view text) { log.emplace_back(text); };
  const auto first = Dataset::open(shards_, options).value();
  std::vector<std::pair<fs::path, std::string>> files;
  for (const auto& file : fs::directory_iterator(shards_ / ".isocost")) {
    if (!file.is_regular_file() || file.file_size() == 0) continue;
    files.emplace_back(file.path(), read_file(file.path()));
    const auto time = file.last_write_time();
    write_file(file.path(), std::string(file.file_size(), 'z'));
    fs::last_write_time(file.path(), time);
  }
  EXPECT_GE(files.size(), 4U) << "two indexes, and the tokens of both shards";
  log.clear();
  const auto second = Dataset::open(shards_, options).value();
  EXPECT_EQ(second->fingerprint(), first->fingerprint());
  EXPECT_EQ(second->size(), 3U);
  EXPECT_THAT(log, ElementsAre(HasSubstr("1 sample cut at the end of a turn")));
  for (const auto& [file, bytes] : files) {
    const auto time = fs::last_write_time(file);
    write_file(file, bytes);
    fs::last_write_time(file, time);
  }
  EXPECT_EQ(second->shape(2).parts.size(), first->shape(2).parts.size());
  EXPECT_EQ(tokens_of(*second, 2), tokens_of(*first, 2));
  EXPECT_LT(tokens_of(*second, 2).ids.size(), long_.tokens.ids.size());
}

TEST_F(LongSampleTest, IsCutAtTheLastEndOfATurnThatFits) {
  const auto whole = open_within(10);
  ASSERT_EQ(whole->size(), 3U);
  EXPECT_EQ(tokens_of(*whole, 2), long_.tokens);
  EXPECT_EQ(whole->shape(2).parts.size(), 4U);

  const auto all_turns = open_within(9);  // without what follows the last turn
  EXPECT_EQ(all_turns->shape(2).parts.size(), 4U);
  EXPECT_THAT(tokens_of(*all_turns, 2).ids, ElementsAre(900, 1, 2, 3, 4, 5, 900, 901, 6));
  EXPECT_EQ(all_turns->shape(2).parts[0].label_tokens, 4);

  const auto two = open_within(8);
  ASSERT_EQ(two->size(), 3U);
  const SampleShape shape = two->shape(2);
  ASSERT_EQ(shape.parts.size(), 2U) << "media of the turn that was cut off are no parts";
  EXPECT_EQ(shape.parts[0].text_tokens, 5);
  EXPECT_EQ(shape.parts[0].label_tokens, 3);
  EXPECT_EQ(shape.parts[1].width, 9);
  EXPECT_EQ(two->part_name(2, 1), "0.png");
  EXPECT_EQ(two->open_part(2, 1).value()->size(), shape.parts[1].encoded_bytes);
  const Tokens tokens = tokens_of(*two, 2);
  EXPECT_THAT(tokens.ids, ElementsAre(900, 1, 2, 3, 4, 5));
  EXPECT_THAT(tokens.labelled, ElementsAre(false, false, true, false, true, true));
  EXPECT_TRUE(two->bad().empty());
  EXPECT_NE(two->fingerprint(), whole->fingerprint());
  EXPECT_EQ(open_within(7)->fingerprint(), two->fingerprint());
}

TEST_F(LongSampleTest, KeepsTheWeightsOfTheTurnsThatAreLeft) {
  long_.tokens.weights = {{2, 3, 0.5F}, {8, 9, 2}};
  ASSERT_TRUE(pass()->write(1, std::vector{long_}).has_value());
  EXPECT_TRUE(open_within(10)->shape(2).parts[0].weighted);
  EXPECT_FALSE(open_within(10)->shape(0).parts[0].weighted);
  EXPECT_EQ(tokens_of(*open_within(10), 2), long_.tokens);
  EXPECT_THAT(tokens_of(*open_within(9), 2).weights, ElementsAreArray(long_.tokens.weights));
  EXPECT_THAT(tokens_of(*open_within(8), 2).weights, ElementsAre(long_.tokens.weights[0]));
  long_.tokens.weights = {{8, 9, 2}};
  ASSERT_TRUE(pass()->write(1, std::vector{long_}).has_value());
  EXPECT_TRUE(open_within(9)->shape(2).parts[0].weighted);
  EXPECT_FALSE(open_within(8)->shape(2).parts[0].weighted);
  EXPECT_THAT(tokens_of(*open_within(8), 2).weights, IsEmpty());
}

TEST_F(LongSampleTest, WhoseFirstExchangeIsTooLongIsBadWithTheNumbers) {
  const auto dataset = open_within(2);
  EXPECT_EQ(dataset->size(), 2U);
  ASSERT_EQ(dataset->bad().size(), 1U);
  EXPECT_EQ(dataset->bad()[0].key, "three");
  EXPECT_EQ(dataset->bad()[0].reason, "cut to its first turns it still has 3");
  EXPECT_TRUE(dataset->bad()[0].over_limit);
}

TEST_F(LongSampleTest, WhoseCutLeavesNoLabelSaysSo) {
  for (const std::size_t i : {2U, 4U, 5U}) long_.tokens.labelled[i] = false;  // weight 0
  ASSERT_TRUE(pass()->write(1, std::vector{long_}).has_value());
  const auto dataset = open_within(8);
  ASSERT_EQ(dataset->bad().size(), 1U);
  EXPECT_EQ(dataset->bad()[0].reason,
            "cut to its first turns with labels it still has 9, and cut before these it has no "
            "labels, as after turns of weight 0");
  EXPECT_EQ(open_within(9)->size(), 3U) << "labels in the last turn that is kept";
}

TEST_F(LongSampleTest, IsBadWhereItIsNotToBeCut) {
  const auto dataset = open_within(8, false);
  EXPECT_EQ(dataset->size(), 2U);
  ASSERT_EQ(dataset->bad().size(), 1U);
  EXPECT_EQ(dataset->bad()[0].reason, "has 10");
}

TEST_F(LongSampleTest, IsBadWhereNothingSaysWhereItsTurnsEnd) {
  long_.tokens.turns.clear();
  ASSERT_TRUE(pass()->write(1, std::vector{long_}).has_value());
  const auto dataset = open_within(8);
  ASSERT_EQ(dataset->bad().size(), 1U);
  EXPECT_THAT(dataset->bad()[0].reason, HasSubstr("has 10 (no turn to cut it at"));
}

TEST(TokenCodec, TurnsThatCannotBeAreRefused) {
  const auto code_of = [](std::vector<TurnEnd> turns) {
    const auto tokens =
        decode_tokens(encode_tokens({{1, 2, 3}, {false, true, true}, std::move(turns)}));
    return tokens ? ErrorCode::kInternal : tokens.error().code();
  };
  EXPECT_EQ(code_of({{2, 1, {1, 0, 0}}, {3, 3, {1, 0, 1}}}), ErrorCode::kInternal)
      << "none is wrong";
  EXPECT_EQ(code_of({{3, 0, {}}, {2, 0, {}}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of({{4, 0, {}}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of({{0, 0, {}}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of({{2, 3, {2, 1, 0}}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of({{3, 1, {2, 0, 0}}}), ErrorCode::kCorrupt) << "media without placeholders";
  EXPECT_EQ(code_of({{3, 2, {0, 0, 1}}}), ErrorCode::kInternal) << "a video of two frames";
  EXPECT_EQ(code_of({{2, 1, {1, 0, 0}}, {3, 1, {0, 0, 0}}}), ErrorCode::kCorrupt);
}

TEST(TokenCodec, WeightsThatCannotBeAreRefused) {
  const auto code_of = [](std::vector<WeightedIds> weights) {
    const Tokens tokens{
        .ids = {1, 2, 3}, .labelled = {false, true, true}, .weights = std::move(weights)};
    const auto read = decode_tokens(encode_tokens(tokens));
    EXPECT_TRUE(!read || *read == tokens);
    return read ? ErrorCode::kInternal : read.error().code();
  };
  EXPECT_EQ(code_of({{0, 1, 0.5F}, {1, 3, 2}}), ErrorCode::kInternal) << "none is wrong";
  EXPECT_EQ(code_of({{0, 2, 0.5F}, {1, 3, 2}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of({{1, 1, 2}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of({{1, 4, 2}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of({{1, 3, 0}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of({{1, 3, -1}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of({{1, 3, NAN}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of({{1, 3, INFINITY}}), ErrorCode::kCorrupt);
}

Tokens random_tokens(Random& random) {
  Tokens tokens;
  const auto count = static_cast<std::uint32_t>(1 + random.below(40));
  for (std::uint32_t i = 0; i < count; ++i) {
    tokens.ids.push_back(static_cast<std::uint32_t>(random.below(1000)));
    tokens.labelled.push_back(random.below(2) == 1);
    const std::uint32_t begin = tokens.weights.empty() ? 0 : tokens.weights.back().end;
    if (random.below(4) == 0) tokens.weights.push_back({begin, i + 1, 0.5F});
    if (random.below(4) == 0) tokens.turns.push_back({i + 1, 0, {}});
  }
  return tokens;
}

// Tokens up to the end of a turn.
Tokens cut_at(const Tokens& whole, std::size_t turns) {
  Tokens tokens = whole;
  const std::uint32_t end = whole.turns[turns - 1].ids;
  tokens.ids.resize(end);
  tokens.labelled.resize(end);
  tokens.turns.resize(turns);
  std::erase_if(tokens.weights, [end](const WeightedIds& each) { return each.begin >= end; });
  for (WeightedIds& each : tokens.weights) each.end = std::min(each.end, end);
  return tokens;
}

std::vector<std::byte> read_in_pieces(const ByteSource& source, std::size_t piece) {
  std::vector<std::byte> bytes;
  std::vector<std::byte> next(piece);
  for (;;) {
    const std::size_t read = source.read_at(std::ssize(bytes), next).value();
    if (read == 0) return bytes;
    bytes.insert(bytes.end(), next.begin(), next.begin() + static_cast<std::ptrdiff_t>(read));
  }
}

TEST(CutTokens, HaveTheBytesOfTheTokensUpToATurn) {
  Random random(3);
  std::size_t cuts = 0;
  for (int round = 0; round < 300; ++round) {
    const Tokens whole = random_tokens(random);
    const std::vector<std::byte> bytes = encode_tokens(whole);
    for (std::size_t turns = 1; turns <= whole.turns.size(); ++turns, ++cuts) {
      const Tokens wanted = cut_at(whole, turns);
      const TokenCut at{static_cast<std::uint32_t>(wanted.ids.size()),
                        static_cast<std::uint32_t>(turns),
                        static_cast<std::uint32_t>(wanted.weights.size())};
      const CutTokens cut = CutTokens::create(bytes, at).value();
      EXPECT_EQ(cut.size(), std::ssize(encode_tokens(wanted)));
      ASSERT_EQ(read_in_pieces(cut, 1 + random.below(200)), encode_tokens(wanted));
    }
  }
  EXPECT_GT(cuts, 1000U);
}

TEST(CutTokens, RefuseBytesThatHaveNoSuchCut) {
  const Tokens whole{.ids = {1, 2, 3},
                     .labelled = {false, true, true},
                     .turns = {{2, 0, {}}, {3, 0, {}}},
                     .weights = {{1, 2, 0.5F}}};
  const std::vector<std::byte> bytes = encode_tokens(whole);
  EXPECT_TRUE(CutTokens::create(bytes, {2, 1, 1}));
  for (const TokenCut& wrong : {TokenCut{4, 1, 1}, {0, 1, 1}, {2, 3, 1}, {2, 1, 2}}) {
    EXPECT_EQ(CutTokens::create(bytes, wrong).error().code(), ErrorCode::kCorrupt);
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(CutTokens::create(std::span(bytes).first(size), {2, 1, 1})) << size;
  }
}

TEST_F(TokenPassTest, ASampleWithoutTokensIsBadWithTheReason) {
  ASSERT_TRUE(write_all("", "2 placeholders for 1 image").has_value());
  const auto dataset = open().value();
  EXPECT_EQ(dataset->size(), 1U);
  EXPECT_EQ(dataset->key(0), "two");
  ASSERT_EQ(dataset->bad().size(), 2U);
  EXPECT_EQ(dataset->bad()[0].key, "one");
  EXPECT_EQ(dataset->bad()[0].reason, "2 placeholders for 1 image");
  EXPECT_EQ(pass()->tokenized(0), 1U);
  EXPECT_EQ(pass("--labels all")->tokenized(0), 1U);
  write_file(model_ / "tokenizer.json", "{ }");
  EXPECT_EQ(pass()->tokenized(0), 0U);
}

TEST_F(TokenPassTest, TheRemedyOpensTheDataSetInTheSameWay) {
  DatasetOptions options;
  options.model = model_;
  options.index_dir = shards_ / "elsewhere";
  EXPECT_THAT(Dataset::open(shards_, options).error().message(),
              HasSubstr("isocost tokenize " + shards_.string() + " --model " + model_.string() +
                        " --index-dir " + options.index_dir.string() + " makes them"));
}

TEST_F(TokenPassTest, TokensOfAnotherTokenizerAreNamed) {
  EXPECT_THAT(refusal(),
              HasSubstr("a.tar: its text has not been made into tokens; isocost tokenize"));
  ASSERT_TRUE(write_all("labels=all").has_value());
  EXPECT_EQ(refusal(), "");
  EXPECT_FALSE(pass("labels=last")->is_current(0));
  write_file(model_ / "tokenizer.json", "{ }");
  EXPECT_THAT(refusal(), HasSubstr("its tokens were made with another tokenizer (tokenizer.json"));
  write_file(model_ / "tokenizer.json", "{}");
  write_file(model_ / "chat_template.jinja", "{{ message }}");
  EXPECT_THAT(refusal(), HasSubstr("were made with another chat template; isocost tokenize"));
  fs::remove(model_ / "chat_template.jinja");
  EXPECT_THAT(refusal(), HasSubstr("no chat template is there"));
}

TEST_F(TokenPassTest, TokensOfOtherPlaceholdersAreNamed) {
  const auto config = [this](const std::string& text) { write_file(model_ / "config.json", text); };
  config(R"({"model_type": "a", "image_token_id": 7, "text_config": {"image_token_id": 1}})");
  ASSERT_TRUE(write_all("--labels all").has_value());
  config(R"({"image_token_id": 7, "model_type": "a", "hidden_size": 4, "text_config": {}})");
  EXPECT_EQ(refusal(), "") << "of what tokens do not depend on";
  EXPECT_TRUE(pass()->is_usable(0));
  EXPECT_EQ(pass()->why_stale(0), "");
  for (const char* other : {R"({"model_type": "a", "image_token_id": 8})",
                            R"({"model_type": "b", "image_token_id": 7})",
                            R"({"model_type": "a", "image_token_id": 7, "video_token_index": 7})",
                            R"({"model_type": "a", "video_token_id": 7})"}) {
    config(other);
    const std::string named = "were made with other placeholders of media or another model_type";
    EXPECT_THAT(refusal(), HasSubstr("a.tar: its tokens " + named));
    EXPECT_FALSE(pass()->is_usable(0) || pass()->is_current(0)) << other;
    EXPECT_THAT(pass()->why_stale(0), AllOf(HasSubstr(named), EndsWith(", and with --labels all")));
  }
  config("[]");
  EXPECT_THAT(refusal(), HasSubstr("config.json: no JSON object"));
}

TEST_F(TokenPassTest, EachDifferenceIsNamed) {
  const auto found = TokenizerIdentity::of_model(model_).value();
  TokenizerIdentity other = found;
  other.options = "--labels all";
  EXPECT_EQ(found.difference(other), "");
  ++other.version;
  EXPECT_EQ(found.difference(other), "another version of Isocost");
  ++other.text_settings;
  EXPECT_THAT(found.difference(other), HasSubstr("Isocost, other settings of media"));
  write_file(model_ / "special_tokens_map.json", "{}");
  EXPECT_THAT(found.difference(TokenizerIdentity::of_model(model_).value()),
              StartsWith("another tokenizer"));
}

TEST_F(TokenPassTest, ChosenOptionsAreLoggedOnce) {
  std::vector<std::string> lines;
  const auto open_and_log = [&] {
    lines.clear();
    DatasetOptions options;
    options.model = model_;
    options.log = [&lines](LogLevel /*level*/, std::string_view line) { lines.emplace_back(line); };
    ASSERT_TRUE(Dataset::open(shards_, options).has_value());
  };
  ASSERT_TRUE(write_all().has_value());
  open_and_log();
  EXPECT_THAT(lines, IsEmpty());
  ASSERT_TRUE(write_all("--labels last").has_value());
  open_and_log();
  EXPECT_THAT(lines, ElementsAre("the tokens of 2 of 2 shards were made with isocost tokenize "
                                 "--labels last"));
  ASSERT_TRUE(write_all("--labels\nlast").has_value());
  open_and_log();
  EXPECT_THAT(lines, ElementsAre(EndsWith(" --labels?last"))) << "a log has lines";
}

TEST_F(TokenPassTest, TokensOfAnotherStateOfTheShardAreNamed) {
  ASSERT_TRUE(write_all().has_value());
  write_file(shards_ / "a.tar", make_tar({{"two.json", kTalk}, {"four.txt", "x"}}));
  EXPECT_THAT(refusal(), HasSubstr("a.tar: its tokens were made of another state of the shard"));
  EXPECT_EQ(pass()->why_stale(0),
            "were made of another state of the shard, or of other parts of its samples");
  EXPECT_FALSE(pass()->is_current(0));
  EXPECT_TRUE(pass()->is_current(1)) << "shards are added to a data set";
}

TEST_F(TokenPassTest, ADamagedFileIsRefused) {
  ASSERT_TRUE(write_all().has_value());
  const fs::path file = shards_ / ".isocost" / "a.tar.tokens";
  const std::string good = read_file(file);
  for (const std::size_t at : {0U, 8U, 20U, 90U}) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    write_file(file, damaged);
    EXPECT_THAT(refusal(), HasSubstr("its tokens cannot be read")) << at;
  }
  for (std::size_t size = 0; size < good.size(); size += 3) {
    write_file(file, good.substr(0, size));
    EXPECT_THAT(refusal(), HasSubstr("its tokens cannot be read")) << size;
  }
}

TEST_F(TokenPassTest, AFileThatIsCutInUseIsToldFromABadSample) {
  ASSERT_TRUE(write_all().has_value());
  const auto dataset = open().value();
  fs::resize_file(shards_ / ".isocost" / "a.tar.tokens", 40);
  EXPECT_THAT(dataset->check_index(0).error().message(), HasSubstr("a.tar.tokens: it was cut"));
  EXPECT_TRUE(dataset->check_index(2).has_value());
}

TEST_F(TokenPassTest, WritesOnlyWhatFitsTheShard) {
  const auto tokens = pass();
  EXPECT_THAT(tokens->write(0, {}).error().message(), HasSubstr("a.tar has 2 samples, and not 0"));
  const std::vector<TokenizedSample> none(2);
  EXPECT_THAT(tokens->write(0, none).error().message(),
              HasSubstr("one has fewer tokens than media"));
}

}  // namespace
}  // namespace isocost
