#include "loader/dataset/bad_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class BadSamples : public testing::Test {
 protected:
  std::unique_ptr<BadSampleList> list() {
    auto made = BadSampleList::create(
        options_, [this](LogLevel /*level*/, std::string_view text) { log_.emplace_back(text); });
    EXPECT_TRUE(made.has_value()) << made.error().message();
    return made ? *std::move(made) : nullptr;
  }
  ErrorCode refusal() { return BadSampleList::create(options_, {}).error().code(); }
  static BadSample sample(int i) { return {"a.tar", "key" + std::to_string(i), "png", "broken"}; }
  // Examines `count` samples of a data set of `size`, and begins anew at its end.
  static void look_at(BadSampleList& list, std::uint64_t count, std::uint64_t size) {
    std::vector<DatasetSource> sources(1);
    sources[0].size = size;
    list.count_by(sources);
    std::vector<SampleId> ids(count);
    for (std::uint64_t i = 0; i < count; ++i) ids[i] = i % size;
    list.look_at(ids);
  }
  // Adds bad samples until one ends training; returns how many were let pass.
  int most(BadSampleList& list) {
    for (int i = 0;; ++i) {
      if (!list.add(sample(i))) return i;
    }
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  BadSampleOptions options_{.file = scratch_ / "bad.jsonl"};
  std::vector<std::string> log_;
};

TEST_F(BadSamples, TheFirstOneAndEachDoublingAreLogged) {
  options_.max = "100";
  const auto bad = list();
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(bad->add(sample(i)));
  EXPECT_THAT(log_,
              ElementsAre(HasSubstr("1 bad sample so far"), HasSubstr("2 bad samples so far"),
                          HasSubstr("4 bad samples so far"), HasSubstr("8 bad samples so far")));
  EXPECT_THAT(log_.back(), HasSubstr("a.tar/key7.png: broken"));
  EXPECT_THAT(log_.back(), HasSubstr("bad.jsonl"));
}

TEST_F(BadSamples, OneCountsOnceHoweverOftenItIsMet) {
  const auto bad = list();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bad->add(sample(0)));
  EXPECT_EQ(bad->count(), 1U);
}

TEST_F(BadSamples, APercentageIsOfTheSamplesLookedAtAndCountsFromTenOn) {
  options_.file.clear();
  const auto few = list();  // 1 %
  look_at(*few, 20, 100'000);
  EXPECT_EQ(most(*few), 9);
  const auto many = list();
  look_at(*many, 3000, 100'000);
  EXPECT_EQ(most(*many), 30);
  const auto whole = list();
  look_at(*whole, 1'000'000, 2000);  // several epochs of 2000 samples
  EXPECT_EQ(most(*whole), 20);
}

TEST_F(BadSamples, ACountAndNoneAtAllAreExact) {
  options_.max = "3";
  EXPECT_EQ(most(*list()), 3);
  options_.max = "0%";
  EXPECT_EQ(most(*list()), 0);
  options_.max = "100%";
  const auto all = list();
  look_at(*all, 50, 50);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(all->add(sample(i)));
}

TEST_F(BadSamples, WhatIndexingFoundIsComparedWithAllThatItLookedAt) {
  std::vector<BadSample> found;
  for (int i = 0; i < 11; ++i) found.push_back(sample(i));
  const auto added = [&](std::uint64_t samples) {
    const auto bad = list();
    std::vector<DatasetSource> sources(1);
    sources[0].size = samples - found.size();
    sources[0].bad = found.size();
    bad->count_by(sources);
    return bad->add_indexed(found);
  };
  EXPECT_TRUE(added(1200));
  const Status refused = added(1000);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("11 bad samples among 1000"));
  EXPECT_THAT(refused.error().message(), HasSubstr("max_bad_samples allows 1%"));
}

// A bad source is not hidden by a large one beside it.
TEST_F(BadSamples, TheLimitHoldsForEachSource) {
  std::vector<DatasetSource> sources(2);
  sources[0].name = "large";
  sources[0].size = 100'000;
  sources[1].name = "small";
  sources[1].first = 100'000;
  sources[1].size = 1000;
  const auto of = [](const char* source, int i) {
    return BadSample{std::string(source) + "/a.tar", "key" + std::to_string(i), "png", "broken"};
  };
  const auto bad = list();  // 1 %
  bad->count_by(sources);
  std::vector<SampleId> ids(101'000);
  std::iota(ids.begin(), ids.end(), 0);
  bad->look_at(ids);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(bad->add(of("small", i)));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(bad->add(of("large", i)));
  const Status refused = bad->add(of("small", 10));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("source small: 11 bad samples among 1000, max_bad_samples allows 1%"));
  options_.file.clear();
  options_.max = "3";
  const auto counted = list();
  counted->count_by(sources);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(counted->add(of("small", i)));
    EXPECT_TRUE(counted->add(of("large", i)));
  }
  EXPECT_FALSE(counted->add(of("large", 3)));
}

TEST_F(BadSamples, TheListOfAnEarlierRunIsReplaced) {
  ASSERT_TRUE(list()->add(sample(0)));
  list();  // one that fails before it has a bad sample
  EXPECT_THAT(read_file(options_.file), HasSubstr("key0"));
  ASSERT_TRUE(list()->add(sample(1)));
  const std::string lines = read_file(options_.file);
  EXPECT_THAT(lines, HasSubstr("key1"));
  EXPECT_THAT(lines, testing::Not(HasSubstr("key0")));
  list()->remove_earlier_list();
  EXPECT_FALSE(fs::exists(options_.file)) << "a run without bad samples has no list";
}

TEST_F(BadSamples, TheListOfANodeThatRunsIsRefusedAndStays) {
  const auto running = list();
  ASSERT_TRUE(running->add(sample(0)));
  EXPECT_EQ(refusal(), ErrorCode::kInvalidArgument);
  running->remove_earlier_list();
  EXPECT_THAT(read_file(options_.file), HasSubstr("key0"));
}

TEST_F(BadSamples, AFileOfAnythingElseIsRefusedAndStays) {
  for (const char* text : {"", "precious", "{\"shard\": 1}\n", "[1, 2]\n"}) {
    write_file(options_.file, text);
    EXPECT_EQ(refusal(), ErrorCode::kInvalidArgument) << text;
    EXPECT_EQ(read_file(options_.file), text);
  }
}

TEST_F(BadSamples, LinksDevicesAndDirectoriesAreRefusedAndStay) {
  write_file(scratch_ / "precious", "");
  fs::create_symlink(scratch_ / "precious", options_.file);
  EXPECT_EQ(refusal(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(fs::is_symlink(options_.file));
  EXPECT_TRUE(fs::exists(scratch_ / "precious"));
  for (const fs::path& other : {fs::path("/dev/full"), scratch_.path()}) {
    options_.file = other;
    EXPECT_EQ(refusal(), ErrorCode::kInvalidArgument) << other;
    EXPECT_TRUE(fs::exists(other));
  }
}

// If the disk is full, here by a limit on the size of files, samples are still counted.
TEST_F(BadSamples, AListThatCannotBeWrittenIsAWarning) {
  options_.max = "100";
  const auto bad = list();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{0, before.rlim_max};
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const bool first = bad->add(sample(0)).has_value();
  const bool second = bad->add(sample(1)).has_value();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(first && second);
  EXPECT_EQ(bad->count(), 2U);
  EXPECT_FALSE(fs::exists(options_.file)) << "the next run would take it for a file of the user's";
  EXPECT_THAT(log_, ElementsAre(HasSubstr("bad_samples_file: "), HasSubstr("1 bad sample"),
                                HasSubstr("2 bad samples")));
}

// Tools of old systems write names in Latin-1. Lists and JSON show the same, and keep names apart.
TEST(BadSampleNames, BytesThatAreNoUtf8AreEscapedInListsAndJson) {
  const BadSample acute{"a.tar", "caf\xE9", "0.jp\xE8g", "broken"};
  EXPECT_EQ(describe(acute), R"(a.tar/caf\xE9.0.jp\xE8g: broken)");
  EXPECT_EQ(to_json_line(acute),
            R"({"shard":"a.tar","key":"caf\\xE9","part":"0.jp\\xE8g","reason":"broken"})");
  const BadSample tab{"a.tar", "caf\xC3\xA9\t", "jpg", "broken"};
  EXPECT_EQ(describe(tab), "a.tar/caf\xC3\xA9?.jpg: broken");
  EXPECT_EQ(
      to_json_line(tab),
      "{\"shard\":\"a.tar\",\"key\":\"caf\xC3\xA9\\t\",\"part\":\"jpg\",\"reason\":\"broken\"}");
  EXPECT_EQ(describe({"a.tar", std::string(5000, '\xE9'), "", "r"}),
            "a.tar/" + std::string(5000, '?') + ": r");
}

}  // namespace
}  // namespace isocost
