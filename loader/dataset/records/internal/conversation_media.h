#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/records/internal/media_reference.h"

namespace isocost {

struct ConversationMedia {
  std::vector<MediaReference> media;  ///< In the order in which a model meets them.
  bool has_assistant = false;         ///< Whether a turn is one of the assistant.
};

/// Reads the media of an object with "conversations" or "messages"; they point into it. Media are
/// named by typed content parts, or by the lists "image", "images", "video", "videos", "audio",
/// "audios". Typed parts without a path take one each from these lists, in order; in a conversation
/// without typed media parts, "<image>", "<video>" and "<audio>" in its texts do. Beside typed ones
/// they are text, as they are in "messages" without media. The tokenizer reads the same grammar in
/// Python (isocost/tokens/conversation.py); tests/conversations.json holds both to it, case by
/// case. Errors: kCorrupt for whatever the tokenizer refuses without knowing the model: a turn of
/// another form, a role or a type of content part that is unknown, invalid weights, tools and calls
/// of tools; and where the numbers of placeholders and media differ.
Result<ConversationMedia> conversation_media(nlohmann::ordered_json& object);

/// Returns a member that names a medium; null if there is none. Tables write columns without a
/// medium as null, "", [null] or an object whose members are all null: such a member counts as
/// absent.
const nlohmann::ordered_json* medium_member(const nlohmann::ordered_json& object,
                                            std::string_view name);
nlohmann::ordered_json* medium_member(nlohmann::ordered_json& object, std::string_view name);

/// Returns the media that these lists name: all images, then all videos, then all audio. Errors:
/// kCorrupt for a member that is neither a medium nor a list of media.
Result<std::vector<MediaReference>> listed_media(nlohmann::ordered_json& object);

}  // namespace isocost
