#include "transport/wire/wire.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/load.h"
#include "base/sample_part.h"
#include "base/utf8.h"
#include "transport/wire/internal/byte_codec.h"

namespace isocost {
namespace {

constexpr std::array<std::uint8_t, 4> kMagic = {'I', 'S', 'O', 'C'};
constexpr double kMostTimestampSeconds = 1e12;  // longer than any media

// Types below 64 go from client to node, the others from node to client. Both sides send
// heartbeats.
enum class Type : std::uint8_t {
  kHello = 1,
  kCredit = 2,
  kAcknowledgement = 3,
  kReport = 4,
  kHeartbeat = 5,
  kLeave = 6,
  kProfileUpdate = 7,
  kAttachMemory = 8,
  kReleaseBlocks = 9,
  kWelcome = 64,
  kRefusal = 65,
  kMicrobatch = 66,
  kFragment = 67,
  kEpochEnd = 68,
  kFailure = 69,
  kNotice = 70,
  kMicrobatchInBlock = 71,
  kPassBlock = 72,
  kDropBlock = 73,
};

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

template <typename T>
void put_error(ByteWriter& out, const T& error) {
  out.put(static_cast<std::uint8_t>(error.code));
  out.put_text<std::uint32_t>(
      printable_utf8(std::string_view(error.message).substr(0, kMaxTextBytes)));
}

template <typename T>
T get_error(ByteReader& in) {
  T error;
  const auto code = in.get<std::uint8_t>();
  if (code > static_cast<std::uint8_t>(ErrorCode::kOutOfMemory)) in.fail();
  error.code = static_cast<ErrorCode>(code);
  error.message = printable_utf8(in.get_text<std::uint32_t>(kMaxTextBytes));
  return error;
}

// Leaves out a state that is too long, since a truncated one would be useless.
void put_cost_model_state(ByteWriter& out, const std::string& cost_model_state) {
  out.put_text<std::uint32_t>(cost_model_state.size() > kMaxCostModelStateBytes ? std::string_view()
                                                                                : cost_model_state);
}

void put_start(ByteWriter& out, const StartPoint& start) {
  out.put(start.cursor);
  out.put(start.epoch);
  out.put(start.step);
  put_cost_model_state(out, start.cost_model_state);
}

StartPoint get_start(ByteReader& in) {
  StartPoint start;
  start.cursor = in.get<std::uint64_t>();
  start.epoch = in.get<std::uint32_t>();
  start.step = in.get<std::uint32_t>();
  start.cost_model_state = in.get_text<std::uint32_t>(kMaxCostModelStateBytes);
  return start;
}

// One `put` and one `get` per message, in the order of docs/wire_format.md.

Type put(ByteWriter& out, const Hello& hello) {
  out.put(hello.rank);
  out.put(hello.world_size);
  out.put_bytes(hello.client_id);
  out.put(static_cast<std::uint8_t>(hello.has_position));
  put_position(out, hello.position);
  out.put(hello.job);
  out.put(static_cast<std::uint8_t>(hello.has_start));
  put_start(out, hello.start);
  out.put_text<std::uint8_t>(std::string_view(hello.hardware).substr(0, kMaxHardwareBytes));
  out.put(hello.layout);
  return Type::kHello;
}

Hello get_hello(ByteReader& in) {
  Hello hello;
  hello.rank = in.get<std::int32_t>();
  hello.world_size = in.get<std::int32_t>();
  in.get_bytes(hello.client_id);
  hello.has_position = in.get<std::uint8_t>() != 0;
  hello.position = get_position(in);
  hello.job = in.get<std::uint64_t>();
  hello.has_start = in.get<std::uint8_t>() != 0;
  hello.start = get_start(in);
  hello.hardware = in.get_text<std::uint8_t>(kMaxHardwareBytes);
  // The name is printed, and control characters would reach a terminal.
  for (char& c : hello.hardware) c = c >= ' ' && c < 127 ? c : '?';
  hello.layout = in.get<std::uint64_t>();
  return hello;
}

Type put(ByteWriter& out, const Credit& credit) {
  out.put(credit.microbatches);
  out.put(credit.session);
  return Type::kCredit;
}

Credit get_credit(ByteReader& in) {
  const auto microbatches = in.get<std::uint32_t>();
  if (microbatches == 0 || microbatches > kMaxCredit) in.fail();
  return {microbatches, in.get<std::uint64_t>()};
}

Type put(ByteWriter& out, const Acknowledgement& acknowledgement) {
  put_position(out, acknowledgement.position);
  return Type::kAcknowledgement;
}

Type put(ByteWriter& out, const Report& report) {
  put_position(out, report.position);
  out.put(report.forward_s);
  out.put(report.data_wait_s);
  out.put(static_cast<std::uint8_t>(kModules));
  for (std::size_t i = 0; i < kModules; ++i) {
    out.put_text<std::uint8_t>(module_name(static_cast<Module>(i)));
    out.put(report.seconds.at(i));
  }
  return Type::kReport;
}

// Reads seconds without a check, since the cost model refuses and counts impossible ones.
Report get_report(ByteReader& in) {
  Report report;
  report.position = get_position(in);
  report.forward_s = in.get<double>();
  report.data_wait_s = in.get<double>();
  const auto count = in.get<std::uint8_t>();
  for (std::size_t i = 0; in.ok() && i < count; ++i) {
    const auto module = module_from_name(get_name(in));
    const auto seconds = in.get<double>();
    if (module) report.seconds.at(static_cast<std::size_t>(*module)) = seconds;
  }
  return report;
}

Type put(ByteWriter& out, const ProfileUpdate& profile_update) {
  out.put_text<std::uint32_t>(std::string_view(profile_update.profile).substr(0, kMaxProfileBytes));
  return Type::kProfileUpdate;
}

Type put(ByteWriter&, const Heartbeat&) { return Type::kHeartbeat; }
Type put(ByteWriter&, const Leave&) { return Type::kLeave; }

Type put(ByteWriter& out, const AttachMemory& attach) {
  out.put_bytes(attach.token);
  return Type::kAttachMemory;
}

AttachMemory get_attach_memory(ByteReader& in) {
  AttachMemory attach;
  in.get_bytes(attach.token);
  return attach;
}

Type put(ByteWriter& out, const ReleaseBlocks& release) {
  const auto count = std::min(release.blocks.size(), kMaxReleasedBlocks);
  out.put(static_cast<std::uint16_t>(count));
  for (std::size_t i = 0; i < count; ++i) out.put(release.blocks[i]);
  return Type::kReleaseBlocks;
}

ReleaseBlocks get_release_blocks(ByteReader& in) {
  ReleaseBlocks release;
  const auto count = in.get<std::uint16_t>();
  if (count > kMaxReleasedBlocks) in.fail();
  for (std::size_t i = 0; in.ok() && i < count; ++i) {
    release.blocks.push_back(in.get<std::uint64_t>());
  }
  return release;
}

Type put(ByteWriter& out, const PassBlock& pass) {
  out.put(pass.block);
  return Type::kPassBlock;
}

Type put(ByteWriter& out, const DropBlock& drop) {
  out.put(drop.block);
  return Type::kDropBlock;
}

Type put(ByteWriter& out, const Welcome& welcome) {
  out.put(welcome.ranks);
  out.put(welcome.node_id);
  out.put(welcome.session);
  out.put(welcome.job);
  put_start(out, welcome.start);
  out.put(welcome.dataset_fingerprint);
  out.put(welcome.recipe_fingerprint);
  out.put(welcome.samples_per_epoch);
  out.put(welcome.steps_per_epoch);
  out.put(welcome.epochs);
  out.put(welcome.global_batch_size);
  out.put(welcome.microbatches);
  out.put(welcome.heartbeat_ms);
  out.put(welcome.heartbeat_timeout_ms);
  out.put_text<std::uint8_t>(welcome.shared_memory.socket);
  out.put_bytes(welcome.shared_memory.token);
  return Type::kWelcome;
}

Welcome get_welcome(ByteReader& in) {
  Welcome welcome;
  welcome.ranks = in.get<std::int32_t>();
  welcome.node_id = in.get<std::uint64_t>();
  welcome.session = in.get<std::uint64_t>();
  welcome.job = in.get<std::uint64_t>();
  welcome.start = get_start(in);
  welcome.dataset_fingerprint = in.get<std::uint64_t>();
  welcome.recipe_fingerprint = in.get<std::uint64_t>();
  welcome.samples_per_epoch = in.get<std::uint64_t>();
  welcome.steps_per_epoch = in.get<std::uint32_t>();
  welcome.epochs = in.get<std::uint32_t>();
  welcome.global_batch_size = in.get<std::uint32_t>();
  welcome.microbatches = in.get<std::uint32_t>();
  welcome.heartbeat_ms = in.get<std::uint32_t>();
  welcome.heartbeat_timeout_ms = in.get<std::uint32_t>();
  welcome.shared_memory.socket = in.get_text<std::uint8_t>(kMaxNameBytes);
  in.get_bytes(welcome.shared_memory.token);
  if (!welcome.shared_memory.socket.empty() && !is_name(welcome.shared_memory.socket)) in.fail();
  if (welcome.ranks < 1 || welcome.heartbeat_ms == 0 || welcome.heartbeat_timeout_ms == 0)
    in.fail();
  return welcome;
}

Type put(ByteWriter& out, const Refusal& refusal) {
  put_error(out, refusal);
  return Type::kRefusal;
}

Type put(ByteWriter& out, const Failure& failure) {
  put_error(out, failure);
  return Type::kFailure;
}

Type put(ByteWriter& out, const Notice& notice) {
  out.put_text<std::uint32_t>(
      printable_utf8(std::string_view(notice.text).substr(0, kMaxTextBytes)));
  return Type::kNotice;
}

// Limits the total size of a header's keys, JSON texts and parts. Both sides count alike, so the
// writer never makes a header that a reader refuses.
class DescriptionRoom {
 public:
  /// Counts `bytes` if they are at most `most` and still fit. Returns whether they do.
  bool take(std::size_t bytes, std::size_t most) {
    if (bytes > std::min(most, left_)) return false;
    left_ -= bytes;
    return true;
  }

 private:
  std::size_t left_ = kMaxSampleDescriptionBytes;
};

constexpr std::size_t kPartBytes = 1 + 4 * sizeof(std::uint32_t);  // without timestamps
constexpr std::size_t kMaxPartsBytes = kMaxSampleDescriptionBytes;

std::size_t encoded_bytes(std::span<const SamplePart> parts) {
  std::size_t bytes = kPartBytes * parts.size();
  for (const SamplePart& part : parts) bytes += sizeof(double) * part.timestamps_s.size();
  return bytes;
}

template <typename Length>
void put_text_if_room(ByteWriter& out, std::string_view text, std::size_t most,
                      DescriptionRoom& room) {
  out.put_text<Length>(room.take(text.size(), most) ? text : std::string_view());
}

void put_parts(ByteWriter& out, std::span<const SamplePart> parts, DescriptionRoom& room) {
  const bool fits =
      parts.size() <= kMaxSampleParts && room.take(encoded_bytes(parts), kMaxPartsBytes);
  if (!fits) parts = {};
  out.put(static_cast<std::uint16_t>(parts.size()));
  for (const SamplePart& part : parts) {
    out.put(static_cast<std::uint8_t>(part.modality));
    out.put(part.rows);
    out.put(part.columns);
    out.put(part.frames);
    out.put(static_cast<std::uint32_t>(part.timestamps_s.size()));
    for (const double seconds : part.timestamps_s) out.put(seconds);
  }
}

SamplePart get_part(ByteReader& in) {
  SamplePart part;
  const auto modality = in.get<std::uint8_t>();
  if (modality >= kModalities) in.fail();
  part.modality = static_cast<Modality>(modality);
  part.rows = in.get<std::uint32_t>();
  part.columns = in.get<std::uint32_t>();
  part.frames = in.get<std::uint32_t>();
  const auto timestamps = in.get<std::uint32_t>();
  // Trainers pair frames with their times, so the counts must agree.
  if (timestamps != 0 && timestamps != part.frames) in.fail();
  for (std::size_t i = 0; in.ok() && i < timestamps; ++i) {
    const auto seconds = in.get<double>();
    if (!(seconds >= 0 && seconds <= kMostTimestampSeconds)) in.fail();  // NaN fails, too
    part.timestamps_s.push_back(seconds);
  }
  return part;
}

void put_sample(ByteWriter& out, const SampleEntry& sample, DescriptionRoom& room) {
  out.put(sample.id);
  out.put(sample.weight);
  out.put(sample.label_tokens);
  put_text_if_room<std::uint16_t>(out, sample.key, kMaxSampleKeyBytes, room);
  put_parts(out, sample.parts, room);
  put_text_if_room<std::uint32_t>(out, sample.json, kMaxSampleJsonBytes, room);
}

SampleEntry get_sample(ByteReader& in, DescriptionRoom& room) {
  SampleEntry sample;
  sample.id = in.get<std::uint64_t>();
  sample.weight = in.get<float>();
  if (!(sample.weight >= 0 && sample.weight <= 3e38F)) in.fail();
  sample.label_tokens = in.get<std::uint32_t>();
  // Keys are printed, and control characters would reach a terminal.
  sample.key = printable_utf8(in.get_text<std::uint16_t>(kMaxSampleKeyBytes));
  if (!room.take(sample.key.size(), kMaxSampleKeyBytes)) in.fail();
  const auto parts = in.get<std::uint16_t>();
  if (parts > kMaxSampleParts) in.fail();
  for (std::size_t i = 0; in.ok() && i < parts; ++i) sample.parts.push_back(get_part(in));
  if (!room.take(encoded_bytes(sample.parts), kMaxPartsBytes)) in.fail();
  sample.json = in.get_text<std::uint32_t>(kMaxSampleJsonBytes);
  if (!is_utf8(sample.json) || !room.take(sample.json.size(), kMaxSampleJsonBytes)) in.fail();
  return sample;
}

Type put(ByteWriter& out, const MicrobatchHeader& header) {
  put_position(out, header.position);
  out.put(header.microbatches);
  out.put(static_cast<std::uint8_t>(header.ends_epoch));
  out.put(header.global_label_tokens);
  out.put(header.plan_hash);
  out.put(static_cast<std::uint8_t>(header.profile_wanted));
  put_cost_model_state(out, header.cost_model_state);
  out.put(static_cast<std::uint8_t>(kModules));
  for (std::size_t i = 0; i < kModules; ++i) {
    const ModuleLoad& load = header.load.modules.at(i);
    out.put_text<std::uint8_t>(module_name(static_cast<Module>(i)));
    out.put(header.predicted_seconds.at(i));
    out.put(load.sequences);
    out.put(load.units);
    out.put(load.units_squared);
  }
  out.put(header.load.label_tokens);
  out.put(header.load.tensor_bytes);
  out.put(static_cast<std::uint32_t>(header.samples.size()));
  DescriptionRoom room;
  for (const SampleEntry& sample : header.samples) put_sample(out, sample, room);
  out.put(static_cast<std::uint8_t>(header.tensors.size()));
  for (const TensorSpec& spec : header.tensors) put_tensor(out, spec);
  for (const std::uint32_t rows : header.rows) out.put(rows);
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
  return Type::kMicrobatch;
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
    route.module = static_cast<Module>(module);
    const std::int64_t end = std::int64_t{route.first_unit} + route.units;
    if (end > header.load[route.module].units) in.fail();  // a trainer slices tensors with it
    route.replica = in.get<std::uint32_t>();
    route.microbatch = in.get<std::uint32_t>();
    route.peer_first_unit = in.get<std::uint32_t>();
    header.routes.push_back(route);
  }
}

MicrobatchHeader get_microbatch(ByteReader& in) {
  MicrobatchHeader header;
  header.position = get_position(in);
  header.microbatches = in.get<std::uint32_t>();
  if (header.position.microbatch >= header.microbatches) in.fail();
  header.ends_epoch = in.get<std::uint8_t>() != 0;
  header.global_label_tokens = in.get<std::uint64_t>();
  header.plan_hash = in.get<std::uint64_t>();
  header.profile_wanted = in.get<std::uint8_t>() != 0;
  header.cost_model_state = in.get_text<std::uint32_t>(kMaxCostModelStateBytes);
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

Type put(ByteWriter& out, const FragmentHeader& fragment) {
  put_position(out, fragment.position);
  out.put(fragment.sample);
  out.put(static_cast<std::uint8_t>(fragment.pieces.size()));
  for (const FragmentPiece& piece : fragment.pieces) {
    put_tensor(out, piece.tensor);
    out.put(piece.offset);
  }
  return Type::kFragment;
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

Type put(ByteWriter& out, const MicrobatchInBlock& microbatch) {
  put_position(out, microbatch.position);
  out.put(microbatch.block);
  out.put(static_cast<std::uint8_t>(microbatch.offsets.size()));
  for (const std::int64_t offset : microbatch.offsets) out.put(offset);
  return Type::kMicrobatchInBlock;
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

Type put(ByteWriter& out, const EpochEnd& end) {
  out.put(end.epoch);
  out.put(end.steps);
  out.put(end.planned);
  out.put(end.bad);
  out.put(end.dropped);
  out.put(static_cast<std::uint8_t>(end.last_epoch));
  return Type::kEpochEnd;
}

EpochEnd get_epoch_end(ByteReader& in) {
  EpochEnd end;
  end.epoch = in.get<std::uint32_t>();
  end.steps = in.get<std::uint32_t>();
  end.planned = in.get<std::uint64_t>();
  end.bad = in.get<std::uint64_t>();
  end.dropped = in.get<std::uint64_t>();
  end.last_epoch = in.get<std::uint8_t>() != 0;
  return end;
}

// Returns the error for another protocol version. Either side may need it, since a node also sends
// it in a refusal.
Error wrong_version(std::uint16_t version) {
  const auto [older, newer] = std::minmax(version, kProtocolVersion);
  return {ErrorCode::kUnsupported,
          "node and trainer run different versions of Isocost (wire format versions " +
              std::to_string(older) + " and " + std::to_string(newer) +
              "): update the side that uses version " + std::to_string(older)};
}

Result<Message> get_body(Type type, ByteReader& in) {
  switch (type) {
    case Type::kHello:
      return Message(get_hello(in));
    case Type::kCredit:
      return Message(get_credit(in));
    case Type::kAcknowledgement:
      return Message(Acknowledgement{get_position(in)});
    case Type::kReport:
      return Message(get_report(in));
    case Type::kProfileUpdate:
      return Message(ProfileUpdate{in.get_text<std::uint32_t>(kMaxProfileBytes)});
    case Type::kHeartbeat:
      return Message(Heartbeat{});
    case Type::kLeave:
      return Message(Leave{});
    case Type::kAttachMemory:
      return Message(get_attach_memory(in));
    case Type::kReleaseBlocks:
      return Message(get_release_blocks(in));
    case Type::kWelcome:
      return Message(get_welcome(in));
    case Type::kRefusal:
      return Message(get_error<Refusal>(in));
    case Type::kMicrobatch:
      return Message(get_microbatch(in));
    case Type::kFragment:
      return Message(get_fragment(in));
    case Type::kEpochEnd:
      return Message(get_epoch_end(in));
    case Type::kFailure:
      return Message(get_error<Failure>(in));
    case Type::kNotice:
      return Message(Notice{printable_utf8(in.get_text<std::uint32_t>(kMaxTextBytes))});
    case Type::kMicrobatchInBlock:
      return Message(get_microbatch_in_block(in));
    case Type::kPassBlock:
      return Message(PassBlock{in.get<std::uint64_t>()});
    case Type::kDropBlock:
      return Message(DropBlock{in.get<std::uint64_t>()});
  }
  return Error(ErrorCode::kCorrupt,
               "message of unknown type " + std::to_string(static_cast<int>(type)));
}

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  ByteWriter body;
  const Type type = std::visit([&](const auto& value) { return put(body, value); }, message);
  ByteWriter frame;
  frame.put_bytes(kMagic);
  frame.put(kProtocolVersion);
  frame.put(static_cast<std::uint8_t>(type));
  frame.put(std::uint8_t{0});
  std::vector<std::byte> bytes = frame.take();
  const std::vector<std::byte> rest = body.take();
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

Result<Message> decode(std::span<const std::byte> frame) {
  ByteReader in(frame);
  std::array<std::uint8_t, 4> magic{};
  in.get_bytes(magic);
  const auto version = in.get<std::uint16_t>();
  const auto type = static_cast<Type>(in.get<std::uint8_t>());
  in.get<std::uint8_t>();  // reserved
  if (!in.ok() || magic != kMagic) {
    return Error(ErrorCode::kCorrupt, "not a message of the Isocost protocol");
  }
  // A refusal has the same fields in every version, so that either side can read why.
  if (version != kProtocolVersion && type != Type::kRefusal) return wrong_version(version);
  ISOCOST_ASSIGN(Message message, get_body(type, in));
  if (!in.at_end()) {
    return Error(ErrorCode::kCorrupt, "message of type " + std::to_string(static_cast<int>(type)) +
                                          ", " + std::to_string(frame.size()) +
                                          " bytes: cut off, too long or out of range");
  }
  return message;
}

Result<std::int64_t> tensor_bytes(const TensorSpec& spec) {
  std::int64_t bytes = dtype_size(spec.dtype);
  for (const std::int64_t extent : spec.shape) {
    const auto product = checked_product(bytes, extent);
    if (!product) return Error(ErrorCode::kCorrupt, spec.name + ": impossible shape");
    bytes = *product;
  }
  return bytes;
}

}  // namespace isocost
