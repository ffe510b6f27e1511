#pragma once

#include <optional>
#include <string>

#include "transport/wire/messages.h"

namespace isocost {

/// The start of a new client of a rank that has given none. It continues where the rank's last
/// client stopped.
struct UnaskedStart {
  Position next;     ///< The first microbatch that the rank has not acknowledged.
  StartPoint asked;  ///< The start that clients asked for, or the data's first step.
};

/// Returns what the client must be warned of: it continues elsewhere than at the job's first step,
/// though its weights may be fresh, or inside a step, whose earlier gradients are lost. Returns
/// nothing if it begins at the job's first step. `name` is the rank's.
std::optional<std::string> warning_of(const std::string& name, const UnaskedStart& start);

/// Does the same for a client with which a run begins after one that ended inside a step. `next` is
/// the first microbatch of that step.
std::optional<std::string> warning_of_repeated_step(const std::string& name,
                                                    const UnaskedStart& start);

}  // namespace isocost
