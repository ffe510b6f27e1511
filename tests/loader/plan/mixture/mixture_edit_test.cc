#include "loader/plan/mixture/mixture_edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/random.h"
#include "loader/plan/mixture/saved_mixture.h"

namespace isocost {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

MixtureSource source(std::string name, std::vector<Breakpoint> points, std::uint64_t size = 100) {
  MixtureSource made;
  made.name = std::move(name);
  made.size = size;
  made.fingerprint = size * 7919;
  made.schedule.points = std::move(points);
  return made;
}

MixtureOptions saved() {
  MixtureOptions options;
  options.seed = 3;
  options.global_batch_size = 8;
  options.sources = {source("a", {{0, 1}}), source("b", {{0, 2}, {50, 1}}),
                     source("c", {{30, 1}, {90, 0}})};
  return options;
}

using Edit = std::function<void(MixtureOptions&)>;

Result<std::shared_ptr<const Mixture>> resumed(std::uint64_t step, const Edit& edit,
                                               std::uint64_t lookahead = 1) {
  MixtureOptions present = saved();
  edit(present);
  return continued_mixture(saved(), present, step, lookahead);
}

std::map<std::string, std::uint64_t> counts(const Mixture& mixture, std::uint64_t position) {
  std::map<std::string, std::uint64_t> counts;
  const StepDraws draws = mixture.draws(position);
  for (std::size_t i = 0; i < draws.counts.size(); ++i) {
    if (draws.counts[i] > 0) counts[mixture.sources()[i].name] = draws.counts[i];
  }
  return counts;
}

void expect_accepted(std::uint64_t step, const Edit& edit) {
  const auto mixture = resumed(step, edit);
  ASSERT_TRUE(mixture) << mixture.error().message();
  const auto was = Mixture::create(saved()).value();
  for (std::uint64_t position = 0; position < step; ++position) {
    EXPECT_EQ(counts(**mixture, position), counts(*was, position)) << position;
  }
}

std::string refusal(std::uint64_t step, const Edit& edit, std::uint64_t lookahead = 1) {
  const auto mixture = resumed(step, edit, lookahead);
  return mixture ? "accepted" : mixture.error().message();
}

TEST(MixtureEdit, AcceptsChangesOfLaterSteps) {
  expect_accepted(40, [](MixtureOptions&) {});
  expect_accepted(40, [](MixtureOptions& m) { m.sources.push_back(source("d", {{40, 5}})); });
  expect_accepted(40, [](MixtureOptions& m) { m.sources[1].schedule.points[1] = {40, 9}; });
  expect_accepted(40, [](MixtureOptions& m) { m.sources[0].schedule.points.push_back({41, 0}); });
  expect_accepted(40, [](MixtureOptions& m) { m.sources.erase(m.sources.begin()); });
  expect_accepted(40, [](MixtureOptions& m) { m.sources.pop_back(); });
  expect_accepted(40, [](MixtureOptions& m) { m.sources[2].epochs = 9; });
  expect_accepted(40, [](MixtureOptions& m) { m.steps = 60; });
  expect_accepted(20, [](MixtureOptions& m) { m.sources[2] = source("c", {{30, 1}}, 55); });
  expect_accepted(0, [](MixtureOptions& m) { m.seed = 9; });
  expect_accepted(
      40, [](MixtureOptions& m) { m.skipped = SkippedSteps::parse({"40-45", "60"}).value(); });
}

TEST(MixtureEdit, ADroppedSourceGivesNothingAndStaysInTheState) {
  const auto mixture =
      resumed(40, [](MixtureOptions& m) { m.sources.erase(m.sources.begin()); }).value();
  for (std::uint64_t position = 40; position < 120; ++position) {
    EXPECT_EQ(counts(*mixture, position).count("a"), 0U);
    EXPECT_EQ(mixture->draws(position).size(), 8U);
  }
  // It is known from the state alone when the job is resumed again.
  const auto json = mixture_json(mixture->options()).value();
  MixtureOptions present = saved();
  present.sources.erase(present.sources.begin());
  const auto again = continued_mixture(mixture_from_json(json).value(), present, 70).value();
  EXPECT_EQ(again->options(), mixture->options());
}

TEST(MixtureEdit, ADroppedSourceReturnsFromALaterStepOn) {
  const auto dropped =
      resumed(40, [](MixtureOptions& m) { m.sources.erase(m.sources.begin()); }).value();
  MixtureOptions back = saved();
  back.sources[0].schedule.points = {{0, 1}, {40, 0}, {80, 1}};
  EXPECT_TRUE(continued_mixture(dropped->options(), back, 70));
  const auto refused = continued_mixture(dropped->options(), saved(), 70);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("to step 40"));
}

TEST(MixtureEdit, NamesSourceStepAndBothCounts) {
  EXPECT_EQ(
      refusal(40, [](MixtureOptions& m) { m.sources[1].schedule.points = {{0, 2}, {20, 6}}; }),
      "source 'a' gives 1 sample to step 20, and gave it 3 when it was trained: change "
      "proportions, epochs and sources from step 40 on only");
  EXPECT_THAT(refusal(40, [](MixtureOptions& m) { m.sources.push_back(source("d", {{39, 9}})); }),
              HasSubstr("to step 39, and gave"));
  EXPECT_THAT(refusal(60, [](MixtureOptions& m) { m.sources[0].epochs = 1; }),
              HasSubstr("source 'a' gives"));
}

TEST(MixtureEdit, RefusesOtherSettingsAndData) {
  EXPECT_THAT(refusal(1, [](MixtureOptions& m) { m.seed = 4; }),
              HasSubstr("seed is 4, and was 3 when the state was saved: give 3"));
  EXPECT_THAT(refusal(1, [](MixtureOptions& m) { m.shuffled = false; }),
              HasSubstr("shuffle is off, and was global"));
  EXPECT_THAT(refusal(1, [](MixtureOptions& m) { m.global_batch_size = 16; }),
              HasSubstr("global_batch_size is 16, and was 8"));
  EXPECT_THAT(refusal(40, [](MixtureOptions& m) { m.sources[0].size = 120; }),
              AllOf(HasSubstr("source 'a' has 120 usable samples, and had 100"),
                    HasSubstr("a new name, and a proportion from step 40 on")));
  EXPECT_THAT(refusal(40, [](MixtureOptions& m) { m.sources[0].fingerprint = 1; }),
              HasSubstr("source 'a' has other samples"));
  EXPECT_THAT(refusal(40, [](MixtureOptions& m) { m.steps = 30; }),
              HasSubstr("has 30 steps, and 40 steps have been trained"));
  EXPECT_THAT(
      refusal(40, [](MixtureOptions& m) { m.skipped = SkippedSteps::parse({"10-12"}).value(); }),
      AllOf(HasSubstr("after 10 steps comes step 13 of the data, and step 10"),
            HasSubstr("from 40 on only")));
}

TEST(MixtureEdit, AMixtureBySizeCannotChangeInItsMiddle) {
  MixtureOptions sizes = saved();
  for (MixtureSource& plain : sizes.sources) plain.schedule.points.clear();
  EXPECT_TRUE(continued_mixture(sizes, sizes, 5));
  MixtureOptions more = sizes;
  more.sources.push_back(source("d", {}));
  MixtureOptions fewer = sizes;
  fewer.sources.pop_back();
  for (const MixtureOptions& other : {more, fewer, saved()}) {
    const auto refused = continued_mixture(sizes, other, 5);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr("cannot change in its middle"));
  }
  EXPECT_TRUE(continued_mixture(sizes, more, 0));
  // Nor between two of its epochs.
  EXPECT_TRUE(continued_mixture(sizes, sizes, 0, 1, 1));
  EXPECT_FALSE(continued_mixture(sizes, more, 0, 1, 1));
  MixtureOptions grown = sizes;
  grown.sources.back().size += 1;
  EXPECT_FALSE(continued_mixture(sizes, grown, 0, 1, 1));
}

TEST(MixtureEdit, AMixtureThatHasEndedKeepsItsDataWhenItIsMadeLonger) {
  MixtureOptions ended = saved();
  ended.steps = 98;
  MixtureOptions longer = ended;
  longer.steps = 200;
  EXPECT_TRUE(continued_mixture(ended, longer, 98));
  longer.sources[0].size += 1;
  const auto grown = continued_mixture(ended, longer, 98);
  ASSERT_FALSE(grown);
  EXPECT_THAT(grown.error().message(), HasSubstr("source 'a' has 101 usable samples, and had 100"));
}

TEST(MixtureEdit, ALastWindowThatIsNotWholeGoesOnAsItWas) {
  MixtureOptions ended = saved();
  ended.steps = 98;
  MixtureOptions longer = ended;
  longer.steps = 200;
  for (const std::uint64_t step : {97, 98}) {
    EXPECT_TRUE(continued_mixture(ended, ended, step, 4)) << step;
    const auto refused = continued_mixture(ended, longer, step, 4);
    ASSERT_FALSE(refused) << step;
    EXPECT_THAT(refused.error().message(), HasSubstr("last look-ahead window"));
  }
  EXPECT_TRUE(continued_mixture(ended, longer, 96, 4));
  EXPECT_TRUE(continued_mixture(ended, longer, 98, 2));
}

TEST(MixtureEdit, EditsBeginAtAWindowsStart) {
  const Edit change = [](MixtureOptions& m) { m.sources[0].schedule.points.push_back({41, 5}); };
  EXPECT_EQ(refusal(40, change, 4), "accepted");
  EXPECT_THAT(refusal(41, change, 4), HasSubstr("from step 44 on only"));
  const Edit drop = [](MixtureOptions& m) { m.sources.erase(m.sources.begin()); };
  EXPECT_EQ(refusal(40, drop, 4), "accepted");
  EXPECT_THAT(refusal(41, drop, 4), AllOf(HasSubstr("source 'a' is gone, and step 41 needs"),
                                          HasSubstr("a proportion of 0 from step 44 on")));
}

// A job that is killed again and again, and edited each time, draws each sample as if it were told
// all edits at the start: each source's samples are numbered without a gap or a repetition.
TEST(MixtureEdit, EachDrawFollowsTheOneBeforeThroughAnyEdits) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    MixtureOptions file;
    file.global_batch_size = 1 + random.below(9);
    file.sources = {source("s0", {{0, 1}})};
    std::map<std::string, std::uint64_t> drawn;
    auto mixture = Mixture::create(file).value();
    std::uint64_t step = 0;
    for (int life = 1; life < 12; ++life) {
      const std::uint64_t killed = step + random.below(40);
      for (; step < killed; ++step) {
        const StepDraws draws = mixture->draws(step);
        ASSERT_EQ(draws.size(), file.global_batch_size);
        for (std::size_t i = 0; i < draws.counts.size(); ++i) {
          ASSERT_EQ(draws.before[i], drawn[mixture->sources()[i].name]) << seed << ": " << step;
          drawn[mixture->sources()[i].name] += draws.counts[i];
        }
      }
      const auto state = mixture_json(mixture->options()).value();
      for (MixtureSource& source : file.sources) {
        if (random.below(2) == 0) continue;
        const std::uint64_t last = source.schedule.points.back().step;
        source.schedule.points.push_back(
            {std::max(step, last + 1) + random.below(5), random.uniform() + 1e-3});
      }
      file.sources.push_back(source("s" + std::to_string(life),
                                    {{step + (random.below(2) * 7), 1 + random.uniform()}}));
      if (random.below(2) == 0 && file.sources.size() > 2) file.sources.erase(file.sources.begin());
      const bool covered = std::ranges::any_of(file.sources, [&](const MixtureSource& s) {
        return s.schedule.points.front().step <= step;
      });
      if (!covered) file.sources.push_back(source("t" + std::to_string(life), {{step, 1}}));
      auto next = continued_mixture(mixture_from_json(state).value(), file, step);
      ASSERT_TRUE(next) << seed << ": " << next.error().message();
      mixture = *std::move(next);
    }
  }
}

TEST(SavedMixture, IsReadBackAsItWas) {
  MixtureOptions options = saved();
  options.seed = 0xFEDCBA9876543210U;
  options.steps = 1234;
  options.shuffled = false;
  options.skipped = SkippedSteps::parse({"3-5", "9"}).value();
  options.sources[0].name = "größer \"1\"";
  options.sources[0].schedule.points = {{0, 0.1}, {4294967295, 1e-9}};
  options.sources[0].schedule.ramp = true;
  options.sources[1].schedule.end = 77;
  options.sources[1].epochs = 4;
  const std::string json = mixture_json(options).value();
  EXPECT_EQ(mixture_from_json(json).value(), options);
  EXPECT_THAT(json, HasSubstr("\"skip_steps\":[\"3-5\",\"9\"]"));
  MixtureOptions skipping;
  skipping.skipped = options.skipped;
  EXPECT_EQ(mixture_json(skipping).value(), R"({"version":1,"skip_steps":["3-5","9"]})");
  EXPECT_EQ(mixture_from_json(mixture_json(skipping).value()).value(), skipping);
}

TEST(SavedMixture, RefusesWhatWasNotWritten) {
  const std::string good = mixture_json(saved()).value();
  const auto message = [](std::string json) {
    const auto read = mixture_from_json(json);
    return read ? "accepted" : read.error().message();
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = good;
    changed.replace(changed.find(from), from.size(), to);
    return message(changed);
  };
  EXPECT_EQ(message(good), "accepted");
  EXPECT_THAT(message("{"), HasSubstr("mixture of the saved state"));
  EXPECT_THAT(with("\"version\":1", "\"version\":2"), HasSubstr("version"));
  EXPECT_THAT(with("\"seed\":\"0000000000000003\"", "\"seed\":\"3\""),
              HasSubstr("'seed' must be 16 hexadecimal digits"));
  EXPECT_THAT(with("\"size\":100", "\"size\":-1"), HasSubstr("size"));
  EXPECT_THAT(with("\"proportions\":[1.0]", "\"proportions\":[1.0,2.0]"),
              HasSubstr("'sources.0.proportions' must have a value for each of the steps"));
  EXPECT_THAT(with("\"name\"", "\"nam\""), HasSubstr("nam"));
  EXPECT_THAT(with("{\"version\"", "{\"skip_steps\":[\"9-3\"],\"version\""),
              HasSubstr("skip_steps"));
}

TEST(SavedMixture, AStateHasRoomForALimitedMixture) {
  MixtureOptions large = saved();
  for (std::uint64_t step = 1; step < 1000; ++step) {
    for (MixtureSource& source : large.sources) {
      source.schedule.points.push_back({step * 1'000'000, 1.0 / 3 + static_cast<double>(step)});
    }
  }
  const auto json = mixture_json(large);
  ASSERT_FALSE(json);
  EXPECT_THAT(json.error().message(), AllOf(HasSubstr("65536"), HasSubstr("fewer sources")));
}

}  // namespace
}  // namespace isocost
