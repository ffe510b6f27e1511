// Conversations, case by case: tests/conversations.json holds what the tokenizer must read, too.

#include "loader/dataset/records/internal/conversation_media.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/sample_part.h"

namespace isocost {
namespace {

using Json = nlohmann::ordered_json;
using Media = std::vector<std::pair<std::string, std::string>>;

Media media_of(const ConversationMedia& read) {
  Media media;
  for (const MediaReference& reference : read.media) {
    media.emplace_back(reference.modality ? modality_name(*reference.modality) : "",
                       reference.name());
  }
  return media;
}

TEST(ConversationMedia, IsReadAsInTheTableOfCases) {
  std::ifstream file(ISOCOST_SOURCE_DIR "/tests/conversations.json");
  const Json table = Json::parse(file);
  std::set<std::string> names;
  for (const Json& one : table.at("cases")) {
    Json record = one.at("record");
    const auto name = one.at("name").get<std::string>();
    SCOPED_TRACE(name);
    EXPECT_TRUE(names.insert(name).second);
    const auto read = conversation_media(record);
    if (one.contains("make_shards")) {
      ASSERT_FALSE(read.has_value());
      EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
      EXPECT_THAT(read.error().message(),
                  testing::HasSubstr(one.at("make_shards").get<std::string>()));
      continue;
    }
    ASSERT_TRUE(read.has_value()) << read.error().message();
    EXPECT_EQ(media_of(*read), one.value("media", Media()));
  }
  EXPECT_GT(names.size(), 80U);
}

}  // namespace
}  // namespace isocost
