#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace isocost {

/// Returns whether a record asks and answers in members of its own instead of a list of turns:
/// Alpaca's "instruction", "input" and "output", "query" and "response", "question" and "answer",
/// "prompt" and "completion" and other names of these, or a list that is called "conversation".
/// Preference data counts as well, so that it is refused by name.
bool is_instruction(const nlohmann::ordered_json& object);

/// Checks that a record is no preference data. Errors: kCorrupt with "chosen" and "rejected", and
/// with a boolean "label" or "kto_tag".
Status refuse_preferences(const nlohmann::ordered_json& object);

/// Writes the turns of such a record as "messages", and removes the members that they came from;
/// the others stay. What is asked has its further members after it, each on a line of its own. A
/// "history" goes before. The assistant's turns of a "prompt" that is a list get the weight 0,
/// because only the completion of such data is labelled. Media that no text names stand before the
/// first turn of the user. Returns whether the record had several answers, of which the first
/// counts. Errors: kCorrupt for preference data, and for members of other types.
Result<bool> write_turns(nlohmann::ordered_json& object);

}  // namespace isocost
