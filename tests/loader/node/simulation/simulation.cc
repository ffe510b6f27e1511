#include "tests/loader/node/simulation/simulation.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "transport/protocol/rank_options.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{500};
constexpr milliseconds kConnectTimeout{30'000};
constexpr milliseconds kUntilRestart{20'000};  // of a run that is done, if the node is not
constexpr int kRestartsOfSoundPart = 4;

std::string text_of(const Item& item) {
  if (const auto* end = std::get_if<EpochEnd>(&item)) {
    return "the end of epoch " + std::to_string(end->epoch);
  }
  const Position& at = std::get<Position>(item);
  return std::to_string(at.epoch) + "/" + std::to_string(at.step) + "/" +
         std::to_string(at.microbatch);
}

bool is_after(const Item& item, const Position& position) {
  if (const auto* at = std::get_if<Position>(&item)) return *at > position;
  return std::get<EpochEnd>(item).epoch >= position.epoch;
}

}  // namespace

struct Simulation::Member {
  Member(std::size_t number, const RankOptions& options, Network& network, MonotonicTime now)
      : process(number, options, network, now), started(now) {}

  RankProcess process;
  MonotonicTime started;
  MonotonicTime connects;                 // not before
  MonotonicTime frozen_until;             // the last time
  std::optional<std::uint64_t> job = {};  // that it has joined
  std::vector<Item> expected = {};        // from its first join on
  std::size_t checked = 0;                // of what it took
};

struct Simulation::Job {
  JobTerms terms;
  std::map<std::int32_t, Position> acknowledged = {};
};

Simulation::Simulation(std::uint64_t seed)
    : dice_(seed),
      data_(seed),
      ranks_(static_cast<std::int32_t>(1 + dice_.below(3))),
      synchronous_(dice_.one_in(2)),
      node_(data_, dice_.one_in(2) ? ranks_ : 0, network_, dice_),
      restarts_left_(kRestartsOfSoundPart) {
  node_.observer = {
      [this](const std::string& address, const ClientJoined& joined, const JobTerms& job) {
        this->joined(address, joined, job);
      },
      [this](const Acknowledged& done, std::uint64_t job) { this->acknowledged(done, job); },
      [this](const JobTerms& job, bool all_done) { begun(job, all_done); }};
  if (const auto job = node_.job()) jobs_.emplace(job->id, Job{*job});
}

Simulation::~Simulation() = default;

std::string Simulation::play() {
  const bool near_the_end = dice_.one_in(4);
  const std::uint32_t step = TrainingData::kSteps - 1;
  start_run(near_the_end ? std::optional(StartPoint{0, TrainingData::kEpochs - 1, step, {}, {}})
                         : std::nullopt);
  for (; !is_over() && violation_.empty() && turn_ < kMostTurns; ++turn_) take_turn();
  if (violation_.empty() && !is_over()) violate("it does not end");
  for (const std::size_t i : to_be_told_) {
    if (!members_[i]->process.is_done()) {
      violate("process " + std::to_string(i) + " is not told the last end");
    }
  }
  return violation_;
}

// A node that is finished waits for a while until its clients have left.
bool Simulation::is_over() const {
  constexpr std::chrono::seconds kDrainTimeout{5};
  if (node_.missing()) return true;
  if (!finished_ || late_) return false;
  return now_ - *finished_ > kDrainTimeout || std::ranges::all_of(run_, [this](std::size_t i) {
           return members_[i]->process.is_over();
         });
}

void Simulation::violate(const std::string& what) {
  if (!violation_.empty()) return;
  note(what);
  for (const std::string& event : events_) violation_ += "\n" + event;
  for (const auto& member : members_) {
    const RankProcess& process = member->process;
    if (process.is_over()) continue;
    violation_ += "\nprocess " + std::to_string(process.number()) + " of rank " +
                  std::to_string(process.rank()) + (process.runs() ? " runs" : " is stopped") +
                  (process.is_connected() ? " and is connected" : "");
  }
  violation_ += node_.is_finished() ? "\nthe node is finished" : "\nthe node goes on";
}

void Simulation::note(const std::string& event) {
  constexpr std::size_t kMost = 60;
  const auto ms = std::chrono::duration_cast<milliseconds>(now_.time_since_epoch()).count();
  events_.push_back("turn " + std::to_string(turn_) + ", " + std::to_string(ms) + " ms: " + event);
  if (events_.size() > kMost) events_.pop_front();
}

void Simulation::take_turn() {
  pass_time();
  switch (dice_.below(8)) {
    case 0:
    case 1:
      return node_.receive(now_);
    case 2:
      return node_.plan();
    case 3:
      node_.deliver(now_, !late_);
      if (dice_.one_in(2)) node_.send_queued();
      if (const auto rank = node_.missing()) check_missing(*rank);
      if (node_.is_finished() && !finished_) note_end();
      return;
    case 4:
      act_as_operator();
      return sound() ? void() : act_as_adversary();
    default:
      std::vector<Member*> living;
      for (const auto& member : members_) {
        if (member->process.runs()) living.push_back(member.get());
      }
      if (!living.empty()) take_turn_of(*living[dice_.below(living.size())]);
  }
}

// Notes which ranks are about to be told the last end.
void Simulation::note_end() {
  finished_ = now_;
  node_.send_queued();
  for (const std::size_t i : run_) {
    const RankProcess& process = members_[i]->process;
    const bool joined = process.runs() && process.was_welcomed() && process.is_connected() &&
                        node_.holds(process.rank(), process.address());
    if (joined && sound()) to_be_told_.push_back(i);
  }
}

void Simulation::pass_time() {
  now_ += milliseconds(dice_.below(20));
  network_.pass_time(now_);
  if (now_ < next_tick_) return;
  next_tick_ = now_ + kTick;
  for (const auto& member : members_) {
    RankProcess& process = member->process;
    if (process.frozen_until() && *process.frozen_until() <= now_) process.thaw(now_);
    if (process.runs()) process.tick(now_);
  }
  // The node reads all that has come before it looks who is silent.
  while (!network_.any_for_node().empty()) node_.receive(now_);
  node_.tick(now_);
  node_.send_queued();
}

void Simulation::take_turn_of(Member& member) {
  RankProcess& process = member.process;
  if (!process.is_connected()) {
    if (now_ >= member.connects) process.connect(now_);
    return;
  }
  if (!process.was_welcomed() && now_ - member.started > kConnectTimeout)
    return end_process(member);
  if (!dice_.one_in(3)) return process.receive(now_);
  if (waits_for_others(process)) return;
  process.loop();
  check_taken(member);
}

// A node fails for a rank that has been away for long, if its processes died or were stopped, or if
// they are through and what they said last was lost.
void Simulation::check_missing(std::int32_t rank) {
  const auto harmed = harmed_.find(rank);
  const bool was_harmed =
      harmed != harmed_.end() && now_ - harmed->second < 2 * NodeProcess::kHeartbeatTimeout;
  if (was_harmed || is_run_done()) {
    counts_["nodes that missed a rank"] += 1;
    return;
  }
  violate("the node failed as rank " + std::to_string(rank) + " has left");
}

// Ranks of one model exchange gradients at the end of a step.
bool Simulation::waits_for_others(const RankProcess& process) const {
  if (!synchronous_ || process.taken().empty()) return false;
  const auto* at = std::get_if<Position>(&process.taken().back());
  if (at == nullptr || at->microbatch + 1 < data_.microbatches(at->epoch, at->step)) return false;
  if (std::ranges::find(run_, process.number()) == run_.end()) return false;
  return std::ranges::any_of(run_, [&](std::size_t i) {
    const std::vector<Item>& taken = members_[i]->process.taken();
    return taken.empty() || (taken.back() != Item(*at) && !is_after(taken.back(), *at));
  });
}

void Simulation::end_process(Member& member) {
  if (member.process.is_over()) return;
  if (dice_.one_in(2)) {
    member.process.stop();
  } else {
    member.process.kill();
  }
}

// Starts again what has ended too early, some time after the operator has noticed it.
void Simulation::act_as_operator() {
  if (late_ && (members_[*late_]->process.is_over() ||
                now_ - members_[*late_]->started > milliseconds(3000))) {
    members_[*late_]->process.kill();
    late_.reset();
  }
  if (node_.all_done() && !std::exchange(came_late_, true)) come_late();
  if (node_.all_done()) return;  // nobody is needed any more
  if (restart_ && now_ >= *restart_) return restart_all();
  if (!restart_ && is_run_done()) restart_ = now_ + kUntilRestart;
  for (const auto& [rank, time] : replace_) {
    if (now_ < time) continue;
    counts_["ranks replaced"] += 1;
    run_[static_cast<std::size_t>(rank)] = start_process(rank, std::nullopt).process.number();
    replace_.erase(rank);
    return;
  }
  for (const std::size_t i : run_) {
    const RankProcess& process = members_[i]->process;
    if (!process.is_over() || process.is_done() || restart_) continue;
    if (replace_.contains(process.rank())) continue;
    note("process " + std::to_string(i) + " of rank " + std::to_string(process.rank()) +
         (process.was_killed() ? " was killed" : " has ended") +
         (process.error() ? ": " + process.error()->message() : ""));
    const MonotonicTime time = now_ + milliseconds(dice_.below(2000));
    const bool others_train = std::ranges::none_of(
        run_, [this](std::size_t other) { return members_[other]->process.is_done(); });
    if (process.error() && process.error()->code() == ErrorCode::kCorrupt) {
      return violate(process.error()->message());
    }
    if (process.was_killed() && !synchronous_ && others_train && dice_.one_in(2)) {
      replace_[process.rank()] = time;
    } else {
      restart_ = time;
    }
  }
}

// Returns whether every process has trained on everything. If the node does not end then, it lacks
// what one of them has said last.
bool Simulation::is_run_done() const {
  return std::ranges::all_of(run_,
                             [this](std::size_t i) { return members_[i]->process.is_done(); });
}

// A client that comes when everything is trained, and asks for the beginning.
void Simulation::come_late() {
  if (dice_.one_in(2)) return;
  counts_["late hellos"] += 1;
  late_ = start_process(0, StartPoint{}).process.number();
  members_[*late_]->connects = now_;
}

void Simulation::restart_all() {
  if (sound() && restarts_left_-- == 0) return violate("it is restarted again and again");
  restart_.reset();
  replace_.clear();
  counts_["restarts"] += 1;
  const std::optional<StartPoint> saved = last_saved();
  for (const auto& member : members_) end_process(*member);
  start_run(synchronous_ && dice_.one_in(2) ? saved : std::nullopt);
}

void Simulation::start_run(const std::optional<StartPoint>& start) {
  run_.clear();
  run_start_ = start;
  for (std::int32_t rank = 0; rank < ranks_; ++rank) {
    run_.push_back(start_process(rank, start).process.number());
  }
}

Simulation::Member& Simulation::start_process(std::int32_t rank,
                                              const std::optional<StartPoint>& start) {
  const std::size_t number = members_.size();
  note("process " + std::to_string(number) + " of rank " + std::to_string(rank) + " starts" +
       (start ? " from " + std::to_string(start->epoch) + "/" + std::to_string(start->step) : ""));
  RankOptions options;
  options.rank = rank;
  options.world_size = ranks_;
  options.prefetch = 1 + static_cast<std::uint32_t>(dice_.below(3));
  options.start = start;
  for (std::size_t i = 0; i < sizeof(number); ++i) {
    options.client_id.at(i) = static_cast<std::uint8_t>((number + 1) >> (8 * i));
  }
  members_.push_back(std::make_unique<Member>(number, options, network_, now_));
  Member& member = *members_.back();
  member.connects = now_ + milliseconds(dice_.below(dice_.one_in(4) ? 4000 : 100));
  return member;
}

// Returns the first step that not every rank of the run has trained on.
std::optional<StartPoint> Simulation::last_saved() const {
  std::optional<StartPoint> saved;
  for (const std::size_t i : run_) {
    const RankProcess& process = members_[i]->process;
    StartPoint of_rank = run_start_.value_or(StartPoint{});
    for (std::size_t n = 0; n < process.trained(); ++n) {
      const Item& item = process.taken()[n];
      if (const auto* end = std::get_if<EpochEnd>(&item)) {
        of_rank = {0, end->epoch + 1, 0, {}, {}};
        continue;
      }
      const Position& at = std::get<Position>(item);
      if (at.microbatch + 1 == data_.microbatches(at.epoch, at.step)) {
        of_rank = {0, at.epoch, at.step + 1, {}, {}};
      }
    }
    const bool earlier =
        !saved || std::pair(of_rank.epoch, of_rank.step) < std::pair(saved->epoch, saved->step);
    if (earlier) saved = of_rank;
  }
  return saved;
}

void Simulation::act_as_adversary() {
  Member& member = *members_[run_[dice_.below(run_.size())]];
  RankProcess& process = member.process;
  if (!process.runs() || !dice_.one_in(4)) return;
  switch (dice_.below(8)) {
    case 0:
      counts_["kills"] += 1;
      harmed_[process.rank()] = now_;
      return process.kill();
    case 1:
      if (!dice_.one_in(4)) return;
      harmed_[process.rank()] = now_;
      return process.stop();  // its loop raises, or breaks
    case 2:
      counts_["freezes"] += 1;
      note("process " + std::to_string(process.number()) + " is stopped for a while");
      member.frozen_until = now_ + milliseconds(dice_.below(dice_.one_in(2) ? 1000 : 8000));
      harmed_[process.rank()] = member.frozen_until;
      return process.freeze(member.frozen_until);
    case 3:
      if (!dice_.one_in(4)) return;
      counts_["second clients"] += 1;
      start_process(process.rank(), run_start_);
      return;
    case 4:
      if (!process.is_connected()) return;
      counts_["stalls"] += 1;
      return network_.stall(process.address(), now_ + milliseconds(dice_.below(4000)));
    default:
      if (!process.is_connected()) return;
      counts_["lost connections"] += 1;
      note("process " + std::to_string(process.number()) + " loses its connection");
      process.lose_connection();
      member.connects = now_ + milliseconds(dice_.below(1000));
  }
}

void Simulation::check_taken(Member& member) {
  if (member.process.was_overrun()) violate("a process is sent more than it asks for");
  const std::vector<Item>& taken = member.process.taken();
  for (; member.checked < taken.size(); ++member.checked) {
    counts_["items trained"] += 1;
    if (member.checked >= member.expected.size()) {
      return violate("process " + std::to_string(member.process.number()) +
                     " got more than there is: " + text_of(taken.back()));
    }
    const Item& wanted = member.expected[member.checked];
    const Item& got = taken[member.checked];
    if (wanted == got) continue;
    return violate("process " + std::to_string(member.process.number()) + " of rank " +
                   std::to_string(member.process.rank()) + " got " + text_of(got) + " instead of " +
                   text_of(wanted));
  }
}

void Simulation::begun(const JobTerms& terms, bool all_done) {
  if (all_done) violate("a job begins though everything is trained");
  counts_["jobs"] += 1;
  note("job " + std::to_string(terms.id) + " begins at " + std::to_string(terms.start.epoch) + "/" +
       std::to_string(terms.start.step));
  jobs_.emplace(terms.id, Job{terms});
}

// A process takes over from one that is gone, and of which all that it has said was heard.
void Simulation::check_predecessor(const Member& before, const Member& member,
                                   const JobTerms& terms) {
  const RankProcess& process = before.process;
  const bool was_frozen = now_ - before.frozen_until < 2 * NodeProcess::kHeartbeatTimeout;
  if (process.runs() && process.is_connected() && !was_frozen &&
      node_.holds(process.rank(), process.address())) {
    return violate("rank " + std::to_string(process.rank()) + " is given to process " +
                   std::to_string(member.process.number()) + ", though process " +
                   std::to_string(process.number()) + " holds it");
  }
  if (!process.is_over() || before.job != terms.id || before.frozen_until > MonotonicTime() ||
      network_.lost_words_of(process.number())) {
    return;
  }
  const auto done = jobs_.at(terms.id).acknowledged.find(process.rank());
  for (std::size_t i = 0; i < process.trained(); ++i) {
    const auto* at = std::get_if<Position>(&process.taken()[i]);
    if (at == nullptr) continue;
    if (done != jobs_.at(terms.id).acknowledged.end() && *at <= done->second) continue;
    return violate("process " + std::to_string(process.number()) + " has acknowledged " +
                   text_of(*at) + ", which its successor is given again");
  }
}

void Simulation::joined(const std::string& address, const ClientJoined& joined,
                        const JobTerms& terms) {
  counts_["joins"] += 1;
  Member& member = *members_[network_.process_of(address)];
  note("process " + std::to_string(member.process.number()) + " joins rank " +
       std::to_string(joined.rank) + " of job " + std::to_string(terms.id));
  const std::size_t number = member.process.number();
  if (const auto held = holders_.find(joined.rank); held != holders_.end()) {
    if (held->second != number) check_predecessor(*members_[held->second], member, terms);
  }
  holders_[joined.rank] = number;
  Job& job = jobs_.at(terms.id);
  if (member.process.was_welcomed()) {
    if (member.job != terms.id) violate("a process changes its job");
    return;
  }
  member.job = terms.id;
  member.expected = data_.items_from(terms.start.epoch, terms.start.step);
  const auto done = job.acknowledged.find(joined.rank);
  if (done == job.acknowledged.end()) return;
  counts_["joins that continue"] += 1;
  auto first = member.expected.begin();
  while (!is_after(*first, done->second)) ++first;
  // The end of an epoch that another client has trained on would look like that of its own.
  const auto* end = std::get_if<EpochEnd>(&*first);
  if (end != nullptr && !end->last_epoch) ++first;
  member.expected.erase(member.expected.begin(), first);
}

void Simulation::acknowledged(const Acknowledged& acknowledged, std::uint64_t job) {
  counts_["acknowledgements"] += 1;
  note("rank " + std::to_string(acknowledged.rank) + " acknowledges " +
       text_of(acknowledged.position));
  const auto held = holders_.find(acknowledged.rank);
  if (held == holders_.end()) return violate("a rank without a client acknowledges");
  const Member& member = *members_[held->second];
  if (member.job != job) return;  // of the job before
  const RankProcess& process = member.process;
  const bool trained =
      std::any_of(process.taken().begin(),
                  process.taken().begin() + static_cast<std::ptrdiff_t>(process.trained()),
                  [&](const Item& item) { return item == Item(acknowledged.position); });
  if (!trained) return violate("what was not trained is acknowledged");
  auto& done = jobs_.at(job).acknowledged;
  const auto [at, first] = done.try_emplace(acknowledged.rank, acknowledged.position);
  at->second = std::max(at->second, acknowledged.position);
}

}  // namespace isocost
