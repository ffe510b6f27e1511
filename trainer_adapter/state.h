#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "transport/wire/messages.h"

namespace isocost {

/// The state of a training job: the first step that is not trained on yet, for the whole job and
/// any number of ranks. As JSON it is what `state_dict` of Python's isocost.DataLoader returns, so
/// that a job of either language continues one of the other. Value type.
struct State : StartPoint {
  State() = default;
  explicit State(StartPoint start) : StartPoint(std::move(start)) {}

  /// Reads a state of version 3, or of version 2, which has no mixture. Errors: kInvalidArgument
  /// for a text that is not a state, has another version or an unknown key, or is damaged; the
  /// message names the key.
  static Result<State> from_json(std::string_view json);
  /// Does what `from_json` does, and throws isocost::Exception in place of an error.
  static State parse(std::string_view json);

  /// Returns a JSON object of always the same keys: version, cursor (16 hexadecimal digits), epoch,
  /// step, cost_model_state (base64, "" if there is none) and mixture (a JSON text, "" without
  /// one). The version is 3, or that of the state which was read if its cursor is still in it: a
  /// node's welcome gives a new one.
  std::string to_json() const;
};

}  // namespace isocost
