#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/shard_writing/internal/media_reference.h"

namespace isocost {

/// The media of a conversation, in the order in which a model meets them.
struct ConversationMedia {
  std::vector<MediaReference> media;
  std::set<std::string> unread;  ///< Types of content parts that are neither text nor media.
};

/// Reads the media of an object with "conversations" or "messages". Media are named by typed
/// content parts, or by the lists "image", "images", "video", "videos", "audio", "audios". Typed
/// parts without a path take one each from these lists, in order; in a conversation without typed
/// media parts, "<image>", "<video>" and "<audio>" in its texts do. Beside typed ones they are
/// text, as they are in "messages" without media. The tokenizer reads the same grammar in Python
/// (isocost/tokens/conversation.py); tests/conversations.json holds both to it, case by case.
/// Errors: kCorrupt for a turn of another form, and where the numbers of placeholders and media
/// differ.
Result<ConversationMedia> conversation_media(const nlohmann::ordered_json& object);

/// Returns a member that names a medium; null where there is none. Tables write columns without a
/// medium as null, "", [null] or an object whose members are all null: such a member counts as
/// absent.
const nlohmann::ordered_json* medium_member(const nlohmann::ordered_json& object,
                                            std::string_view name);

/// Returns the media that these lists name: all images, then all videos, then all audio. Errors:
/// kCorrupt for a member that is neither a path nor a list of paths.
Result<std::vector<MediaReference>> listed_media(const nlohmann::ordered_json& object);

}  // namespace isocost
