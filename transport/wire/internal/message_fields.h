#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "transport/wire/internal/byte_codec.h"
#include "transport/wire/messages.h"

namespace isocost {

// Fields that several messages have. A `get_` fails the reader where a value is out of range.

void put_position(ByteWriter& out, const Position& position);
Position get_position(ByteReader& in);

/// Returns whether a text is a name: a-z, 0-9, '_' and '.', and not empty.
bool is_name(std::string_view text);
std::string get_name(ByteReader& in);

void put_tensor(ByteWriter& out, const TensorSpec& spec);
TensorSpec get_tensor(ByteReader& in);
/// Reads the number of tensors that follow, 0 if the reader has failed.
std::size_t get_tensor_count(ByteReader& in);

/// Leaves out a state that is too long, since a truncated one would be useless.
void put_cost_model_state(ByteWriter& out, const std::string& cost_model_state);
std::string get_cost_model_state(ByteReader& in);

/// Writes a message's text: printable, and cut at kMaxTextBytes.
void put_printable(ByteWriter& out, std::string_view text);
std::string get_printable(ByteReader& in);

/// Write and read a message of a code and a text.
template <typename T>
void put_error(ByteWriter& out, const T& error) {
  out.put(static_cast<std::uint8_t>(error.code));
  put_printable(out, error.message);
}
template <typename T>
T get_error(ByteReader& in) {
  T error;
  const auto code = in.get<std::uint8_t>();
  if (code > static_cast<std::uint8_t>(ErrorCode::kDraining)) in.fail();
  error.code = static_cast<ErrorCode>(code);
  error.message = get_printable(in);
  return error;
}

}  // namespace isocost
