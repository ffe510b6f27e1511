#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "transport/wire/messages.h"

namespace isocost {

// These functions check the point at which a client asks to start, which comes from a saved state.
// The text of a state is checked where it is parsed (Python's isocost/connection/state.py), the
// cost model's part of it by costmodel/internal/state_codec.h.

/// Refuses a client whose saved state cannot be continued, as `why` says.
Refusal refusal_of_state(const Hello& hello, const Error& why);

/// Refuses a client whose saved state belongs to other data or another order of samples than those
/// with the fingerprint `cursor`.
std::optional<Refusal> check_saved_order(const Hello& hello, std::uint64_t cursor,
                                         std::int64_t lookahead);

/// Refuses a client that asks to start at a step that does not exist. An epoch has `steps` steps,
/// training `epochs` epochs (0: no end). The end of an epoch, the last one included, is a valid
/// start.
std::optional<Refusal> check_saved_position(const Hello& hello, std::uint64_t epochs,
                                            std::uint64_t steps);

}  // namespace isocost
