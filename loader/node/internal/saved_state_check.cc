#include "loader/node/internal/saved_state_check.h"

#include <string>

#include "base/counted.h"
#include "transport/protocol/join_request.h"

namespace isocost {
namespace {

Refusal refusal_of(const Hello& hello, const std::string& why) {
  return {ErrorCode::kInvalidArgument, client_name(hello) + " resumes a state of " + why};
}

// Refuses a state whose cursor an earlier version has computed, which cannot be compared.
Refusal refusal_of_old_cursor(const Hello& hello) {
  return refusal_of(
      hello, "version " + std::to_string(hello.start.state_version) +
                 ", whose cursor an earlier version of Isocost wrote in another form: it cannot be "
                 "compared with these data and this order of samples. If the node has the data, "
                 "ignore_parts, weight_key, seed, shuffle, shuffle_shards, "
                 "global_batch_size, tail and lookahead with which the state was saved, set its "
                 "'cursor' to \"0\" (in C++ "
                 "also accept_other_data): training goes on at epoch " +
                 std::to_string(hello.start.epoch) + ", step " + std::to_string(hello.start.step));
}

}  // namespace

Refusal refusal_of_state(const Hello& hello, const Error& why) {
  return {ErrorCode::kInvalidArgument,
          client_name(hello) + " resumes a saved state: " + why.message()};
}

std::optional<Refusal> check_saved_order(const Hello& hello, std::uint64_t cursor,
                                         std::int64_t lookahead) {
  if (!hello.has_start || hello.start.cursor == 0) return std::nullopt;
  if (hello.start.cursor == cursor) return std::nullopt;
  if (hello.start.state_version < kStateVersion) return refusal_of_old_cursor(hello);
  std::string why =
      "other data or another order of samples: give the node the data, "
      "ignore_parts, weight_key, seed, shuffle, shuffle_shards, global_batch_size, tail and "
      "lookahead with which the state was saved, and the version of Isocost, if another one reads "
      "samples in another "
      "way";
  if (lookahead > 1) {
    why +=
        "; within a look-ahead window also the ranks, microbatches, limits of a microbatch, "
        "steps, profile and recipe";
  }
  return refusal_of(hello, why);
}

std::optional<Refusal> check_saved_position(const Hello& hello, std::uint64_t epochs,
                                            std::uint64_t steps) {
  if (!hello.has_start) return std::nullopt;
  const bool after_the_last = epochs > 0 && hello.start.epoch >= epochs;
  const bool exists = after_the_last ? hello.start.epoch == epochs && hello.start.step == 0
                                     : hello.start.step <= steps;
  if (exists) return std::nullopt;
  return Refusal{ErrorCode::kInvalidArgument,
                 "cannot start from epoch " + std::to_string(hello.start.epoch) + ", step " +
                     std::to_string(hello.start.step) + ": the node has " +
                     (epochs == 0 ? "an unlimited number of epochs" : counted(epochs, "epoch")) +
                     " of " + counted(steps, "step")};
}

}  // namespace isocost
