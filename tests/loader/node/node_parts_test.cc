#include "loader/node/internal/node_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/layout/layout.h"
#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

using testing::HasSubstr;

class NodePartsTest : public testing::Test {
 protected:
  // There are no shards: what is said of anything else was seen before they were looked for.
  std::string refusal(const std::function<void(NodeOptions&)>& set) const {
    NodeOptions options;
    options.data = scratch_ / "no shards";
    options.bad_samples.file.clear();
    set(options);
    const auto parts = open_node_parts(options, {}, {}, {});
    return parts ? "accepted" : parts.error().message();
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
};

TEST_F(NodePartsTest, WhatNeedsNoDataIsCheckedBeforeThem) {
  EXPECT_THAT(refusal([](NodeOptions&) {}), HasSubstr("no shards"));
  EXPECT_THAT(refusal([](NodeOptions& options) { options.service.bind = "foo"; }),
              HasSubstr("foo"));
  EXPECT_THAT(refusal([](NodeOptions& options) { options.service.bind = "tcp://0.0.0.0:*"; }),
              HasSubstr("insecure"));
  EXPECT_THAT(refusal([](NodeOptions& options) { options.service.curve_key = "no.key"; }),
              HasSubstr("no.key"));
  EXPECT_THAT(refusal([](NodeOptions& options) { options.bad_samples.max = "few"; }),
              HasSubstr("max_bad_samples: 'few'"));
}

// The counts of a layout that others contradict, rather than what would follow from those.
TEST_F(NodePartsTest, ALayoutsCountsAreNamedFirst) {
  Layout layout;
  layout.encoder = {1, 1, 2};
  layout.llm = {1, 2, 2};
  layout.microbatches = 24;
  write_file(scratch_ / "layout.json", layout.to_json());
  EXPECT_THAT(refusal([&](NodeOptions& options) {
                options.plan.layout_file = scratch_ / "layout.json";
                options.plan.ranks = 3;
                options.plan.microbatches = 24;
                options.plan.global_batch_size = 64;
              }),
              HasSubstr("ranks = 3: layout " + (scratch_ / "layout.json").string() +
                        " has 2 LLM replicas"));
}

TEST(AssumedProfile, IsWarnedOfWhereAModelIsServed) {
  std::vector<std::string> lines;
  const LogSink sink = [&](LogLevel level, std::string_view text) {
    EXPECT_EQ(level, LogLevel::kWarning);
    lines.emplace_back(text);
  };
  NodeOptions options;
  CostProfile profile = CostProfile::stated_default();
  warn_of_assumed_profile(options, profile, sink);
  EXPECT_THAT(lines, testing::IsEmpty()) << "native28 names no model";
  options.decode.recipe = ModelRecipeOptions{.directory = "models/own"};
  warn_of_assumed_profile(options, profile, sink);
  options.plan.max_memory = 1;
  warn_of_assumed_profile(options, profile, sink);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], testing::AllOf(
                            HasSubstr("models/own: costs are those"),
                            HasSubstr("(SigLIP-so400m, Whisper large-v3 encoder, "
                                      "Qwen2.5-7B)"),
                            HasSubstr("`isocost model profile models/own --output profile.json`")));
  EXPECT_THAT(lines[1], HasSubstr("costs and the memory that max_memory limits are those"));
  profile.source = "own.json";
  warn_of_assumed_profile(options, profile, sink);
  EXPECT_EQ(lines.size(), 2U);
}

}  // namespace
}  // namespace isocost
