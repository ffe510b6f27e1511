#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "base/sample_part.h"
#include "base/tensor.h"
#include "base/units.h"

namespace isocost {

/// Version of the wire format. A peer of another version is refused with a message that names both
/// versions. See docs/wire_format.md.
inline constexpr std::uint16_t kProtocolVersion = 9;

/// Position of a microbatch in a rank's sequence. Positions are ordered as microbatches are
/// delivered.
struct Position {
  std::uint32_t epoch = 0;
  std::uint32_t step = 0;        ///< Global batch within the epoch.
  std::uint32_t microbatch = 0;  ///< Microbatch of this rank within the step.
  auto operator<=>(const Position&) const = default;
};

inline constexpr std::size_t kMaxProfileBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxCostModelStateBytes = kMaxProfileBytes + (std::size_t{64} << 10);
inline constexpr std::size_t kMaxMixtureBytes = std::size_t{64} << 10;

/// Version of saved states. Version 2 has no mixture, and another form of cursor.
inline constexpr std::uint16_t kStateVersion = 3;

/// The start of a job, and the content of a saved state: the first step that is not trained on yet.
struct StartPoint {
  /// Fingerprint of all that determines the steps (data set, seed, shuffle, global batch size,
  /// tail); 0 accepts the node's.
  std::uint64_t cursor = 0;
  std::uint32_t epoch = 0;
  /// The first step. May equal the number of steps of the epoch: the job then begins with the end
  /// of that epoch.
  std::uint32_t step = 0;
  /// The last MicrobatchHeader::cost_model_state that was received; empty if there was none. A node
  /// without measurements of its own plans with it from its next step on.
  std::string cost_model_state;
  /// The mixture of data sets whose steps are counted, and the steps that are left out: a JSON text
  /// in UTF-8, at most kMaxMixtureBytes; empty without either.
  std::string mixture = {};
  /// Version of the saved state that the cursor comes from.
  std::uint16_t state_version = kStateVersion;
  bool operator==(const StartPoint&) const = default;
};

inline constexpr std::size_t kMaxHardwareBytes = 128;
inline constexpr std::size_t kMaxSampleKeyBytes = std::size_t{8} << 10;

/// First message of a client.
/// Hello::rank of a client that asks only for the welcome: it takes no place in a job, and
/// receives nothing else.
inline constexpr std::int32_t kNoRank = -1;

struct Hello {
  std::int32_t rank = 0;  ///< Data-parallel rank, or number of the layout's receiver; or kNoRank.
  std::int32_t world_size = 0;  ///< Number of ranks or receivers; 0 accepts the node's.
  /// Random; a client keeps it when it reconnects.
  std::array<std::uint8_t, 16> client_id{};
  bool has_position = false;
  Position position;      ///< Valid if has_position: the last microbatch that is complete here.
  std::uint64_t job = 0;  ///< Welcome::job of the previous connection; 0 on the first.
  bool has_start = false;
  /// Valid if has_start: all ranks are to begin here. Otherwise the rank continues where its last
  /// client stopped or, if no other client is connected, at that step's first microbatch.
  StartPoint start;
  /// Name of the device that the trainer computes on, for messages; at most kMaxHardwareBytes.
  std::string hardware;
  std::uint64_t layout = 0;  ///< Fingerprint of the layout with this receiver; 0: unknown.
};

/// The socket at which a client on the node's host asks for blocks of shared memory. See
/// docs/wire_format.md.
struct SharedMemoryOffer {
  std::string socket;  ///< Abstract name of a Unix socket; empty: the node shares no memory.
  std::array<std::uint8_t, 16> token{};  ///< Shows to which session the client belongs.
};

/// The node's answer to a hello.
struct Welcome {
  std::int32_t ranks = 1;
  std::uint64_t node_id = 0;  ///< Random per process, so that clients notice a restarted node.
  std::uint64_t session = 0;  ///< Different for each welcome; a session begins without credit.
  std::uint64_t job = 0;      ///< Number of the job in this node process, counted from 1.
  /// The step at which this rank begins or continues, without cost_model_state. Saved states keep
  /// its cursor and its mixture.
  StartPoint start;
  std::uint64_t dataset_fingerprint = 0;
  std::uint64_t recipe_fingerprint = 0;
  std::uint64_t samples_per_epoch = 0;  ///< 0 without a length.
  std::uint32_t steps_per_epoch = 0;    ///< 0 without a length.
  std::uint32_t epochs = 1;             ///< 0: endless.
  std::uint32_t global_batch_size = 0;  ///< Samples of a full step.
  std::uint32_t microbatches = 1;  ///< Microbatches per rank of a full step; 0: each step decides.
  std::uint32_t heartbeat_ms = 1000;  ///< Both sides send a message at least this often.
  /// Time without a message after which a peer is considered lost, on both sides.
  std::uint32_t heartbeat_timeout_ms = 30000;
  SharedMemoryOffer shared_memory;
  /// Samples of the data set with a weight in the loss other than 0 and 1, which a model's own loss
  /// cannot take.
  std::uint64_t weighted_samples = 0;
  /// "shard/key" of the first of them, as in SampleEntry::key; empty if there are none or it is
  /// longer than kMaxSampleKeyBytes.
  std::string first_weighted;
  float first_weight =
      1.0F;  ///< The weight of that sample; 1: only turns of it have other weights.
  /// The multiple that plans take the LLM's sequences to be padded to; 0: to be packed.
  std::uint32_t padded_multiple = 0;
  /// Whether it is known how many steps an epoch has. Otherwise nobody may count on one: the
  /// end comes as EpochEnd, or not at all.
  bool has_length = true;
};

/// Limits of a microbatch header's descriptions of samples. A key (kMaxSampleKeyBytes), a JSON text
/// or a list of parts that would exceed one of them is left empty.
inline constexpr std::size_t kMaxSampleJsonBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxSampleParts = 4096;
/// Limit for all keys, JSON texts and parts of one header together, as encoded.
inline constexpr std::size_t kMaxSampleDescriptionBytes = std::size_t{16} << 20;

/// One sample of a microbatch, in the order of its rows.
struct SampleEntry {
  /// The id of a dummy, which is not a sample of the data set: a small medium without labels, of
  /// weight 0 and without a key, in a microbatch that lacks media of its modality. Dummies follow
  /// the samples.
  static constexpr std::uint64_t kDummy = ~std::uint64_t{0};

  std::uint64_t id = 0;
  float weight = 1.0F;  ///< Weight in the loss; 0: a repeat, for a rank that would have no sample.
  std::uint32_t label_tokens = 0;
  /// "shard/key", with the file name of the shard; printable UTF-8. It identifies the sample in the
  /// data set whatever the seed, and every receiver gets it.
  std::string key = {};
  /// The sample's JSON part, as it is in the shard. Empty if there is none or it is larger
  /// than kMaxSampleJsonBytes, and for receivers that neither embed tokens nor predict.
  std::string json = {};
  /// The parts as the recipe prepared them. Empty for receivers that embed neither media nor
  /// tokens.
  std::vector<SamplePart> parts = {};
  bool is_dummy() const { return id == kDummy; }
  bool operator==(const SampleEntry&) const = default;
};

/// A tensor of the whole microbatch: its dtype, and its shape with the rows of all samples along
/// the first dimension.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape;
};

/// One entry of a routing table: a sample's encoder output on its way between an encoder microbatch
/// and the LLM microbatch that it enters; its gradient returns the same way. Units are those of
/// ModuleLoad (patches, audio positions), counted along the packed sequences of all samples of a
/// microbatch. An encoder that merges k of them into one output divides by k.
struct Route {
  CostModule module = CostModule::kVision;
  std::uint32_t sample = 0;           ///< Index into this microbatch's samples.
  std::uint32_t first_unit = 0;       ///< First unit of the sample in this microbatch.
  std::uint32_t units = 0;            ///< Units of the sample.
  std::uint32_t replica = 0;          ///< Data index of the peer, which is the LLM or the encoder.
  std::uint32_t microbatch = 0;       ///< Microbatch of the peer.
  std::uint32_t peer_first_unit = 0;  ///< First unit of the sample in the peer's microbatch.
  bool operator==(const Route&) const = default;
};

/// Announces a microbatch with all that a client needs to allocate it before its fragments arrive.
struct MicrobatchHeader {
  Position position;
  /// Microbatches of this step for this receiver: the same number for all data-parallel ranks, and
  /// for all LLM stages.
  std::uint32_t microbatches = 1;
  bool ends_epoch = false;  ///< Whether this step is the last of its epoch.
  /// Label tokens of the whole global batch, without repeats of weight 0.
  std::uint64_t global_label_tokens = 0;
  std::uint64_t plan_hash = 0;  ///< Hash of the step's plan; equal plans have equal hashes.
  /// Above 0: the node asks for a ProfileUpdate, which may take this trainer so many seconds. The
  /// same in the first microbatch of a step for all receivers.
  double profile_budget_s = 0;
  /// The node asks for measured seconds of this step: the same in all microbatches of the step, for
  /// all receivers. Otherwise trainers measure nothing, and report only how long they waited.
  bool seconds_wanted = true;
  /// State of the cost model, to be kept in saved states: opaque, at most kMaxCostModelStateBytes.
  /// Sent with the first microbatch of some steps, the same to all ranks; otherwise empty.
  std::string cost_model_state;
  std::array<double, kModules> predicted_seconds{};
  Load load;
  std::vector<SampleEntry> samples;  ///< An encoder's microbatch holds samples with media only.
  std::vector<TensorSpec> tensors;   ///< Tensors that the receiver consumes.
  /// [samples × tensors], sample by sample: the number of rows of each sample in each tensor. They
  /// give the offset of each fragment, and add up to the tensors' first dimensions.
  std::vector<std::uint32_t> rows;
  /// Ordered by sample and module. Empty unless the layout gives the encoder ranks of its own.
  std::vector<Route> routes;
  bool profile_wanted() const { return profile_budget_s > 0; }
  bool last_of_step() const { return position.microbatch + 1 == microbatches; }
  bool last_of_epoch() const { return ends_epoch && last_of_step(); }
};

/// Bytes of one sample's tensor that travel as one frame: the whole tensor, or a part of a large
/// one.
struct FragmentPiece {
  TensorSpec tensor;        ///< All of the sample's rows, whichever part of them the frame holds.
  std::int64_t offset = 0;  ///< Offset of the frame in the tensor's bytes; pieces come in order.
};

/// Announces pieces of one sample's tensors. Their bytes follow, one frame each.
struct FragmentHeader {
  Position position;
  std::uint32_t sample = 0;  ///< Index into MicrobatchHeader::samples.
  std::vector<FragmentPiece> pieces;
};

/// The tensors of one sample. Every fragment of a microbatch is sent once, in any order.
struct Fragment {
  Position position;
  std::uint32_t sample = 0;  ///< Index into MicrobatchHeader::samples.
  std::vector<NamedTensor> tensors;
};

/// The end of an epoch.
struct EpochEnd {
  std::uint32_t epoch = 0;
  std::uint32_t steps = 0;
  /// Samples planned for all ranks since the job's first step, without repeats.
  std::uint64_t planned = 0;
  std::uint64_t bad = 0;      ///< Samples that were left out because they are bad.
  std::uint64_t dropped = 0;  ///< Samples of the last step that option `tail` left out.
  bool last_epoch = false;
};

/// Times that a trainer measured for one microbatch, or, in a step whose seconds are not wanted,
/// how long it waited in this step.
struct Report {
  Position position;
  /// Forward and backward, or kNotMeasured.
  std::array<double, kModules> seconds{kNotMeasured, kNotMeasured, kNotMeasured};
  /// Forward seconds within `seconds`, over all modules, or kNotMeasured.
  double forward_s = kNotMeasured;
  /// Seconds that the trainer was blocked for microbatches since its last report, or kNotMeasured.
  /// Client::report fills it in.
  double data_wait_s = kNotMeasured;
  /// Seconds that measuring and reporting took the trainer since its last report, or kNotMeasured.
  double measuring_s = kNotMeasured;
};

/// Answer of a trainer that was asked to measure again.
struct ProfileUpdate {
  /// A model profile or, in a layout with several stages, a layer profile: JSON as described in
  /// docs/model_profile.md, at most kMaxProfileBytes. Empty if it failed.
  std::string profile;
  double took_s = 0;    ///< Seconds that measuring took.
  std::string failure;  ///< Why there is no profile, in one line; empty if there is one.
  /// The microbatch that asked for it, which the client fills in: an answer to an earlier question
  /// is not one to the present. {}: none has asked.
  Position asked = {};
};

/// Allows the node to send more microbatches.
struct Credit {
  std::uint32_t microbatches = 0;
  std::uint64_t session = 0;  ///< Welcome::session; credit of another session is ignored.
};

/// Microbatches up to this position are trained on, and the node need not keep them.
struct Acknowledgement {
  Position position;
};

/// The node does not serve this client, or stops serving it.
struct Refusal {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

/// The node has failed, or was asked to stop, and sends nothing more.
struct Failure {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  bool has_resume_point = false;
  /// Valid if has_resume_point: the first microbatch of the first step that no rank receives.
  Position resume_point = {};
};

/// One line for whoever watches the training, such as why no data comes.
struct Notice {
  std::string text;
};

// Messages of the Unix socket; each is one packet.

/// First packet of a client.
struct AttachMemory {
  std::array<std::uint8_t, 16> token{};  ///< SharedMemoryOffer::token.
};

/// Gives the client a block to map. The descriptor of its memory comes with the packet.
struct PassBlock {
  std::uint64_t block = 0;  ///< Never used again by this node.
};

/// The tensors of a microbatch lie in a block of shared memory: all of its fragments at once.
struct MicrobatchInBlock {
  Position position;
  std::uint64_t block = 0;  ///< PassBlock::block.
  std::vector<std::int64_t>
      offsets;  ///< Offsets of MicrobatchHeader::tensors, in bytes from the block's start.
};

/// The client no longer reads what these blocks hold; the node may write to them again.
struct ReleaseBlocks {
  std::vector<std::uint64_t> blocks;
};

/// The node no longer uses a block that the client has released.
struct DropBlock {
  std::uint64_t block = 0;
};

/// Shows that the sender is alive. Both sides send it.
struct Heartbeat {};

/// The client leaves and does not come back.
struct Leave {};

}  // namespace isocost
