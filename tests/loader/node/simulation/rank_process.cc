#include "tests/loader/node/simulation/rank_process.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace isocost {

RankProcess::RankProcess(std::size_t number, const RankOptions& options, Network& network, Time now)
    : number_(number),
      options_(options),
      network_(network),
      machine_(options_, now),
      now_(now),
      heard_(now) {}

void RankProcess::connect(Time now) {
  address_ = network_.connect(number_);
  say_hello(now);
}

void RankProcess::say_hello(Time now) {
  network_.to_node(address_, machine_.hello(now));
  std::erase_if(waiting_,
                [](const Message& message) { return std::holds_alternative<Credit>(message); });
  for (Message& message : std::exchange(waiting_, {})) {
    network_.to_node(address_, std::move(message));
  }
}

void RankProcess::receive(Time now) {
  now_ = now;
  Network::ToRank next;
  if (address_.empty() || !network_.take_at_rank(address_, next)) return;
  heard_ = now;
  if (const auto* message = std::get_if<Message>(&next)) {
    apply([&](RankActions& actions) { machine_.receive(*message, actions); });
    return;
  }
  const Position& of = std::get<Tensors>(next).of;
  if (std::erase(incomplete_, of) == 0) return;
  apply([&](RankActions& actions) { machine_.assembled(of, {}, actions); });
}

// It reads all that has come before it looks whether its node is silent.
void RankProcess::tick(Time now) {
  now_ = now;
  while (!address_.empty() && network_.has_for_rank(address_)) receive(now);
  if (!address_.empty()) network_.to_node(address_, Heartbeat{});
  apply([&](RankActions& actions) { machine_.tick(now, now - heard_, actions); });
}

void RankProcess::loop() {
  trained_ = taken_.size();
  apply([&](RankActions& actions) { machine_.ask(actions); });
  if (ready_.empty()) {
    if (failure_) {
      error_ = failure_;
      end(false);
    }
    return;
  }
  const Item next = ready_.front();
  ready_.pop_front();
  taken_.push_back(next);
  if (const auto* ended = std::get_if<EpochEnd>(&next)) {
    machine_.take(*ended);
    if (!ended->last_epoch) return;
    done_ = true;
    trained_ = taken_.size();
    return end(true);
  }
  MicrobatchHeader header;
  header.position = std::get<Position>(next);
  apply([&](RankActions& actions) { machine_.take(header, actions); });
}

void RankProcess::stop() { end(false); }

// The process ends once what it has to say is under way.
void RankProcess::end(bool acknowledge_last) {
  apply([&](RankActions& actions) { machine_.close(acknowledge_last, actions); });
  over_ = true;
  if (address_.empty()) {
    network_.lose_words_of(number_);
  } else {
    network_.close(address_);
  }
}

void RankProcess::lose_connection() {
  if (address_.empty()) return;
  network_.lose(address_);
  address_.clear();
}

void RankProcess::kill() {
  if (!waiting_.empty()) network_.lose_words_of(number_);
  lose_connection();
  killed_ = true;
  over_ = true;
}

void RankProcess::freeze(Time until) { frozen_until_ = until; }

// It does not take its own absence for its node's.
void RankProcess::thaw(Time now) {
  heard_ += now - now_;
  now_ = now;
  frozen_until_.reset();
}

template <typename Event>
void RankProcess::apply(Event event) {
  RankActions actions;
  event(actions);
  for (const RankAction& action : actions) perform(action, now_);
}

void RankProcess::perform(const RankAction& action, Time now) {
  if (const auto* sent = std::get_if<SendMessage>(&action)) {
    send(sent->message);
  } else if (std::holds_alternative<JoinAgain>(action)) {
    if (!address_.empty()) say_hello(now);
  } else if (const auto* begun = std::get_if<BeginAssembly>(&action)) {
    incomplete_.push_back(begun->position);
  } else if (std::holds_alternative<DropIncomplete>(action)) {
    incomplete_.clear();
  } else if (const auto* handed = std::get_if<HandOver>(&action)) {
    ready_.push_back(handed->next);
    const auto microbatches = std::ranges::count_if(
        ready_, [](const Item& item) { return std::holds_alternative<Position>(item); });
    overrun_ = overrun_ || microbatches > static_cast<std::ptrdiff_t>(options_.prefetch);
  } else if (const auto* failed = std::get_if<Fail>(&action)) {
    failure_ = failed->error;
  } else if (std::holds_alternative<Recover>(action)) {
    failure_.reset();
  } else if (const auto* answered = std::get_if<Answer>(&action)) {
    welcomed_ = answered->answer.has_value();
  } else if (std::holds_alternative<ExplainUnreached>(action)) {
    apply([&](RankActions& actions) { machine_.tell_unreached("", actions); });
  }
}

void RankProcess::send(const Message& message) {
  if (!address_.empty()) {
    network_.to_node(address_, message);
  } else if (!std::holds_alternative<Credit>(message)) {
    waiting_.push_back(message);
  }
}

}  // namespace isocost
