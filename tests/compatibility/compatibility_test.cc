// Files and messages of a released version are read as docs/compatibility.md promises. What 0.1
// wrote is kept in 0.1/; indexes and saved states are read by the tests of their rooms.
// ISOCOST_RECORD=1 writes those files that this test makes itself; to be run once for each minor
// version.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "balancer/layout/layout.h"
#include "base/random.h"
#include "costmodel/cost_model.h"
#include "loader/config/given_settings.h"
#include "loader/config/option_table.h"
#include "loader/report/data_profile.h"
#include "transport/wire/wire.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
const fs::path kDirectory = fs::path(ISOCOST_SOURCE_DIR) / "tests/compatibility/0.1";

bool recording() { return std::getenv("ISOCOST_RECORD") != nullptr; }

std::string read(const std::string& name) {
  std::ifstream file(kDirectory / name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& name, std::span<const std::byte> bytes) {
  std::ofstream(kDirectory / name, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

TEST(Compatibility, ModelProfileDataProfileAndLayoutAreRead) {
  const auto profile = CostProfile::load(kDirectory / "model_profile.json");
  ASSERT_TRUE(profile) << profile.error().to_string();
  EXPECT_GT(profile->modules[2].points.size(), 0U);
  const auto loads = load_profiled_loads(kDirectory / "data_profile.json");
  ASSERT_TRUE(loads) << loads.error().to_string();
  EXPECT_EQ(loads->size(), 7U);
  const auto layout = Layout::load(kDirectory / "layout.json");
  ASSERT_TRUE(layout) << layout.error().to_string();
  EXPECT_EQ(layout->microbatches, 2U);
}

TEST(Compatibility, ConfigurationWithEverySettingIsRead) {
  const std::string text = read("node.toml");
  GivenSettings settings;
  const Status read_all = settings.add_toml(text, "node.toml");
  EXPECT_TRUE(read_all) << read_all.error().to_string();
  // One by one, since no node is given both a model and a recipe.
  for (const Setting& setting : settings.list()) {
    NodeOptions options;
    const Status accepted = setting.option->set(options, setting.value);
    EXPECT_TRUE(accepted) << setting.source << ": " << accepted.error().to_string();
  }
  // The table [recipe] ends the file, and no key of it is one outside of it.
  for (const OptionSpec& spec : node_option_table()) {
    const std::string key = spec.name.substr(spec.name.rfind('.') + 1);
    EXPECT_NE(text.find("\n" + key + " = "), std::string::npos)
        << spec.name << " is missing in " << kDirectory / "node.toml";
  }
}

// The profile is that of the recorded state, which is bound to it.
TEST(Compatibility, TheStateOfACostModelIsRestored) {
  auto profile = CostProfile::load(kDirectory / "model_profile.json");
  ASSERT_TRUE(profile);
  CostModel model(*profile, {});
  if (recording()) {
    Random random(1);
    for (std::uint64_t step = 0; step < 20; ++step) {
      Measurement measurement;
      measurement.step = step;
      measurement.load[CostModule::kLlm].add_sequence(
          static_cast<std::int64_t>(64 + random.below(512)));
      measurement.seconds = {-1, -1, 1.5 * model.predict_sample(measurement.load)[2]};
      ASSERT_TRUE(model.observe(measurement));
      model.update();
    }
    const std::string state = model.save_state();
    write("cost_model.state", std::as_bytes(std::span(state)));
    return;
  }
  const std::string state = read("cost_model.state");
  const Status restored = model.restore_state(state);
  ASSERT_TRUE(restored) << restored.error().to_string();
  EXPECT_EQ(model.save_state(), state);
}

// One message of each type, each field away from its default.
std::vector<Message> messages() {
  MicrobatchHeader header;
  header.position = {1, 2, 3};
  header.microbatches = 4;
  header.ends_epoch = true;
  header.global_label_tokens = 1234;
  header.plan_hash = 0xFEEDFACECAFEBEEF;
  header.profile_budget_s = 0.75;
  header.cost_model_state = "state";
  header.predicted_seconds = {0.5, 0, 2.25};
  header.load[CostModule::kVision].add_sequence(64);
  header.load[CostModule::kLlm].add_sequence(90);
  header.load.label_tokens = 73;
  header.load.tensor_bytes = 50000;
  header.samples = {{7,
                     0.5F,
                     40,
                     "a.tar/7",
                     R"({"text": "a cat"})",
                     {{Modality::kVideo, 4, 6, 2, {0.25, 0.75}}}}};
  header.tensors = {{"llm.input_ids", DType::kInt64, {90}}};
  header.rows = {90};
  header.routes = {{CostModule::kVision, 0, 0, 64, 1, 2, 400}};
  return {Hello{3, 8, {1, 2, 3}, true, {4, 5, 6}, 7, true, {8, 9, 10, "learned"}, "a GPU", 11},
          Welcome{8,
                  11,
                  10,
                  12,
                  {13, 14, 15, {}},
                  22,
                  33,
                  44,
                  55,
                  66,
                  77,
                  71,
                  72,
                  88,
                  {"isocost.0a", {1, 2}},
                  5,
                  "a.tar/7",
                  12.5F},
          header,
          FragmentHeader{{1, 2, 3}, 1, {{{"audio.mel", DType::kFloat32, {12, 128}}, 512}}},
          EpochEnd{1, 20, 300, 4, 5, true},
          Report{{1, 2, 3}, {0.25, -1, 1.5}, 0.5, 0.125},
          ProfileUpdate{R"({"version": 1})", 1.5, "no memory", {1, 2, 0}},
          Credit{3, 4},
          Acknowledgement{{7, 8, 9}},
          Refusal{ErrorCode::kAlreadyExists, "rank 3 is taken"},
          Failure{ErrorCode::kDraining, "no more", true, {1, 5, 2}},
          Heartbeat{},
          Leave{},
          Notice{"delivery is paused"},
          MicrobatchInBlock{{1, 2, 3}, 7, {0, 64}},
          AttachMemory{{1, 2, 3}},
          PassBlock{7},
          ReleaseBlocks{{7, 9}},
          DropBlock{8}};
}

// Messages of wire version 7 are refused by name. A refusal is read in every version, so that
// either side can say why.
TEST(Compatibility, MessagesOfWireVersion7AreRefusedByName) {
  const std::vector<Message> all = messages();
  const std::string versions = "versions 7 and " + std::to_string(kProtocolVersion);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = "wire/" + std::to_string(i);
    const std::string recorded = read(name);
    const auto message = decode(std::as_bytes(std::span(recorded)));
    if (const auto* refusal = std::get_if<Refusal>(&all[i])) {
      ASSERT_TRUE(message) << name << ": " << message.error().to_string();
      EXPECT_EQ(std::get<Refusal>(*message).message, refusal->message);
      continue;
    }
    ASSERT_FALSE(message) << name;
    EXPECT_EQ(message.error().code(), ErrorCode::kUnsupported) << name;
    EXPECT_NE(message.error().message().find(versions), std::string::npos)
        << name << ": " << message.error().message();
  }
}

}  // namespace
}  // namespace isocost
