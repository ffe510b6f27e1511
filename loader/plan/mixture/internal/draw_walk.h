#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "loader/plan/mixture/internal/shares.h"
#include "loader/plan/mixture/internal/wide.h"

namespace isocost {

/// No limit of a source's samples.
inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// The position of a walk, before a step.
struct DrawPosition {
  std::uint64_t step = 0;
  std::vector<std::int64_t> owed;    ///< Cumulative share less samples drawn, in kWholeShare.
  std::vector<std::uint64_t> drawn;  ///< Samples of earlier steps.
};

/// Draws the number of samples of each source, step by step. Each step adds the batch's shares to
/// what the sources are owed. Then every sample goes to the source that is owed most (the first by
/// name, of several). Single-thread.
///
/// How far counts and shares differ. Let f_i be what source i is owed after a step, n the number of
/// sources that had a share so far. Claim: any k of them are owed at most k (1/(k+1) + ... + 1/n)
/// together, so one is owed at most 1/2 + ... + 1/n < ln n, and each is owed more than -1.
///
/// All owed amounts together are 0, so the claim holds for k = n, and before the first step. Let M
/// be the largest f after a step and A a set of k sources. Every source that was drawn in the step
/// ended in (M - 1, M] or at M - 1, since its last sample was owed at least M. If all that were
/// drawn are in A, then A got at most a batch and gave one, and the claim holds as before.
/// Otherwise add those outside of A, which makes m > k sources to which that applies: with
/// b(m) = 1/(m+1) + ... + 1/n they hold at most m b(m). The mean a of A is at most M, and each one
/// added holds at least M - 1, so m a - (m - k) <= m b(m), that is a <= b(m) + (m - k)/m <= b(k).
/// For the other side: M >= 0, because all add up to 0, so a source that was drawn holds at least
/// M - 1 >= -1 (-1 only if all were 0, which it contradicts); the others only grew. A source that
/// joins with f = 0 makes n larger, under which each claim stays true.
///
/// Two sources: f_1 = -f_2, so both are within 1/2.
///
/// A source that stops (proportion 0, or dropped) keeps what it is owed, because it gives nothing
/// any more. So the m that go on hold -F together, F being what those that stopped are owed. Their
/// upper claim holds on, since it is about any set of them. Their lower one becomes
/// f > -1 - F/m; by the claim for n - m of n sources F <= (n - m)(b(n - m)) < m if they stop at
/// one step, so f > -2 >= -(1 + log2 n). No rule without foresight could keep a logarithm where
/// sources stop and return again and again: each time, the rest must bear the remainder.
///
/// A source with a limit is owed no more than it has left. It goes on to be drawn until it has
/// none, while the others take what exceeds it. So all owed amounts still add up to 0 and the claim
/// holds; a source without samples left is owed at most 0, so it is never the one that M is about.
class DrawWalk {
 public:
  /// Both must outlive this object and stand in the order of the sources' names. `batch`: samples
  /// of a step, up to 10^7.
  DrawWalk(std::span<const ProportionSchedule> schedules, std::span<const std::uint64_t> limits,
           std::uint64_t batch);

  /// Goes to a position of an earlier walk.
  void move_to(DrawPosition position);
  const DrawPosition& position() const { return position_; }
  /// Draws the present step, and goes to the next one. Returns the samples of each source: fewer
  /// than a batch together only if sources with a share have no more. The view is valid until the
  /// next call.
  std::span<const std::uint64_t> next();
  /// Returns the sources that are owed no more shares since the last step.
  std::span<const std::size_t> ended() const { return ended_; }
  std::span<const std::uint64_t> turns() const { return shares_.turns(); }

 private:
  void find_active();
  bool near_a_limit();
  void add_shares();
  void add_limited_shares();
  bool fill_up(std::vector<std::size_t>& open, SignedWide& amount);
  std::uint64_t take_whole(std::uint64_t wanted);
  void take_largest(std::uint64_t left);
  bool take_once_each(std::uint64_t left);
  void take(std::size_t source);
  std::uint64_t left_of(std::size_t source) const;

  std::span<const std::uint64_t> limits_;
  std::uint64_t batch_;
  Shares shares_;
  DrawPosition position_;
  std::vector<std::size_t> active_;  // sources with a share
  bool any_limit_ = false;
  std::uint64_t far_steps_ = 0;  // steps during which no source can reach its limit
  std::vector<std::uint64_t> counts_;
  std::vector<std::size_t> ended_;
  std::vector<std::int64_t> keys_;  // of sources that can give one more: see key_of
};

}  // namespace isocost
