#include "base/tensor_schema.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace isocost {
namespace {

TEST(TensorSchema, NamesModulesAndRolesAreUnique) {
  std::set<std::string_view> names;
  std::set<std::pair<CostModule, TensorRole>> roles;
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
  EXPECT_EQ(find_tensor(CostModule::kAudio, TensorRole::kGrids), nullptr);
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

TEST(TensorSchema, AnArgumentIsFoundByBothNames) {
  EXPECT_EQ(find_argument("input_ids"), find_tensor("llm.input_ids"));
  EXPECT_EQ(find_argument("llm.input_ids"), find_tensor("llm.input_ids"));
  EXPECT_EQ(find_argument("audio_mel"), find_tensor("audio.mel"));
  EXPECT_EQ(find_argument("mel"), nullptr);
  EXPECT_NO_THROW(check_tensor_name("vision_grids"));
  try {
    check_tensor_name("pixel_values");
    ADD_FAILURE() << "there is no such tensor";
  } catch (const Exception& error) {
    EXPECT_NE(std::string(error.what()).find("vision_patches, vision_grids"), std::string::npos)
        << error.what();
  }
}

// A row of docs/cpp.md has a name, or two that differ only in shape, and the dtype.
TEST(TensorSchema, TheTableForCppTrainersHasEveryTensor) {
  std::ifstream file(ISOCOST_SOURCE_DIR "/docs/cpp.md");
  std::map<std::string, std::string> dtypes;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `")) continue;
    const std::size_t second = line.find(" | ");
    const std::string dtype = line.substr(second + 3, line.find(" | ", second + 3) - second - 3);
    for (std::size_t at = 0; (at = line.find('`', at)) < second;) {
      const std::size_t end = line.find('`', at + 1);
      dtypes[line.substr(at + 1, end - at - 1)] = dtype;
      at = end + 1;
    }
  }
  for (const TensorEntry& entry : kTensorSchema) {
    if (entry.role == TensorRole::kTurnWeights) continue;  // assembly takes them up
    EXPECT_EQ(dtypes[argument_name(entry.name)], dtype_name(entry.dtype)) << entry.name;
  }
}

TEST(TensorSchema, ArgumentsOfTheLlmStandWithoutTheirModule) {
  EXPECT_EQ(argument_name("llm.input_ids"), "input_ids");
  EXPECT_EQ(argument_name("vision.patches"), "vision_patches");
  EXPECT_EQ(argument_name("audio.cu_seqlens"), "audio_cu_seqlens");
}

}  // namespace
}  // namespace isocost
