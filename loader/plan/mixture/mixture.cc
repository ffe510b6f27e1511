#include "loader/plan/mixture/mixture.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/fingerprint.h"
#include "base/random.h"
#include "loader/plan/mixture/internal/draw_walk.h"
#include "loader/plan/mixture/internal/wide.h"

namespace isocost {
namespace {

constexpr std::uint64_t kMostBatch = 10'000'000;
constexpr std::uint64_t kMostSamples = std::uint64_t{1} << 53;
constexpr std::uint64_t kMostPositions = std::uint64_t{1} << 32;
constexpr std::uint64_t kRecent = 64;
constexpr std::uint64_t kRemembered = 4096;  // steps from one remembered position to the next
// A smaller share would be lost in the rounding of shares.
constexpr std::int64_t kLeastShare = 32;

Error bad_source(const MixtureSource& source, const std::string& what) {
  return {ErrorCode::kInvalidArgument, "source '" + source.name + "': " + what};
}

Status check_name(const MixtureSource& source) {
  const std::string& name = source.name;
  const bool control =
      std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (!name.empty() && name.find('/') == std::string::npos && !control && name.size() <= 200) {
    return {};
  }
  return bad_source(source,
                    "a name has 1 to 200 bytes, without '/' and control characters, as keys of "
                    "samples begin with it: rename the source");
}

Status check_source(const MixtureSource& source) {
  ISOCOST_TRY(check_name(source));
  ISOCOST_TRY(source.schedule.validate("source '" + source.name + "'"));
  if (source.size == 0) {
    return bad_source(source, "it has no usable sample: give other data, or leave it out");
  }
  if (source.size > kMostSamples || source.epochs > kMostSamples / source.size) {
    return bad_source(source, "more than 2^53 samples: give fewer epochs");
  }
  return {};
}

// Checks what concerns several sources, which are in the order of their names.
Status check_together(const std::vector<MixtureSource>& sources) {
  if (sources.empty() || sources.size() > kMostSources) {
    return Error(ErrorCode::kInvalidArgument, "a mixture has 1 to " + std::to_string(kMostSources) +
                                                  " sources, and this one has " +
                                                  std::to_string(sources.size()));
  }
  const auto twice = std::ranges::adjacent_find(sources, {}, &MixtureSource::name);
  if (twice != sources.end()) {
    return bad_source(*twice, "two sources have this name: rename one");
  }
  const auto plain = [](const MixtureSource& source) { return source.schedule.points.empty(); };
  const auto without = std::ranges::find_if(sources, plain);
  if (without == sources.end() || std::ranges::all_of(sources, plain)) return {};
  return bad_source(*without,
                    "it has no proportion, and others have one: give each source a proportion, "
                    "or none");
}

std::string at_step(std::uint64_t step) { return " at step " + std::to_string(step); }

// Checks that every step has a source, and that no share is lost by rounding.
Status check_shares(const std::vector<MixtureSource>& sources,
                    const std::vector<ProportionSchedule>& schedules) {
  Shares shares(schedules);
  const std::vector<std::uint64_t> turns(shares.turns().begin(), shares.turns().end());
  for (const std::uint64_t turn : turns) {
    shares.move_to(turn);
    const std::span<const std::int64_t> now = shares.now();
    if (std::ranges::all_of(now, [](std::int64_t share) { return share == 0; })) {
      return Error(ErrorCode::kInvalidArgument,
                   "no source has a proportion above 0" + at_step(turn) +
                       ": give one, or say with steps where the mixture ends");
    }
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto& points = schedules[i].points;
      const auto own = std::ranges::find(points, turn, &Breakpoint::step);
      const bool positive = own != points.end() && own->proportion > 0 && turn < schedules[i].end;
      if (!positive || now[i] >= kLeastShare) continue;
      return bad_source(sources[i], "its proportion" + at_step(turn) +
                                        " is less than 1e-10 of the sum: give it more, or 0");
    }
  }
  return {};
}

ProportionSchedule schedule_of(const MixtureSource& source) {
  if (!source.schedule.points.empty()) return source.schedule;
  const std::uint64_t samples = source.size * std::max<std::uint64_t>(source.epochs, 1);
  return {{{0, static_cast<double>(samples)}}, false, source.schedule.end};
}

std::uint64_t sum_of(std::span<const std::uint64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::uint64_t limit_of(const MixtureSource& source) {
  const bool once = source.schedule.points.empty() && source.epochs == 0;
  if (once) return source.size;
  return source.epochs == 0 ? kNoLimit : source.size * source.epochs;
}

}  // namespace

std::uint64_t StepDraws::size() const { return sum_of(counts); }

std::uint64_t source_seed(std::uint64_t seed, std::string_view name) {
  Fingerprint hash;
  hash.add(seed);
  hash.add(name);
  return Random(hash.value()).next();
}

// The walk, and positions that it came by.
struct Mixture::Walked {
  DrawWalk walk;
  std::vector<DrawPosition> remembered;  // every kRemembered steps from 0 on
  // The draws of the last steps, each at its number modulo kRecent.
  std::vector<std::pair<std::uint64_t, StepDraws>> recent = {};

  std::span<const std::uint64_t> next() {
    const DrawPosition& position = walk.position();
    if (position.step == remembered.size() * kRemembered) remembered.push_back(position);
    return walk.next();
  }
  // Goes to a step, from the nearest position before it.
  void move_to(std::uint64_t step) {
    const std::uint64_t present = walk.position().step;
    const std::uint64_t nearest =
        remembered.empty() ? 0 : std::min<std::uint64_t>(step / kRemembered, remembered.size() - 1);
    if (present > step || nearest * kRemembered > present) {
      walk.move_to(remembered.at(static_cast<std::size_t>(nearest)));
    }
    while (walk.position().step < step) next();
  }
};

Result<std::shared_ptr<const Mixture>> Mixture::create(MixtureOptions options) {
  if (options.global_batch_size < 1 || options.global_batch_size > kMostBatch) {
    return Error(ErrorCode::kInvalidArgument,
                 "global_batch_size = " + std::to_string(options.global_batch_size) +
                     ": a mixture needs 1 to " + std::to_string(kMostBatch));
  }
  std::ranges::sort(options.sources, {}, &MixtureSource::name);
  ISOCOST_TRY(check_together(options.sources));
  for (const MixtureSource& source : options.sources) ISOCOST_TRY(check_source(source));
  std::shared_ptr<Mixture> mixture(new Mixture(std::move(options)));
  ISOCOST_TRY(check_shares(mixture->options_.sources, mixture->schedules_));
  mixture->count_positions();
  if (mixture->length_.value_or(0) >= kMostPositions) {
    return Error(ErrorCode::kInvalidArgument,
                 "the mixture has more than 4294967295 steps: give steps, or fewer epochs");
  }
  return std::shared_ptr<const Mixture>(std::move(mixture));
}

Mixture::Mixture(MixtureOptions options)
    : options_(std::move(options)), walked_([this] {
        for (const MixtureSource& source : options_.sources) {
          schedules_.push_back(schedule_of(source));
          limits_.push_back(limit_of(source));
        }
        return std::make_unique<Walked>(
            Walked{DrawWalk(schedules_, limits_, options_.global_batch_size), {}});
      }()) {}

Mixture::~Mixture() = default;

bool Mixture::by_size() const { return options_.sources.front().schedule.points.empty(); }

// Returns whether every step has a source without limit, as far as turns tell; `last`: whether
// those behind the last turn do.
bool Mixture::always_fed(bool last) const {
  Shares shares(schedules_);
  const std::vector<std::uint64_t> turns(shares.turns().begin(), shares.turns().end());
  for (std::size_t t = last ? turns.size() - 1 : 0; t < turns.size(); ++t) {
    shares.move_to(turns[t]);
    bool fed = false;
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      fed |= limits_[i] == kNoLimit && shares.now()[i] > 0;
    }
    if (!fed) return false;
  }
  return true;
}

// Returns the first position without samples, up to `most`. Keeps the size of the one before it.
std::uint64_t Mixture::first_empty(std::uint64_t most) {
  DrawWalk walk(schedules_, limits_, options_.global_batch_size);
  std::uint64_t positions = 0;
  for (; positions < most; ++positions) {
    const std::uint64_t size = sum_of(walk.next());
    if (size == 0) break;
    last_size_ = size;
  }
  return positions;
}

// Counts the positions. A batch is full until all that is left is in sources whose proportion is 0.
// So if none ever has that, the number follows from the samples; otherwise the walk tells it.
void Mixture::count_positions() {
  const std::uint64_t stop = options_.steps > 0 ? options_.steps : kMostPositions;
  last_size_ = options_.global_batch_size;
  if (options_.steps > 0) length_ = options_.steps;
  if (always_fed(false)) return;
  if (always_fed(true)) {
    const std::uint64_t last_turn = std::min(stop, Shares(schedules_).turns().back());
    const std::uint64_t empty = first_empty(last_turn);
    if (empty < last_turn) length_ = empty;
    return;
  }
  const auto always = [](const ProportionSchedule& schedule) {
    return schedule.points.front().step == 0 && schedule.end == ProportionSchedule::kNoEnd &&
           std::ranges::find(schedule.points, 0.0, &Breakpoint::proportion) ==
               schedule.points.end();
  };
  const bool limited = std::ranges::find(limits_, kNoLimit) == limits_.end();
  if (!limited || !std::ranges::all_of(schedules_, always)) {
    length_ = first_empty(stop);
    return;
  }
  const std::uint64_t batch = options_.global_batch_size;
  Wide samples = 0;
  for (const std::uint64_t limit : limits_) samples += limit;
  const Wide positions = (samples + batch - 1) / batch;
  length_ = static_cast<std::uint64_t>(std::min<Wide>(positions, stop));
  if (*length_ == positions)
    last_size_ = static_cast<std::uint64_t>(samples - (positions - 1) * batch);
}

std::uint64_t Mixture::batch_size(std::uint64_t position) const {
  const std::uint64_t length = length_.value_or(kMostPositions);
  if (position >= length) return 0;
  return position + 1 == length ? last_size_ : options_.global_batch_size;
}

StepDraws Mixture::draws(std::uint64_t position) const {
  StepDraws draws;
  draws.counts.resize(options_.sources.size());
  draws.before.resize(options_.sources.size());
  if (length_ && position >= *length_) return draws;
  const MutexLock lock(mutex_);
  auto& recent = walked_->recent;
  recent.resize(kRecent);
  auto& [kept_position, kept] = recent[position % kRecent];
  if (kept_position == position && !kept.counts.empty()) return kept;
  walked_->move_to(position);
  draws.before = walked_->walk.position().drawn;
  const std::span<const std::uint64_t> counts = walked_->next();
  draws.counts.assign(counts.begin(), counts.end());
  draws.ended.assign(walked_->walk.ended().begin(), walked_->walk.ended().end());
  kept_position = position;
  kept = draws;
  return draws;
}

}  // namespace isocost
