#include "costmodel/predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "costmodel/cost_model.h"
#include "costmodel/memory.h"

namespace isocost {
namespace {

using testing::HasSubstr;

constexpr double kFixedSeconds = 2e-3;

ModuleLoad load_of(std::int64_t length, std::int64_t count) {
  return {.sequences = count, .units = length * count, .units_squared = length * length * count};
}

// Seconds of one sequence on a machine whose kernels change at length 512: no polynomial fits it.
double hidden(double length) {
  return (length < 512 ? 4e-6 : 2e-6) * std::pow(length, 1.1) + (length < 512 ? 0 : 2e-3);
}

ProfilePoint point_of(std::int64_t length, std::int64_t count) {
  const double seconds =
      kFixedSeconds + static_cast<double>(count) * hidden(static_cast<double>(length));
  return {.load = load_of(length, count), .forward_s = seconds / 3, .backward_s = 2 * seconds / 3};
}

ModuleProfile bent_profile() {
  ModuleProfile profile;
  for (std::int64_t length = 32; length <= 4096; length *= 2) {
    profile.points.push_back(point_of(length, 1));
    profile.points.push_back(point_of(length, 8));
  }
  profile.coefficients = fit_coefficients(profile.points);
  return profile;
}

TEST(Fit, FindsTheCoefficientsThatMadeThePoints) {
  const ModuleCoefficients truth{4e-3, 1e-4, 2e-6, 4e-10};
  std::vector<ProfilePoint> points;
  for (const std::int64_t length : {64, 256, 1024, 4096}) {
    for (const std::int64_t count : {1, 4, 16}) {
      const ModuleLoad load = load_of(length, count);
      points.push_back({.load = load, .forward_s = predict(truth, load).count()});
    }
  }
  const ModuleCoefficients fitted = fit_coefficients(points);
  EXPECT_NEAR(fitted.per_microbatch / truth.per_microbatch, 1, 1e-4);
  EXPECT_NEAR(fitted.per_sequence / truth.per_sequence, 1, 1e-3);
  EXPECT_NEAR(fitted.per_unit / truth.per_unit, 1, 1e-4);
  EXPECT_NEAR(fitted.per_unit_squared / truth.per_unit_squared, 1, 1e-4);
}

TEST(Predictor, FollowsABendThatTheFormCannotExpress) {
  const ModuleProfile profile = bent_profile();
  const ModulePredictor predictor(profile);
  double worst = 0;
  double worst_of_form = 0;
  for (const std::int64_t length : {48, 96, 192, 384, 768, 1536, 3072}) {
    const double exact = hidden(static_cast<double>(length));
    const double by_form = predict(profile.coefficients, load_of(length, 1)).count() -
                           profile.coefficients.per_microbatch;
    worst = std::max(worst, std::abs(predictor.sample(load_of(length, 1)) / exact - 1));
    worst_of_form = std::max(worst_of_form, std::abs(by_form / exact - 1));
  }
  EXPECT_LT(worst, 0.25);
  EXPECT_LT(worst, worst_of_form / 2);
}

TEST(Predictor, GrowsWithLengthAndHasNoStepAtTheEdges) {
  const ModulePredictor predictor(bent_profile());
  double before = 0;
  for (std::int64_t length = 8; length < 20'000; length += 1 + length / 64) {
    const double seconds = predictor.sample(load_of(length, 1));
    EXPECT_GE(seconds, before) << length;
    if (before > 0) {
      EXPECT_LT(seconds, 1.6 * before) << length;
    }
    before = seconds;
  }
  EXPECT_NEAR(predictor.sample(load_of(4097, 1)) / predictor.sample(load_of(4096, 1)), 1, 1e-3);
}

TEST(Predictor, NamesTheOriginOfAPrediction) {
  const ModulePredictor predictor(bent_profile());
  EXPECT_EQ(predictor.origin(load_of(256, 3)), PriceOrigin::kMeasured);
  EXPECT_EQ(predictor.origin(load_of(300, 3)), PriceOrigin::kInterpolated);
  EXPECT_EQ(predictor.origin(load_of(16'384, 1)), PriceOrigin::kExtrapolated);
  EXPECT_EQ(predictor.origin(load_of(256, 1000)), PriceOrigin::kExtrapolated);
  EXPECT_GT(predictor.uncertainty(load_of(16'384, 1)),
            predictor.uncertainty(load_of(300, 1)) + 0.1);
  const ModulePredictor stated(CostProfile::stated_default().modules[0]);
  EXPECT_EQ(stated.origin(load_of(256, 1)), PriceOrigin::kStated);
  EXPECT_EQ(price_origin_name(PriceOrigin::kExtrapolated), "extrapolated");
}

// Small microbatches run at half the rate of large ones, for all lengths.
TEST(Predictor, FollowsThroughputThatDependsOnTheMicrobatchSize) {
  const auto slower = [](double units) { return 1 + 1 / (1 + std::pow(units / 2048, 2)); };
  const auto seconds = [&](std::int64_t length, std::int64_t count) {
    const auto l = static_cast<double>(length);
    const auto n = static_cast<double>(count);
    return 1e-6 * n * l * (1 + l / 4096) * slower(n * l);
  };
  ModuleProfile profile;
  for (const std::int64_t length : {64, 256, 1024, 4096}) {
    for (const std::int64_t count : {std::int64_t{1}, 128 / (length / 64), 512 / (length / 64)}) {
      if (count < 1) continue;
      profile.points.push_back(
          {.load = load_of(length, count), .forward_s = seconds(length, count)});
    }
  }
  profile.coefficients = fit_coefficients(profile.points);
  const ModulePredictor predictor(profile);
  for (const std::int64_t length : {64, 256, 1024}) {
    for (const std::int64_t units : {2048, 6144, 16'384}) {
      const ModuleLoad load = load_of(length, units / length);
      EXPECT_NEAR(predictor.microbatch(load) / seconds(length, units / length), 1, 0.12)
          << length << " x " << units / length;
    }
  }
  const ModulePredictor flat(bent_profile());
  EXPECT_NEAR(flat.microbatch(load_of(256, 8)) / (kFixedSeconds + 8 * hidden(256)), 1, 0.02);
}

TEST(Predictor, MoreWorkNeverTakesLessTime) {
  ModuleProfile profile;  // one small microbatch was disturbed while it was measured
  profile.points = {{.load = load_of(64, 1), .forward_s = 9e-3},
                    {.load = load_of(64, 8), .forward_s = 8e-3},
                    {.load = load_of(64, 64), .forward_s = 64e-3}};
  profile.coefficients = fit_coefficients(profile.points);
  const ModulePredictor predictor(profile);
  double before = 0;
  for (std::int64_t count = 1; count < 300; ++count) {
    const double seconds = predictor.microbatch(load_of(64, count));
    EXPECT_GE(seconds, before) << count;
    before = seconds;
  }
}

TEST(Memory, FollowsTheMeasuredPeaks) {
  ModuleProfile profile;
  for (const std::int64_t length : {256, 1024, 4096}) {
    for (const std::int64_t count : {1, 4}) {
      const ModuleLoad load = load_of(length, count);
      profile.points.push_back({.load = load,
                                .forward_s = 1e-6 * static_cast<double>(load.units),
                                .backward_s = 2e-6 * static_cast<double>(load.units),
                                .peak_bytes = 1'000'000 + 3000 * load.units});
    }
  }
  EXPECT_NEAR(static_cast<double>(predict_memory(profile, load_of(2048, 2)).activations),
              1e6 + 3000 * 4096, 1e4);
  EXPECT_NEAR(static_cast<double>(predict_memory(profile, load_of(2048, 2), 3).activations),
              3 * (1e6 + 3000 * 4096), 3e4);
  EXPECT_EQ(predict_memory(profile, load_of(2048, 2)).weights, 0);
  EXPECT_NEAR(activation_bytes_per_unit(profile), 3000, 3000 * 0.05);
}

TEST(Memory, FollowsTheArchitectureWithoutMeasurements) {
  const ModuleProfile profile = CostProfile::stated_default().modules[2];
  const ModuleMemory memory = predict_memory(profile, load_of(1000, 2));
  EXPECT_EQ(memory.weights, 2 * profile.architecture->parameters());
  EXPECT_EQ(memory.gradients, 2 * memory.weights);
  EXPECT_EQ(memory.optimizer, 6 * memory.weights);
  // 28 layers plus the head in layers; each keeps 2 bytes × (6 widths, keys, values, 3 MLP widths).
  const double layers = 28 + profile.architecture->head_layers();
  EXPECT_NEAR(static_cast<double>(memory.activations),
              layers * 2 * (6 * 3584 + 2 * 512 + 3 * 18'944) * 2000, 1);
  EXPECT_EQ(memory.activations_per_layer, 2 * (6 * 3584 + 2 * 512 + 3 * 18'944) * 2000);
  EXPECT_NEAR(activation_bytes_per_unit(profile) * 2000, static_cast<double>(memory.activations),
              1);
  EXPECT_EQ(memory.total(),
            memory.weights + memory.gradients + memory.optimizer + memory.activations);
}

TEST(Memory, AFrozenModuleHoldsItsWeightsAndOneMicrobatch) {
  ModuleProfile profile = bent_profile();
  profile.architecture = Architecture::siglip_so400m();
  const ModuleMemory trained = predict_memory(profile, load_of(1024, 2), 4);
  EXPECT_GT(trained.optimizer, 0);
  for (ProfilePoint& point : profile.points) point.backward_s = 0;
  const ModuleMemory frozen = predict_memory(profile, load_of(1024, 2), 4);
  EXPECT_EQ(frozen.weights, trained.weights);
  EXPECT_EQ(frozen.gradients, 0);
  EXPECT_EQ(frozen.optimizer, 0);
  EXPECT_NEAR(static_cast<double>(frozen.activations),
              static_cast<double>(trained.activations) / (4 * 27), 1);
  EXPECT_EQ(frozen.activations_per_layer, frozen.activations);
  profile.points.back().backward_s = 1e-3;  // one point with a backward pass: it is trained
  EXPECT_EQ(predict_memory(profile, load_of(1024, 2), 4).optimizer, trained.optimizer);
}

TEST(Memory, IsClampedToAnExbibyte) {
  const ModuleProfile llm = CostProfile::stated_default().modules[2];
  const std::int64_t most = std::int64_t{1} << 24;
  const ModuleMemory memory = predict_memory(llm, load_of(most, 3), 1'000'000);
  EXPECT_EQ(memory.activations, ModuleMemory::kMost);
  EXPECT_LE(memory.activations_per_layer, memory.activations);
  EXPECT_GT(memory.total(), memory.activations);
  ModuleProfile largest;  // the largest values that a profile file may state
  const std::int64_t side = std::int64_t{1} << 20;
  largest.architecture = Architecture{.name = "largest",
                                      .layers = side,
                                      .width = side,
                                      .heads = 1,
                                      .key_value_width = side,
                                      .mlp = side,
                                      .gated = true,
                                      .embedding_parameters = side * side};
  const ModuleMemory whole = predict_memory(largest, load_of(most, 1));
  EXPECT_EQ(whole.weights, ModuleMemory::kMost);
  EXPECT_EQ(whole.total(), 3 * ModuleMemory::kMost + whole.activations);
}

TEST(Memory, KnowsAtWhichLoadMemoryRanOut) {
  ModuleProfile profile = bent_profile();
  EXPECT_FALSE(beyond_memory(profile, load_of(8192, 8), 1000));  // memory never ran out
  profile.out_of_memory = load_of(4096, 16);
  EXPECT_FALSE(beyond_memory(profile, load_of(4096, 15)));
  EXPECT_TRUE(beyond_memory(profile, load_of(4096, 16)));
  EXPECT_TRUE(beyond_memory(profile, load_of(8192, 8)));
  EXPECT_FALSE(beyond_memory(profile, load_of(8192, 7)));
  EXPECT_FALSE(beyond_memory(profile, load_of(64, 1024)));  // equal units, less attention
  EXPECT_TRUE(beyond_memory(profile, load_of(64, 65'536)));
  EXPECT_TRUE(beyond_memory(profile, load_of(4096, 4), 4));  // four are held
  for (ProfilePoint& point : profile.points) point.backward_s = 0;
  EXPECT_FALSE(beyond_memory(profile, load_of(4096, 4), 4));  // frozen: one is held
}

TEST(Predictor, NoisyNeighboursThatFallWithLengthArePooled) {
  ModuleProfile profile;
  profile.points = {{.load = load_of(100, 1), .forward_s = 1.1},
                    {.load = load_of(110, 1), .forward_s = 1.0},
                    {.load = load_of(400, 1), .forward_s = 4.0}};
  profile.coefficients = fit_coefficients(profile.points);
  const ModulePredictor predictor(profile);
  EXPECT_DOUBLE_EQ(predictor.sample(load_of(100, 1)), predictor.sample(load_of(110, 1)));
}

TEST(Predictor, AMicrobatchOfSeveralLengthsIsTheSumOverItsSequences) {
  CostProfile profile;
  profile.modules[0] = bent_profile();
  const CostModel model(profile, {});
  std::vector<Load> samples(2);
  samples[0][CostModule::kVision] = load_of(64, 40);
  samples[1][CostModule::kVision] = load_of(4096, 1);
  Load all;
  for (const Load& sample : samples) all += sample;
  const double exact = kFixedSeconds + 40 * hidden(64) + hidden(4096);
  const double predicted = model.predict_microbatch(all, model.shape_of(samples))[0];
  EXPECT_NEAR(predicted / exact, 1, 0.02);
}

std::string file_with(const std::string& vision) {
  const std::string none =
      R"({"per_microbatch": 0, "per_sequence": 0, "per_unit": 0, "per_unit_squared": 0})";
  return R"({"version": 1, "unit": "seconds", "modules": {"vision": )" + vision + R"(, "audio": )" +
         none + R"(, "llm": )" + none + "}}";
}

std::string point_json(const std::string& load, const std::string& rest) {
  return R"({"points": [{"sequences": 1, )" + load + ", " + rest + "}]}";
}

TEST(MeasuredProfile, PrintsAndReadsBack) {
  CostProfile profile;
  profile.modules[0] = bent_profile();
  profile.modules[0].out_of_memory = load_of(8192, 8);
  profile.modules[0].architecture = Architecture::siglip_so400m();
  profile.hardware = "a machine";
  profile.dtype = "float64";
  profile.versions = {{"torch", "2.4"}};
  const auto again = CostProfile::parse(profile.to_json());
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->modules[0].points.size(), profile.modules[0].points.size());
  EXPECT_EQ(again->modules[0].coefficients, profile.modules[0].coefficients);
  EXPECT_EQ(again->modules[0].out_of_memory, profile.modules[0].out_of_memory);
  EXPECT_EQ(again->modules[0].architecture, profile.modules[0].architecture);
  EXPECT_FALSE(again->modules[1].architecture);
  EXPECT_EQ(again->hardware, "a machine");
  EXPECT_EQ(again->dtype, "float64");
  EXPECT_EQ(again->versions, profile.versions);
  EXPECT_EQ(again->to_json(), profile.to_json());
}

TEST(MeasuredProfile, BadPointsAreNamed) {
  const std::string load = R"("units": 10, "units_squared": 100)";
  const std::string rest = R"("forward_s": 1, "backward_s": 0, "spread": 0, "peak_bytes": 0)";
  const std::string good = R"({"sequences": 1, "units": 10, "units_squared": 100, )" + rest + "}";
  const auto slow = [](const char* load_of_it) {
    return std::string("{") + load_of_it +
           R"(, "forward_s": 9, "backward_s": 0, "spread": 0, "peak_bytes": 0})";
  };
  struct Case {
    std::string module;
    const char* says;
  };
  const Case cases[] = {
      {R"({"points": 3})", "'modules.vision.points' must be an array"},
      {R"({"points": []})", "'modules.vision.points' is empty"},
      {R"({"points": [], "out_of_memory": {"sequences": 1, "units": 1, "units_squared": 1}})",
       "the smallest load ran out of memory"},
      {R"({"points": [3]})", "'modules.vision.points.0' must be an object"},
      {point_json(R"("units": 10)", rest), "points.0.units_squared' is missing"},
      {point_json(R"("units": -10, "units_squared": 100)", rest), "units' must be between 1"},
      {point_json(R"("units": 1.5, "units_squared": 100)", rest), "units' must be an integer"},
      {point_json(R"("units": 10, "units_squared": 5)", rest), "is inconsistent"},
      {point_json(R"("units": 10, "units_squared": 10)", rest), "is inconsistent"},
      {point_json(R"("units": 10, "units_squared": 101)", rest), "is inconsistent"},
      {point_json(load, R"("forward_s": 1, "backward_s": 0, "spread": 1e300, "peak_bytes": 0)"),
       "spread' must be at most 100"},
      {R"({"points": [)" + good +
           R"(], "out_of_memory": {"sequences": 1, "units": 9, "units_squared": 81}})",
       "'modules.vision.out_of_memory' must be larger than"},
      {point_json(R"("units": 10, "units_squared": 18446744073709551615)", rest),
       "units_squared' must be between 1"},
      {point_json(load, R"("forward_s": -1, "backward_s": 0, "spread": 0, "peak_bytes": 0)"),
       "forward_s' must not be negative"},
      {point_json(load, R"("forward_s": 0, "backward_s": 0, "spread": 0, "peak_bytes": 0)"),
       "must add up to"},
      {point_json(load, R"("forward_s": 1e9, "backward_s": 0, "spread": 0, "peak_bytes": 0)"),
       "must add up to"},
      {R"({"points": [)" + good + R"(], "architecture": {"name": "a", "layers": 0}})",
       "'modules.vision.architecture.gated' is missing"},
      {R"({"points": [)" + good +
           R"(], "architecture": {"name": "a", "gated": false, "layers": 0}})",
       "'modules.vision.architecture.layers' must be between 1"},
      {R"({"points": [)" + good + R"(], "architecture": {"depth": 3}})",
       "depth' is not a known key"},
      {point_json(load, R"("forward_ms": 1)"), "'modules.vision.points.0.forward_ms' is not"},
      {R"({"points": [)" + good + R"(], "per_unit": 1})", "'modules.vision.per_unit' is not"},
      {R"({"points": [)" + good + "," +
           slow(R"("sequences": 1, "units": 10, "units_squared": 100)") + "]}",
       "which has the same load"},
      {R"({"points": [)" + good + "," + slow(R"("sequences": 1, "units": 8, "units_squared": 64)") +
           "]}",
       "whose load is not smaller"},
  };
  for (const Case& bad : cases) {
    const auto profile = CostProfile::parse(file_with(bad.module));
    ASSERT_FALSE(profile) << bad.module;
    EXPECT_EQ(profile.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(profile.error().message(), HasSubstr(bad.says)) << bad.module;
  }
  EXPECT_TRUE(CostProfile::parse(file_with(R"({"points": [)" + good + "]}")));
}

}  // namespace
}  // namespace isocost
