#include "balancer/layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include "balancer/layout/layout_model.h"
#include "base/scratch_directory.h"

namespace isocost {
namespace {

const char* const kGood = R"({"version": 1, "encoder_place": "own",
  "encoder": {"tensor": 2, "pipeline": 1, "data": 6},
  "llm": {"tensor": 4, "pipeline": 3, "data": 4},
  "microbatches": 12, "chunks": 1, "schedule": "zb-h1"})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Layout, RoundTripsThroughJson) {
  const auto layout = Layout::parse(kGood);
  ASSERT_TRUE(layout.has_value()) << layout.error().message();
  EXPECT_EQ(layout->encoder, (ModuleDegrees{2, 1, 6}));
  EXPECT_EQ(layout->llm, (ModuleDegrees{4, 3, 4}));
  EXPECT_EQ(layout->schedule, Schedule::kZbH1);
  EXPECT_EQ(layout->ranks(), 60U);
  const auto again = Layout::parse(layout->to_json());
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(*again, *layout);
  Layout limited = *layout;
  limited.activation_caps = {.encoder_bytes = 1 << 30, .llm_bytes = 2 << 20};
  limited.interconnect = "node=450GB/s";
  EXPECT_EQ(Layout::parse(limited.to_json()).value(), limited);
  limited.encoder_ahead = 2;
  limited.coupled = true;
  EXPECT_EQ(Layout::parse(limited.to_json()).value(), limited);
  EXPECT_NE(limited.fingerprint(), layout->fingerprint());
  limited.layers = {.encoder = {27}, .llm = {10, 10, 8}};
  EXPECT_EQ(Layout::parse(limited.to_json()).value(), limited);
  EXPECT_EQ(layout->to_string(), "encoder 2x1x6, llm 4x3x4, 12 microbatches, zb-h1");
}

TEST(Layout, ASharedPipelineWithoutLayersIsWarnedOf) {
  Layout layout{.encoder_place = EncoderPlacement::kLlmRanks,
                .encoder = {1, 2, 4},
                .llm = {1, 2, 4},
                .microbatches = 8};
  EXPECT_THAT(layout.warnings(), testing::ElementsAre(testing::HasSubstr("may disagree")));
  layout.layers = {.encoder = {27, 0}, .llm = {8, 20}};
  EXPECT_THAT(layout.warnings(), testing::IsEmpty());
  layout.layers = {};
  layout.encoder.pipeline = layout.llm.pipeline = 1;
  EXPECT_THAT(layout.warnings(), testing::IsEmpty()) << "nothing is cut";
}

struct Wrong {
  std::string name;
  std::string from;
  std::string to;
  ErrorCode code;
  std::string message;
};

class WrongLayouts : public testing::TestWithParam<Wrong> {};

TEST_P(WrongLayouts, NameTheField) {
  const auto layout = Layout::parse(replaced(kGood, GetParam().from, GetParam().to));
  ASSERT_FALSE(layout.has_value());
  EXPECT_EQ(layout.error().code(), GetParam().code) << layout.error().message();
  EXPECT_THAT(layout.error().message(), testing::HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Files, WrongLayouts,
    testing::Values(
        Wrong{"truncated", "\"zb-h1\"}", "\"zb-h1\"", ErrorCode::kCorrupt, "layout: "},
        Wrong{"version", "\"version\": 1", "\"version\": 2", ErrorCode::kUnsupported,
              "reads version 1"},
        Wrong{"no_version", "\"version\": 1, ", "", ErrorCode::kCorrupt, "'version' is missing"},
        Wrong{"unknown", "\"chunks\"", "\"chunk\"", ErrorCode::kCorrupt, "'chunk' is not a known"},
        Wrong{"twice", "\"chunks\": 1", "\"chunks\": 1, \"chunks\": 1", ErrorCode::kCorrupt,
              "given twice"},
        Wrong{"missing", "\"tensor\": 4, ", "", ErrorCode::kCorrupt, "'llm.tensor' is missing"},
        Wrong{"zero", "\"tensor\": 4", "\"tensor\": 0", ErrorCode::kCorrupt,
              "'llm.tensor' must be between 1"},
        Wrong{"negative", "\"data\": 6", "\"data\": -6", ErrorCode::kCorrupt, "'encoder.data'"},
        Wrong{"fraction", "\"data\": 6", "\"data\": 6.5", ErrorCode::kCorrupt,
              "must be an integer"},
        Wrong{"huge", "\"microbatches\": 12", "\"microbatches\": 99999999999999999999",
              ErrorCode::kCorrupt, "'microbatches'"},
        Wrong{"schedule", "zb-h1", "zb-h9", ErrorCode::kCorrupt, "'schedule' must be"},
        Wrong{"place", "\"own\"", "\"there\"", ErrorCode::kCorrupt, "'encoder_place'"},
        Wrong{"shared", "\"own\"", "\"llm\"", ErrorCode::kInvalidArgument, "must equal 'llm'"},
        Wrong{"caps", "\"chunks\": 1", "\"chunks\": 1, \"activation_caps\": {\"llm_bytes\": -1}",
              ErrorCode::kCorrupt, "'activation_caps.encoder_bytes' is missing"},
        Wrong{"chunks", "\"chunks\": 1", "\"chunks\": 2", ErrorCode::kInvalidArgument,
              "has one chunk per stage"},
        Wrong{"ahead", "\"chunks\": 1", "\"chunks\": 1, \"encoder_ahead\": 13",
              ErrorCode::kInvalidArgument,
              "'encoder_ahead' is 13; an LLM replica has 12 microbatches"},
        Wrong{"coupled", "\"chunks\": 1", "\"chunks\": 1, \"coupled\": 1", ErrorCode::kCorrupt,
              "'coupled' must be"},
        Wrong{"interconnect", "\"chunks\": 1", "\"chunks\": 1, \"interconnect\": \"fast\"",
              ErrorCode::kInvalidArgument, "layout: 'interconnect': "},
        Wrong{"too_many_ranks", "\"tensor\": 4", "\"tensor\": 100000", ErrorCode::kInvalidArgument,
              "'llm' is 1200000; tensor x pipeline x data"},
        Wrong{"too_many_passes", "\"data\": 4},\n  \"microbatches\": 12",
              "\"data\": 4000},\n  \"microbatches\": 1000", ErrorCode::kInvalidArgument,
              "'microbatches' is 1000; llm.data x"},
        Wrong{"coupled_llm", "\"own\"", "\"llm\", \"coupled\": true", ErrorCode::kInvalidArgument,
              "'coupled' requires"},
        Wrong{"ahead_negative", "\"chunks\": 1", "\"chunks\": 1, \"encoder_ahead\": -1",
              ErrorCode::kCorrupt, "'encoder_ahead' must be"},
        Wrong{"layers_count", "\"data\": 4", "\"data\": 4, \"layers\": [14, 14]",
              ErrorCode::kInvalidArgument, "'llm.layers' has 2 entries; there are 3"},
        Wrong{"layers_type", "\"data\": 4", "\"data\": 4, \"layers\": [9, 9, 10.5]",
              ErrorCode::kCorrupt, "'llm.layers.2' must be an integer between 0 and 100000"},
        Wrong{"layers_negative", "\"data\": 6", "\"data\": 6, \"layers\": [-27]",
              ErrorCode::kCorrupt, "'encoder.layers.0' must be"},
        Wrong{"layers_huge", "\"data\": 6", "\"data\": 6, \"layers\": [18446744073709551615]",
              ErrorCode::kCorrupt, "'encoder.layers.0' must be"},
        Wrong{"layers_object", "\"data\": 6", "\"data\": 6, \"layers\": 27", ErrorCode::kCorrupt,
              "'encoder.layers' must be an array"},
        Wrong{"encoders", "\"data\": 6", "\"data\": 49", ErrorCode::kInvalidArgument,
              "only 48 microbatches"}),
    [](const auto& instance) { return instance.param.name; });

TEST(Layout, InterleavedStagesNeedWholeGroups) {
  std::string text = replaced(kGood, "zb-h1", "interleaved");
  text = replaced(text, "\"chunks\": 1", "\"chunks\": 2");
  EXPECT_TRUE(Layout::parse(text).has_value());
  const auto odd = Layout::parse(replaced(text, "\"microbatches\": 12", "\"microbatches\": 13"));
  ASSERT_FALSE(odd.has_value());
  EXPECT_THAT(odd.error().message(), testing::HasSubstr("multiple of llm.pipeline (3)"));
}

TEST(Layout, FilesAreNamedInErrors) {
  const auto missing = Layout::load("/nowhere/layout.json");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  const auto scratch = ScratchDirectory::create("isocost-layout-test").value();
  const auto file = scratch / "layout.json";
  std::ofstream(file) << "{}";
  const auto empty = Layout::load(file);
  ASSERT_FALSE(empty.has_value());
  EXPECT_THAT(empty.error().message(), testing::HasSubstr(file.string()));
}

// Published sizes: Qwen2.5-7B has 7.62 billion parameters, the tower of SigLIP-so400m 0.41 (without
// its attention pooling).
TEST(Architecture, CountsParameters) {
  const Architecture llm = Architecture::qwen2_5_7b();
  const Architecture encoder = Architecture::siglip_so400m();
  EXPECT_NEAR(static_cast<double>(llm.parameters()), 7.615e9, 0.005e9);
  EXPECT_NEAR(static_cast<double>(encoder.parameters()), 0.413e9, 0.002e9);
  // Keys and values are projected to 4 of 28 heads each: 2/7 of queries and outputs, not 1/2.
  EXPECT_EQ(2 * 3584 * llm.key_value_width * 7, 2 * 3584 * 3584);
  // Two FLOP per weight give the profile's forward FLOP of a token.
  const double flop =
      2.0 * static_cast<double>(llm.layers * llm.layer_parameters() + llm.head_flop_per_unit / 2);
  EXPECT_NEAR(flop, 14'140'571'648.0, 1);
  EXPECT_NEAR(3 * flop / (312e12 * 0.4),
              CostProfile::stated_default().modules[2].coefficients.per_unit, 1e-12);
}

TEST(Layout, StagesShareAllOfAModule) {
  const JobModel job;
  const SampleCost mean{.encoder_s = 0.2, .llm_s = 0.9, .encoder_units = 9000, .llm_units = 2500};
  for (std::size_t pipeline = 1; pipeline <= 28; ++pipeline) {
    for (const EncoderPlacement place :
         {EncoderPlacement::kOwnRanks, EncoderPlacement::kLlmRanks}) {
      const ModuleDegrees llm{2, pipeline, 2};
      const Layout layout{
          .encoder_place = place,
          .encoder = place == EncoderPlacement::kLlmRanks ? llm : ModuleDegrees{1, 3, 2},
          .llm = llm,
          .microbatches = 8};
      const auto model = make_pipeline(job, layout, mean);
      ASSERT_TRUE(model.has_value()) << model.error().message();
      EXPECT_TRUE(model->validate().has_value());
      for (const double share : model->llm.shares) EXPECT_GE(share, 0);
      EXPECT_EQ(model->encoder_on_llm.empty(), place == EncoderPlacement::kOwnRanks);
    }
  }
}

TEST(Layout, ItsOwnCutOverridesOurs) {
  const JobModel job;
  const SampleCost mean{.encoder_s = 0.2, .llm_s = 0.9, .encoder_units = 9000, .llm_units = 2500};
  Layout layout{.encoder = {1, 2, 1}, .llm = {1, 4, 1}, .microbatches = 4};
  const LayerCut ours = layer_cut(job, layout, mean);
  EXPECT_THAT(ours.encoder, testing::ElementsAre(13, 14));
  EXPECT_THAT(ours.llm, testing::ElementsAre(7, 8, 8, 5));  // plus the head's 2.3
  const auto by_default = make_pipeline(job, layout, mean);
  layout.layers = ours;
  ASSERT_TRUE(by_default.has_value());
  EXPECT_EQ(make_pipeline(job, layout, mean)->llm.shares, by_default->llm.shares);

  layout.layers = {.encoder = {20, 7}, .llm = {10, 10, 8, 0}};
  const auto model = make_pipeline(job, layout, mean);
  ASSERT_TRUE(model.has_value()) << model.error().message();
  EXPECT_NEAR(model->encoder.shares[0], 20.0 / 27, 1e-12);
  EXPECT_NEAR(model->llm.shares[2] / model->llm.shares[0], 0.8, 1e-12);
  const double head = job.llm.head_layers();
  EXPECT_NEAR(model->llm.shares[3], head / (28 + head), 1e-12);  // only the head

  layout.layers.llm.back() = 1;
  const auto too_many = make_pipeline(job, layout, mean);
  ASSERT_FALSE(too_many.has_value());
  EXPECT_THAT(too_many.error().message(),
              testing::HasSubstr("'llm.layers' add up to 29; Qwen2.5-7B has 28 layers"));
}

// If both modules share one pipeline, the mean sample determines the cut. A layout file with a cut
// gives the same pipeline to every reader.
TEST(Layout, AJointCutDoesNotDependOnTheReadersSamples) {
  const JobModel job;
  const SampleCost small{.encoder_s = 0.2, .llm_s = 0.9, .encoder_units = 1, .llm_units = 1};
  const SampleCost large{.encoder_s = 2, .llm_s = 0.9, .encoder_units = 1, .llm_units = 1};
  Layout layout{.encoder_place = EncoderPlacement::kLlmRanks,
                .encoder = {1, 4, 1},
                .llm = {1, 4, 1},
                .microbatches = 4};
  EXPECT_NE(make_pipeline(job, layout, small)->llm.shares,
            make_pipeline(job, layout, large)->llm.shares);
  layout.layers = layer_cut(job, layout, small);
  EXPECT_EQ(layout.layers.llm.size(), 4U);
  EXPECT_EQ(make_pipeline(job, layout, small)->llm.shares,
            make_pipeline(job, layout, large)->llm.shares);
  layout.layers.encoder.clear();
  const auto half = layout.validate();
  ASSERT_FALSE(half.has_value());
  EXPECT_THAT(half.error().message(), testing::HasSubstr("must be given together"));
}

TEST(Layout, RefusesDegreesThatTheModelDoesNotAllow) {
  const JobModel job;
  const auto heads = make_pipeline(job, {.llm = {8, 1, 1}}, {});
  ASSERT_FALSE(heads.has_value());
  EXPECT_THAT(heads.error().message(), testing::HasSubstr("must divide Qwen2.5-7B's 28 heads"));
  const auto layers = make_pipeline(job, {.llm = {1, 29, 1}}, {});
  ASSERT_FALSE(layers.has_value());
  EXPECT_THAT(layers.error().message(), testing::HasSubstr("28 layers"));
}

TEST(JobModel, NeedsTheDimensionsOfTheProfilesModel) {
  CostProfile profile = CostProfile::stated_default();
  profile.modules[0].architecture->name = "an encoder";
  profile.modules[2].architecture->layers = 4;
  const auto job = JobModel::create(profile);
  ASSERT_TRUE(job.has_value()) << job.error().message();
  EXPECT_EQ(job->encoder.name, "an encoder");
  const auto deep = make_pipeline(*job, {.llm = {1, 5, 1}}, {});
  ASSERT_FALSE(deep.has_value());
  EXPECT_THAT(deep.error().message(), testing::HasSubstr("Qwen2.5-7B has 4 layers"));
  profile.modules[0].architecture.reset();
  EXPECT_EQ(JobModel::create(profile)->encoder.name, "Whisper large-v3 encoder");
  profile.modules[2].architecture.reset();
  const auto unknown = JobModel::create(profile);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message(), testing::HasSubstr("'modules.llm.architecture'"));
}

// Vision and audio train on the same ranks, so state, gradients and activations include both.
TEST(JobModel, BothEncodersCount) {
  CostProfile profile = CostProfile::stated_default();
  profile.source = "both.json";
  const auto both = JobModel::create(profile);
  profile.modules[1].architecture.reset();
  const auto vision = JobModel::create(profile);
  ASSERT_TRUE(both.has_value() && vision.has_value());
  const std::int64_t audio = Architecture::whisper_large_v3().parameters();
  EXPECT_EQ(both->encoder_parameters(), vision->encoder_parameters() + audio);
  EXPECT_GT(both->encoder_activation_bytes_per_unit(),
            vision->encoder_activation_bytes_per_unit());  // 32 layers of 1,280, not 27 of 1,152

  for (const EncoderPlacement place : {EncoderPlacement::kOwnRanks, EncoderPlacement::kLlmRanks}) {
    const Layout layout{
        .encoder_place = place, .encoder = {2, 2, 3}, .llm = {2, 2, 3}, .microbatches = 8};
    const SampleCost mean{.encoder_s = 0.1, .llm_s = 2, .encoder_units = 1, .llm_units = 1};
    const auto of_both = make_pipeline(*both, layout, mean);
    const auto of_vision = make_pipeline(*vision, layout, mean);
    ASSERT_TRUE(of_both.has_value() && of_vision.has_value());
    const auto reduce_s = [](const PipelineModel& model) {
      return model.encoder.transfers.reduce.seconds + model.llm.transfers.reduce.seconds;
    };
    EXPECT_GT(reduce_s(*of_both), reduce_s(*of_vision));
    EXPECT_GT(of_both->encoder.activation_bytes_per_unit,
              of_vision->encoder.activation_bytes_per_unit);
    const RankMemory more = state_memory(*both, layout, *of_both);
    const RankMemory less = state_memory(*vision, layout, *of_vision);
    EXPECT_GT(more.encoder_state + more.llm_state, less.encoder_state + less.llm_state);
  }
  // 16 heads of SigLIP, 20 of Whisper.
  const Layout eight{.encoder = {8, 1, 1}, .llm = {1, 1, 1}, .microbatches = 8};
  EXPECT_TRUE(make_pipeline(*vision, eight, {}).has_value());
  const auto refused = make_pipeline(*both, eight, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), testing::HasSubstr("Whisper large-v3 encoder's 20 heads"));
  // The stated default describes a job of vision and LLM, also when passed to create().
  EXPECT_EQ(JobModel::create(CostProfile::stated_default())->encoder_parameters(),
            JobModel{}.encoder_parameters());
}

TEST(Layout, TensorRanksHalveWorkAndAddCommunication) {
  const JobModel job;
  const SampleCost sample{.encoder_s = 1, .llm_s = 2, .encoder_units = 1000, .llm_units = 1000};
  const SampleCost two = spread_load(job, {.llm = {2, 1, 1}}, sample);
  EXPECT_EQ(two.encoder_s, 1);
  // Four all-reduces per layer, 28 layers; each moves 1,000 × 3,584 bf16 values twice, by a half.
  EXPECT_NEAR(two.llm_s, 1 + 4.0 * 28 * 1000 * 3584 * 2 / 300e9, 1e-9);
}

// A job whose LLM was measured whole (1 s) and in this cut.
JobModel job_with_cut(ProfileCut cut, double cut_s) {
  JobModel job;
  ModuleProfile& llm = job.profile.modules[2];
  ProfilePoint point;
  point.load.add_sequence(4096);
  point.forward_s = 1.0 / 3;
  point.backward_s = 2.0 / 3;
  llm.points = {point};
  point.forward_s = cut_s / 3;
  point.backward_s = cut_s * 2 / 3;
  cut.points = {point};
  llm.cuts = {std::move(cut)};
  return job;
}

// Half of the layers took 60 % of the seconds, so a fifth of the LLM is outside its layers.
TEST(LayerCut, IncludesTheMeasuredWorkOutsideTheLayers) {
  const JobModel job = job_with_cut({.tensor = 1, .layers = 14, .points = {}}, 0.6);
  EXPECT_NEAR(job.llm_head_layers(), 7, 1e-9);  // 28 layers are four fifths
  const auto model = make_pipeline(job, {.llm = {1, 5, 1}}, {});
  ASSERT_TRUE(model.has_value()) << model.error().message();
  for (const double share : model->llm.shares) EXPECT_NEAR(share, 0.2, 1e-9);
}

// Measured tensor ranks override the estimate from the interconnect.
TEST(SpreadLoad, TakesTheMeasuredShareOfTensorRanks) {
  const JobModel job = job_with_cut({.tensor = 2, .layers = 0, .points = {}}, 0.625);
  const SampleCost sample{.llm_s = 2, .llm_units = 1000};
  EXPECT_DOUBLE_EQ(spread_load(job, {.llm = {2, 1, 1}}, sample).llm_s, 1.25);
  EXPECT_GT(spread_load(job, {.llm = {4, 1, 1}}, sample).llm_s, 0.5);  // not measured
}

}  // namespace
}  // namespace isocost
