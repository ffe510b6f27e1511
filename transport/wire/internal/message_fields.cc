#include "transport/wire/internal/message_fields.h"

#include <algorithm>

#include "base/tensor.h"
#include "base/utf8.h"
#include "transport/wire/wire.h"

namespace isocost {

void put_position(ByteWriter& out, const Position& position) {
  out.put(position.epoch);
  out.put(position.step);
  out.put(position.microbatch);
}

Position get_position(ByteReader& in) {
  Position position;
  position.epoch = in.get<std::uint32_t>();
  position.step = in.get<std::uint32_t>();
  position.microbatch = in.get<std::uint32_t>();
  return position;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

std::string get_name(ByteReader& in) {
  std::string name = in.get_text<std::uint8_t>(kMaxNameBytes);
  if (!is_name(name)) in.fail();
  return name;
}

void put_tensor(ByteWriter& out, const TensorSpec& spec) {
  out.put_text<std::uint8_t>(spec.name);
  out.put(static_cast<std::uint8_t>(spec.dtype));
  out.put(static_cast<std::uint8_t>(spec.shape.size()));
  for (const std::int64_t extent : spec.shape) out.put(extent);
}

TensorSpec get_tensor(ByteReader& in) {
  TensorSpec spec;
  spec.name = get_name(in);
  const auto dtype = in.get<std::uint8_t>();
  if (dtype > static_cast<std::uint8_t>(DType::kFloat32)) in.fail();
  spec.dtype = static_cast<DType>(dtype);
  const auto dimensions = in.get<std::uint8_t>();
  if (dimensions == 0 || dimensions > kMaxDimensions) in.fail();
  for (std::size_t d = 0; in.ok() && d < dimensions; ++d) {
    spec.shape.push_back(in.get<std::int64_t>());
  }
  if (in.ok() && !tensor_bytes(spec)) in.fail();
  return spec;
}

std::size_t get_tensor_count(ByteReader& in) {
  const auto count = in.get<std::uint8_t>();
  if (count > kMaxTensors) in.fail();
  return in.ok() ? count : 0;
}

void put_cost_model_state(ByteWriter& out, const std::string& cost_model_state) {
  out.put_text<std::uint32_t>(cost_model_state.size() > kMaxCostModelStateBytes ? std::string_view()
                                                                                : cost_model_state);
}

std::string get_cost_model_state(ByteReader& in) {
  return in.get_text<std::uint32_t>(kMaxCostModelStateBytes);
}

void put_printable(ByteWriter& out, std::string_view text) {
  out.put_text<std::uint32_t>(printable_utf8(text.substr(0, kMaxTextBytes)));
}

std::string get_printable(ByteReader& in) {
  return printable_utf8(in.get_text<std::uint32_t>(kMaxTextBytes));
}

}  // namespace isocost
