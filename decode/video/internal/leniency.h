#pragma once

#include <cstdint>
#include <optional>

namespace isocost {

/// Whether a decoder passes over what it cannot decode. Pictures of an open group may release
/// references that are not there, which strict decoders refuse. Single-thread.
class Leniency {
 public:
  enum class State { kStrict, kLenient };

  /// Packets after which a decoder holds no picture from before: 16 references, and others.
  static constexpr std::int64_t kLongestMemory = 64;

  State state() const { return state_; }
  bool is_lenient() const { return state_ == State::kLenient; }

  /// The video was cut in an open group: lenient for as long as the decoder's memory lasts.
  void begin_in_open_group();
  /// The reader has jumped to a key frame: strict.
  void jump();
  /// The reader has gone back from the key frame that is shown at `key`, to the first one or to
  /// another: lenient up to `key`.
  void go_back(std::int64_t key, bool to_first);
  /// A packet is about to be sent: strict from here on, if the decoder has all its references.
  void note_packet(std::int64_t pts);
  /// No packet follows: strict.
  void note_end() { state_ = State::kStrict; }

 private:
  State state_ = State::kStrict;
  bool begins_open_ = false;                 ///< The video was cut in an open group.
  std::int64_t packets_left_ = 0;            ///< Until kStrict, whatever they show.
  std::optional<std::int64_t> strict_from_;  ///< Ticks; set after going back.
};

}  // namespace isocost
