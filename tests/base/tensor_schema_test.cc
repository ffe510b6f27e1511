#include "base/tensor_schema.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace isocost {
namespace {

TEST(TensorSchema, NamesModulesAndRolesAreUnique) {
  std::set<std::string_view> names;
  std::set<std::pair<Module, TensorRole>> roles;
  std::set<std::string> arguments;
  for (const TensorEntry& entry : kTensorSchema) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_TRUE(roles.insert({entry.module, entry.role}).second) << entry.name;
    EXPECT_TRUE(arguments.insert(argument_name(entry.name)).second) << entry.name;
    EXPECT_TRUE(entry.name.starts_with(std::string(module_name(entry.module)) + "."));
    EXPECT_EQ(find_tensor(entry.name), &entry);
    EXPECT_EQ(find_tensor(entry.module, entry.role), &entry);
  }
  EXPECT_EQ(find_tensor("vision.mel"), nullptr);
  EXPECT_EQ(find_tensor(Module::kAudio, TensorRole::kGrids), nullptr);
}

// Assembly computes the sums of every module's lengths.
TEST(TensorSchema, LengthsHaveSums) {
  for (const TensorEntry& entry : kTensorSchema) {
    if (entry.role != TensorRole::kLengths) continue;
    EXPECT_EQ(entry.dtype, DType::kInt32) << entry.name;
    const TensorEntry* sums = find_tensor(entry.module, TensorRole::kCuSeqlens);
    ASSERT_NE(sums, nullptr) << entry.name;
    EXPECT_EQ(sums->dtype, DType::kInt32) << sums->name;
    EXPECT_EQ(sums->source, TensorSource::kAssembly) << sums->name;
  }
}

TEST(TensorSchema, ArgumentsOfTheLlmStandWithoutTheirModule) {
  EXPECT_EQ(argument_name("llm.input_ids"), "input_ids");
  EXPECT_EQ(argument_name("vision.patches"), "vision_patches");
  EXPECT_EQ(argument_name("audio.cu_seqlens"), "audio_cu_seqlens");
}

}  // namespace
}  // namespace isocost
