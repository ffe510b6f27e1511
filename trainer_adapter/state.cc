#include "trainer_adapter/state.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/base64.h"
#include "base/json_object.h"

namespace isocost {
namespace {

constexpr std::int64_t kStateVersion = 2;  // 1 named the state of the cost model "learnt"
constexpr std::size_t kCursorDigits = 16;

// A state of the cost model has four characters for three bytes.
constexpr JsonFormat kStateFormat{.name = "state",
                                  .max_bytes = 2 * kMaxCostModelStateBytes,
                                  .max_depth = 2,
                                  .remedy = "load it with the Isocost that wrote it"};

Result<std::uint64_t> cursor_of(const JsonObject& state) {
  ISOCOST_ASSIGN(const std::string text, state.text("cursor"));
  std::uint64_t cursor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cursor, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    return state.wrong("cursor", "must be a hexadecimal number of up to 16 digits");
  }
  return cursor;
}

// Version 1 had another name for the state of the cost model, which a user can leave out.
Status check_version(const JsonObject& object) {
  if (!object.has("version") || !object.whole("version", 1, 1)) {
    return object.check_version(kStateVersion);
  }
  return Error(ErrorCode::kUnsupported,
               "state: 'version' is 1; this program reads version 2: take 'cursor', 'epoch' and "
               "'step' alone and set 'version' to 2; training goes on at the same step, and "
               "correction of the cost model begins anew");
}

Result<State> read_state(std::string_view json) {
  ISOCOST_ASSIGN(const JsonObject object, JsonObject::parse(json, kStateFormat));
  ISOCOST_TRY(check_version(object));
  const Status known = object.only_keys({"version", "cursor", "epoch", "step", "cost_model_state"});
  if (!known) {
    return Error(known.error().code(), known.error().message() +
                                           ": load the state with the Isocost that wrote it, or "
                                           "leave the key out if you added it");
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  State state;
  ISOCOST_ASSIGN(state.cursor, cursor_of(object));
  ISOCOST_ASSIGN(const std::int64_t epoch, object.whole("epoch", 0, kMost));
  ISOCOST_ASSIGN(const std::int64_t step, object.whole("step", 0, kMost));
  state.epoch = static_cast<std::uint32_t>(epoch);
  state.step = static_cast<std::uint32_t>(step);
  ISOCOST_ASSIGN(const std::string encoded, object.optional_text("cost_model_state"));
  auto cost_model_state = decode_base64(encoded);
  if (!cost_model_state) return object.wrong("cost_model_state", "must be base64");
  state.cost_model_state = *std::move(cost_model_state);
  return state;
}

}  // namespace

Result<State> State::from_json(std::string_view json) {
  auto state = read_state(json);
  if (state) return state;
  return Error(ErrorCode::kInvalidArgument,
               state.error().message() +
                   ". A state is what TorchLoader::state() and Python's state_dict() return");
}

State State::parse(std::string_view json) { return from_json(json).value(); }

std::string State::to_json() const {
  std::array<char, kCursorDigits> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), cursor, 16);
  const std::string hex(digits.data(), end);
  return R"({"version": )" + std::to_string(kStateVersion) + R"(, "cursor": ")" +
         std::string(kCursorDigits - hex.size(), '0') + hex + R"(", "epoch": )" +
         std::to_string(epoch) + R"(, "step": )" + std::to_string(step) +
         R"(, "cost_model_state": ")" + encode_base64(cost_model_state) + R"("})";
}

}  // namespace isocost
