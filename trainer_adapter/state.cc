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

constexpr std::size_t kCursorDigits = 16;

// A state of the cost model has four characters for three bytes, a mixture up to six for one.
constexpr JsonFormat kStateFormat{.name = "state",
                                  .max_bytes = 2 * kMaxCostModelStateBytes + 6 * kMaxMixtureBytes,
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

// Returns the version, 2 or 3. Version 1 had another name for the state of the cost model, which a
// user can leave out.
Result<std::uint16_t> version_of(const JsonObject& object) {
  constexpr std::int64_t kVersions = std::numeric_limits<std::uint16_t>::max();
  const auto version = object.whole("version", 1, kVersions);
  if (version && *version == 2) return std::uint16_t{2};
  if (!version || *version != 1) {
    ISOCOST_TRY(object.check_version(kStateVersion));
    return kStateVersion;
  }
  return Error(ErrorCode::kUnsupported,
               "state: 'version' is 1; this program reads versions 2 and 3: take 'cursor', 'epoch' "
               "and 'step' alone and set 'version' to 2; training goes on at the same step, and "
               "correction of the cost model begins anew");
}

// Returns the mixture. States of version 2 have none; torch.distributed.checkpoint may have put the
// empty one of a fresh loader into them.
Result<std::string> mixture_of(const JsonObject& state, std::uint16_t version) {
  if (version < 3) {
    ISOCOST_ASSIGN(std::string none, state.optional_text("mixture"));
    if (!none.empty()) return state.wrong("mixture", "is not a key of version 2");
    return none;
  }
  ISOCOST_ASSIGN(std::string mixture, state.text("mixture"));
  if (mixture.size() <= kMaxMixtureBytes) return mixture;
  return state.wrong("mixture", "must have at most " + std::to_string(kMaxMixtureBytes) +
                                    " bytes, and has " + std::to_string(mixture.size()));
}

Result<State> read_state(std::string_view json) {
  ISOCOST_ASSIGN(const JsonObject object, JsonObject::parse(json, kStateFormat));
  ISOCOST_ASSIGN(const std::uint16_t version, version_of(object));
  const Status known =
      object.only_keys({"version", "cursor", "epoch", "step", "cost_model_state", "mixture"});
  if (!known) {
    return Error(known.error().code(), known.error().message() +
                                           ": load the state with the Isocost that wrote it, or "
                                           "leave the key out if you added it");
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  State state;
  state.state_version = version;
  ISOCOST_ASSIGN(state.cursor, cursor_of(object));
  ISOCOST_ASSIGN(const std::int64_t epoch, object.whole("epoch", 0, kMost));
  ISOCOST_ASSIGN(const std::int64_t step, object.whole("step", 0, kMost));
  state.epoch = static_cast<std::uint32_t>(epoch);
  state.step = static_cast<std::uint32_t>(step);
  ISOCOST_ASSIGN(const std::string encoded, object.optional_text("cost_model_state"));
  auto cost_model_state = decode_base64(encoded);
  if (!cost_model_state) return object.wrong("cost_model_state", "must be base64");
  state.cost_model_state = *std::move(cost_model_state);
  ISOCOST_ASSIGN(state.mixture, mixture_of(object, version));
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
  return R"({"version": )" + std::to_string(state_version) + R"(, "cursor": ")" +
         std::string(kCursorDigits - hex.size(), '0') + hex + R"(", "epoch": )" +
         std::to_string(epoch) + R"(, "step": )" + std::to_string(step) +
         R"(, "cost_model_state": ")" + encode_base64(cost_model_state) + R"(", "mixture": )" +
         quoted_json(mixture) + "}";
}

}  // namespace isocost
