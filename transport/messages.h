#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "base/tensor.h"

namespace isocost {

/// The wire format's version; peers of another one are refused by name. See docs/wire_format.md.
inline constexpr std::uint16_t kProtocolVersion = 1;

/// Where a microbatch stands in training. Ordered as it is delivered.
struct Position {
  std::uint32_t epoch = 0;
  std::uint32_t step = 0;        ///< Global batch within the epoch.
  std::uint32_t microbatch = 0;  ///< Of this rank, within the step.
  auto operator<=>(const Position&) const = default;
};

inline constexpr std::size_t kMaxProfileBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxCostModelStateBytes = kMaxProfileBytes + (std::size_t{64} << 10);

/// Where a job begins, and what a saved state is: the first step that it has not trained on yet.
struct StartPoint {
  std::uint64_t cursor = 0;  ///< Fingerprint of what the steps are counted in: data set, seed,
                             ///< shuffle, global batch, tail; 0: whatever the node has.
  std::uint32_t epoch = 0;
  std::uint32_t step = 0;  ///< The epoch's number of steps, too: then its end comes first.
  /// The last MicrobatchHeader::learned that came; empty: none did. A node that has measured
  /// nothing itself plans by it from its next step on.
  std::string cost_model_state;
  bool operator==(const StartPoint&) const = default;
};

inline constexpr std::size_t kMaxHardwareBytes = 128;

/// First message of a client.
struct Hello {
  std::int32_t rank = 0;        ///< Receiver: a data-parallel rank, or a receiver of the layout.
  std::int32_t world_size = 0;  ///< Of these; 0: whatever the node has.
  std::array<std::uint8_t, 16>
      client_id{};  ///< Random; the same after a reconnect of the same client.
  bool has_position = false;
  Position position;      ///< Last microbatch received whole, where has_position.
  std::uint64_t job = 0;  ///< Welcome::job of the connection before; 0 on the first.
  bool has_start = false;
  StartPoint start;  ///< Where has_start: the rank is to begin here, with all the others; else it
                     ///< goes on where the last client of this rank stopped.
  std::string hardware;  ///< That it computes on, for people; at most kMaxHardwareBytes.
  std::uint64_t layout =
      0;  ///< Fingerprint of the layout that it holds a receiver of; 0: not said.
};

/// The node's answer.
struct Welcome {
  std::int32_t ranks = 1;
  std::uint64_t node_id = 0;  ///< Random per node process: a client sees a restarted node.
  std::uint64_t session = 0;  ///< Of this greeting: each begins one anew, without credit.
  std::uint64_t job = 0;      ///< Counts the jobs that this node process has served; from 1.
  StartPoint start;           ///< Of the job, its `learned` left out; the cursor is what a saved
                              ///< state refers to.
  std::uint64_t dataset_fingerprint = 0;
  std::uint64_t recipe_fingerprint = 0;
  std::uint64_t samples_per_epoch = 0;
  std::uint32_t steps_per_epoch = 0;
  std::uint32_t epochs = 1;             ///< 0: without end.
  std::uint32_t global_batch_size = 0;  ///< Samples of a whole step.
  std::uint32_t microbatches = 1;       ///< Of a whole step, for each rank.
  std::uint32_t heartbeat_ms = 1000;    ///< Both sides send at least this often ...
  std::uint32_t timeout_ms = 30000;     ///< ... and give the other up after this silence.
};

/// One sample of a microbatch, in the order of its rows.
struct SampleEntry {
  std::uint64_t id = 0;
  float weight = 1.0F;  ///< 0: a repeat that fills a place and counts for nothing.
  std::uint32_t label_tokens = 0;
};

/// A tensor of the whole microbatch: dtype, and its shape with all samples' rows along the first
/// dimension.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape;
};

/// One entry of a routing table: a sample's encoder output on its way between an encoder microbatch
/// and the LLM microbatch that it enters; its gradient comes back the same way. Units are those of
/// ModuleLoad (patches, audio positions), counted along the packed sequences of all of a
/// microbatch's samples: an encoder that merges k of them into one output divides by k.
struct Route {
  Module module = Module::kVision;
  std::uint32_t sample = 0;      ///< Index into this microbatch's samples.
  std::uint32_t first_unit = 0;  ///< Of the sample, here.
  std::uint32_t units = 0;
  std::uint32_t replica = 0;     ///< Data index on the other side: of the LLM, or the encoder ...
  std::uint32_t microbatch = 0;  ///< ... and its microbatch ...
  std::uint32_t peer_first_unit = 0;  ///< ... and where the sample's units begin there.
  bool operator==(const Route&) const = default;
};

/// Announces a microbatch: all that a client needs to allocate it before its fragments come.
struct MicrobatchHeader {
  Position position;
  std::uint32_t microbatches = 1;  ///< Of this step and receiver: of all data-parallel ranks, and
                                   ///< LLM stages, the same.
  std::uint64_t global_label_tokens =
      0;  ///< Label tokens of the whole global batch, zero-weight repeats left out.
  std::uint64_t plan_hash = 0;  ///< Of the step's plan: equal on all ranks, equal for equal plans.
  bool profile_wanted = false;  ///< The node asks the trainer that gets this for a ProfileUpdate.
  /// On a step's first microbatch, now and then, the same at all ranks: what the cost model has
  /// learned, opaque, at most kMaxCostModelStateBytes, to be kept in saved states. Empty: nothing
  /// new.
  std::string cost_model_state;
  std::array<double, kModules> predicted_seconds{};
  Load load;
  std::vector<SampleEntry> samples;  ///< Of an encoder microbatch those with media, if any.
  std::vector<TensorSpec> tensors;   ///< That the receiver consumes.
  /// [samples × tensors], sample by sample: the rows that each sample has in each tensor. They say
  /// where a fragment's rows go, and add up to the tensors' first dimensions.
  std::vector<std::uint32_t> rows;
  /// In the order of samples and modules; where a layout's encoder has ranks of its own.
  std::vector<Route> routes;
  bool last_of_step() const { return position.microbatch + 1 == microbatches; }
};

/// Bytes of one sample's tensor that travel as one frame: the whole tensor, or, where it is large,
/// a piece of it.
struct FragmentPiece {
  TensorSpec tensor;        ///< All of the sample's rows, whatever the piece holds of them.
  std::int64_t offset = 0;  ///< Of the frame's first byte in that tensor; pieces come in order.
};

/// Announces pieces of one sample's tensors; their bytes follow, a frame each.
struct FragmentHeader {
  Position position;
  std::uint32_t sample = 0;  ///< Index into MicrobatchHeader::samples.
  std::vector<FragmentPiece> pieces;
};

/// One sample's tensors; every fragment of a microbatch comes once, in any order.
struct Fragment {
  Position position;
  std::uint32_t sample = 0;  ///< Index into MicrobatchHeader::samples.
  std::vector<NamedTensor> tensors;
};

/// End of an epoch, a message and not a silence.
struct EpochEnd {
  std::uint32_t epoch = 0;
  std::uint32_t steps = 0;
  std::uint64_t delivered = 0;  ///< Samples delivered to all ranks, repeats left out.
  std::uint64_t bad = 0;        ///< Samples left out because they were bad.
  std::uint64_t dropped = 0;    ///< Samples of the tail that were dropped (--tail drop).
  bool last_epoch = false;
};

/// What a trainer measured.
struct Report {
  Position position;
  std::array<double, kModules> seconds{-1, -1, -1};  ///< Forward and backward; -1: not measured.
  double forward_s =
      -1;  ///< Of these, all modules together, in forward passes; -1: not told apart.
  double data_wait_s = -1;  ///< The trainer was blocked for microbatches since its last report;
                            ///< negative: not known. Client::report fills it in.
};

/// The model's profile, measured anew by a trainer that was asked for it.
struct ProfileUpdate {
  std::string profile;  ///< JSON as docs/profile.md has it; at most kMaxProfileBytes.
};

/// Lets the node send so many microbatches more.
struct Credit {
  std::uint32_t microbatches = 0;
  std::uint64_t session = 0;  ///< Welcome::session; in another one it counts for nothing.
};

/// Everything up to here is trained on, and need not be kept.
struct Acknowledgement {
  Position position;
};

/// The node does not let a client in, or not any more.
struct Refusal {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

/// The node has failed, and why; nothing follows.
struct Failure {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

/// Sign of life, both ways.
struct Heartbeat {};

/// A client leaves for good.
struct Goodbye {};

}  // namespace isocost
