#include "loader/dataset/catalogue/catalogue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/scratch_directory.h"
#include "loader/dataset/formats/sample_reading.h"
#include "tests/loader/dataset/made_shards.h"

namespace isocost {
namespace {

// Shards of three, no and two samples, without `dropped` of the first.
Catalogue catalogue_of(const std::vector<std::uint32_t>& dropped,
                       const ShardSelection::Cuts& cuts = {}) {
  std::vector<Shard> shards;
  shards.push_back(made_shard("a.tar", {"a0", "a1", "a2"}));
  shards.push_back(made_shard("b.tar", {}));
  shards.push_back(made_shard("c.tar", {"c0", "c1"}));
  return {std::move(shards), {{3, dropped, cuts}, {0, {}, {}}, {2, {}, {}}}};
}

TEST(Catalogue, NumbersTheUsableSamplesOfAllShards) {
  const Catalogue catalogue = catalogue_of({1});
  ASSERT_EQ(catalogue.size(), 4U);
  std::string keys;
  for (SampleId id = 0; id < catalogue.size(); ++id) {
    keys += std::string(catalogue.sample(id).value().key()) + " ";
  }
  EXPECT_EQ(keys, "a0 a2 c0 c1 ");
  EXPECT_EQ(catalogue.sample(1).value().number, 2U);
  EXPECT_EQ(catalogue.sample(1).value().shard.name(), "a.tar");
  EXPECT_EQ(catalogue.sample(2).value().number, 0U);
  EXPECT_EQ(catalogue.sample(2).value().shard.name(), "c.tar");
}

TEST(Catalogue, HasTheCutsOfSamples) {
  const Catalogue catalogue = catalogue_of({1}, {{2, TurnCut{.end = {}, .at = {9, 1, 0}}}});
  EXPECT_EQ(catalogue.sample(0).value().cut, nullptr);
  ASSERT_NE(catalogue.sample(1).value().cut, nullptr);
  EXPECT_EQ(catalogue.sample(1).value().cut->at.ids, 9U);
}

TEST(Catalogue, MayBeEmpty) {
  const Catalogue catalogue({}, {});
  EXPECT_EQ(catalogue.size(), 0U);
  Fingerprint wanted;
  wanted.add(kReadingVersion);
  EXPECT_EQ(catalogue.fingerprint(), wanted.value());
}

// A saved state names the data set by its fingerprint, which therefore changes only with what is
// read.
TEST(DatasetFingerprint, HasTheVersionOfReadingAndTheShards) {
  Fingerprint wanted;
  wanted.add(kReadingVersion);
  const auto add = [&](std::string_view shard, const std::vector<std::string_view>& keys) {
    wanted.add(shard);
    wanted.add(std::uint64_t{1} << 20);  // bytes
    wanted.add(0);                       // hash of the content
    wanted.add(0);                       // parts that are left out
    wanted.add(keys.size());
    Fingerprint of_keys;
    for (const std::string_view key : keys) of_keys.add(key);
    wanted.add(of_keys.value());
    wanted.add(Fingerprint().value());  // cuts
  };
  add("a.tar", {"a0", "a2"});
  add("b.tar", {});
  add("c.tar", {"c0", "c1"});
  EXPECT_EQ(catalogue_of({1}).fingerprint(), wanted.value());
}

TEST(DatasetFingerprint, HasTheTokenizerAndTheCuts) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  TokenFileIdentity identity;
  identity.tokenizer = {.tokenizer = 1,
                        .chat_template = 2,
                        .placeholders = 3,
                        .text_settings = 4,
                        .version = 5,
                        .options = "--labels all"};
  std::vector<Shard> shards;
  shards.push_back(made_shard("a.tar", {"key"},
                              made_tokens(scratch, std::vector<TokenizedSample>(1), identity)));
  const Catalogue catalogue(std::move(shards), {{1, {}, {{0, TurnCut{{9, 0, {}}, {}, 0}}}}});
  Fingerprint wanted;
  wanted.add(kReadingVersion);
  wanted.add("a.tar");
  wanted.add(std::uint64_t{1} << 20);  // bytes
  wanted.add(0);                       // hash of the content
  wanted.add(0);                       // parts that are left out
  wanted.add(1);                       // samples
  for (int i = 1; i <= 5; ++i) wanted.add(i);
  wanted.add("--labels all");
  Fingerprint keys;
  keys.add("key");
  wanted.add(keys.value());
  Fingerprint cuts;
  cuts.add(0);  // sample
  cuts.add(9);  // end of its cut
  wanted.add(cuts.value());
  EXPECT_EQ(catalogue.fingerprint(), wanted.value());
}

TEST(DatasetFingerprint, ChangesWithSamplesCutsAndTokens) {
  const std::uint64_t whole = catalogue_of({}).fingerprint();
  EXPECT_NE(catalogue_of({1}).fingerprint(), whole);
  EXPECT_NE(catalogue_of({}, {{2, TurnCut{{9, 0, {}}, {}, 0}}}).fingerprint(), whole);
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto with_tokens = [&](const std::string& options) {
    TokenFileIdentity identity;
    identity.tokenizer.options = options;
    std::vector<Shard> shards;
    shards.push_back(made_shard("a.tar", {"a"},
                                made_tokens(scratch, std::vector<TokenizedSample>(1), identity)));
    return Catalogue(std::move(shards), {{1, {}, {}}}).fingerprint();
  };
  EXPECT_NE(with_tokens(""), with_tokens("--labels all"));
}

}  // namespace
}  // namespace isocost
