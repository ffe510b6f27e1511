#include "trainer_adapter/sample_rows.h"

#include <gtest/gtest.h>

#include <string>

#include "base/result.h"

namespace isocost {
namespace {

// Two samples: a picture of 64 patches with 10 tokens, and 4 tokens.
MicrobatchHeader header() {
  MicrobatchHeader header;
  header.samples = {SampleEntry{7}, SampleEntry{9}};
  header.tensors = {{"vision.patches", DType::kUInt8, {64, 588}},
                    {"llm.input_ids", DType::kInt64, {14}},
                    {"llm.labels", DType::kInt64, {14}}};
  header.rows = {64, 10, 10, 0, 4, 4};
  return header;
}

std::string refusal(std::string_view name, std::size_t sample) {
  try {
    static_cast<void>(sample_rows(header(), name, sample));
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

TEST(SampleRows, AreThoseOfTheSample) {
  EXPECT_EQ(sample_rows(header(), "input_ids", 0).first, 0);
  EXPECT_EQ(sample_rows(header(), "input_ids", 0).count, 10);
  EXPECT_EQ(sample_rows(header(), "input_ids", 1).first, 10);
  EXPECT_EQ(sample_rows(header(), "input_ids", 1).count, 4);
  EXPECT_EQ(sample_rows(header(), "vision_patches", 1).first, 64);
  EXPECT_EQ(sample_rows(header(), "vision_patches", 1).count, 0);
  EXPECT_EQ(sample_rows(header(), "loss_weights", 1).first, 10) << "one for each label";
}

TEST(SampleRows, RefusesWhatIsNotThereByName) {
  EXPECT_NE(refusal("input_ids", 2).find("sample 2 of a microbatch of 2 samples"),
            std::string::npos);
  EXPECT_NE(refusal("audio_mel", 0).find("audio_mel"), std::string::npos);
  EXPECT_NE(refusal("cu_seqlens", 0).find("no rows of samples"), std::string::npos);
  EXPECT_NE(refusal("ids", 0).find("no tensor is called \"ids\""), std::string::npos);
}

}  // namespace
}  // namespace isocost
