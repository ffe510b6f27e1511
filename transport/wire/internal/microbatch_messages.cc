#include "transport/wire/internal/microbatch_messages.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/load.h"
#include "transport/wire/internal/message_fields.h"
#include "transport/wire/internal/sample_entry.h"
#include "transport/wire/wire.h"

namespace isocost {
namespace {

void put_modules(ByteWriter& out, const MicrobatchHeader& header) {
  out.put(static_cast<std::uint8_t>(kModules));
  for (std::size_t i = 0; i < kModules; ++i) {
    const ModuleLoad& load = header.load.modules.at(i);
    out.put_text<std::uint8_t>(module_name(static_cast<CostModule>(i)));
    out.put(header.predicted_seconds.at(i));
    out.put(load.sequences);
    out.put(load.units);
    out.put(load.units_squared);
  }
}

void get_modules(ByteReader& in, MicrobatchHeader& header) {
  const auto count = in.get<std::uint8_t>();
  for (std::size_t i = 0; in.ok() && i < count; ++i) {
    const std::string name = get_name(in);
    const auto module = module_from_name(name);
    const auto seconds = in.get<double>();
    ModuleLoad load;
    load.sequences = in.get<std::int64_t>();
    load.units = in.get<std::int64_t>();
    load.units_squared = in.get<std::int64_t>();
    if (!module) continue;
    header.predicted_seconds.at(static_cast<std::size_t>(*module)) = seconds;
    header.load[*module] = load;
  }
}

void put_routes(ByteWriter& out, const MicrobatchHeader& header) {
  out.put(static_cast<std::uint32_t>(header.routes.size()));
  for (const Route& route : header.routes) {
    out.put(static_cast<std::uint8_t>(route.module));
    out.put(route.sample);
    out.put(route.first_unit);
    out.put(route.units);
    out.put(route.replica);
    out.put(route.microbatch);
    out.put(route.peer_first_unit);
  }
}

void get_routes(ByteReader& in, MicrobatchHeader& header) {
  constexpr std::size_t kRouteBytes = 1 + 6 * sizeof(std::uint32_t);
  const auto count = in.get<std::uint32_t>();
  if (in.left() != count * kRouteBytes) in.fail();
  for (std::size_t i = 0; in.ok() && i < count; ++i) {
    Route route;
    const auto module = in.get<std::uint8_t>();
    if (module >= kModules) in.fail();
    route.sample = in.get<std::uint32_t>();
    if (route.sample >= header.samples.size()) in.fail();
    route.first_unit = in.get<std::uint32_t>();
    route.units = in.get<std::uint32_t>();
    if (!in.ok()) return;
    route.module = static_cast<CostModule>(module);
    const std::int64_t end = std::int64_t{route.first_unit} + route.units;
    if (end > header.load[route.module].units) in.fail();  // a trainer slices tensors with it
    route.replica = in.get<std::uint32_t>();
    route.microbatch = in.get<std::uint32_t>();
    route.peer_first_unit = in.get<std::uint32_t>();
    header.routes.push_back(route);
  }
}

}  // namespace

MessageType put(ByteWriter& out, const MicrobatchHeader& header) {
  put_position(out, header.position);
  out.put(header.microbatches);
  out.put(static_cast<std::uint8_t>(header.ends_epoch));
  out.put(header.global_label_tokens);
  out.put(header.plan_hash);
  out.put(header.profile_budget_s);
  out.put(static_cast<std::uint8_t>(header.seconds_wanted));
  put_cost_model_state(out, header.cost_model_state);
  put_modules(out, header);
  out.put(header.load.label_tokens);
  out.put(header.load.tensor_bytes);
  out.put(static_cast<std::uint32_t>(header.samples.size()));
  DescriptionRoom room;
  for (const SampleEntry& sample : header.samples) put_sample(out, sample, room);
  out.put(static_cast<std::uint8_t>(header.tensors.size()));
  for (const TensorSpec& spec : header.tensors) put_tensor(out, spec);
  for (const std::uint32_t rows : header.rows) out.put(rows);
  put_routes(out, header);
  return MessageType::kMicrobatch;
}

MicrobatchHeader get_microbatch(ByteReader& in) {
  MicrobatchHeader header;
  header.position = get_position(in);
  header.microbatches = in.get<std::uint32_t>();
  if (header.position.microbatch >= header.microbatches) in.fail();
  header.ends_epoch = in.get<std::uint8_t>() != 0;
  header.global_label_tokens = in.get<std::uint64_t>();
  header.plan_hash = in.get<std::uint64_t>();
  header.profile_budget_s = in.get<double>();
  if (!std::isfinite(header.profile_budget_s) || header.profile_budget_s < 0) in.fail();
  header.seconds_wanted = in.get<std::uint8_t>() != 0;
  header.cost_model_state = get_cost_model_state(in);
  get_modules(in, header);
  header.load.label_tokens = in.get<std::int64_t>();
  header.load.tensor_bytes = in.get<std::int64_t>();
  const auto samples = in.get<std::uint32_t>();
  if (samples > kMaxSamples) in.fail();
  DescriptionRoom room;
  for (std::size_t i = 0; in.ok() && i < samples; ++i) {
    header.samples.push_back(get_sample(in, room));
  }
  const std::size_t tensors = get_tensor_count(in);
  for (std::size_t i = 0; in.ok() && i < tensors; ++i) header.tensors.push_back(get_tensor(in));
  const std::size_t rows = header.samples.size() * header.tensors.size();
  if (in.left() < rows * sizeof(std::uint32_t)) in.fail();
  for (std::size_t i = 0; in.ok() && i < rows; ++i) header.rows.push_back(in.get<std::uint32_t>());
  get_routes(in, header);
  return header;
}

MessageType put(ByteWriter& out, const FragmentHeader& fragment) {
  put_position(out, fragment.position);
  out.put(fragment.sample);
  out.put(static_cast<std::uint8_t>(fragment.pieces.size()));
  for (const FragmentPiece& piece : fragment.pieces) {
    put_tensor(out, piece.tensor);
    out.put(piece.offset);
  }
  return MessageType::kFragment;
}

FragmentHeader get_fragment(ByteReader& in) {
  FragmentHeader fragment;
  fragment.position = get_position(in);
  fragment.sample = in.get<std::uint32_t>();
  const std::size_t pieces = get_tensor_count(in);
  for (std::size_t i = 0; in.ok() && i < pieces; ++i) {
    FragmentPiece piece;
    piece.tensor = get_tensor(in);
    piece.offset = in.get<std::int64_t>();
    if (piece.offset < 0) in.fail();
    fragment.pieces.push_back(std::move(piece));
  }
  return fragment;
}

MessageType put(ByteWriter& out, const MicrobatchInBlock& microbatch) {
  put_position(out, microbatch.position);
  out.put(microbatch.block);
  out.put(static_cast<std::uint8_t>(microbatch.offsets.size()));
  for (const std::int64_t offset : microbatch.offsets) out.put(offset);
  return MessageType::kMicrobatchInBlock;
}

MicrobatchInBlock get_microbatch_in_block(ByteReader& in) {
  MicrobatchInBlock microbatch;
  microbatch.position = get_position(in);
  microbatch.block = in.get<std::uint64_t>();
  const std::size_t tensors = get_tensor_count(in);
  for (std::size_t i = 0; in.ok() && i < tensors; ++i) {
    const auto offset = in.get<std::int64_t>();
    if (offset < 0) in.fail();
    microbatch.offsets.push_back(offset);
  }
  return microbatch;
}

}  // namespace isocost
