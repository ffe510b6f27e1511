#include "loader/node/internal/unasked_start.h"

#include "base/counted.h"

namespace isocost {
namespace {

constexpr const char* kRemedy =
    ". Fresh weights would miss the steps before: give every rank the state that was saved with "
    "its weights (options.start), or State() to begin anew";

std::string step_text(const Position& at) {
  return "epoch " + std::to_string(at.epoch) + ", step " + std::to_string(at.step);
}

bool is_asked(const UnaskedStart& start) {
  return start.next.epoch == start.asked.epoch && start.next.step == start.asked.step;
}

}  // namespace

std::optional<std::string> warning_of(const std::string& name, const UnaskedStart& start) {
  const Position& next = start.next;
  if (next.microbatch > 0) {
    return name + " joins inside " + step_text(next) + ", of which its last client trained " +
           counted(next.microbatch, "microbatch") +
           ": unless this process did so, their gradients are lost. Start all ranks again from "
           "the last saved state";
  }
  if (is_asked(start)) return std::nullopt;
  return name + " joins without a start and goes on at " + step_text(next) +
         ", where its last client stopped" + kRemedy;
}

std::optional<std::string> warning_of_repeated_step(const std::string& name,
                                                    const UnaskedStart& start) {
  if (is_asked(start)) return std::nullopt;
  return name + " joins without a start, and the run before it ended inside a step: " +
         step_text(start.next) + " is delivered again from its first microbatch" + kRemedy;
}

}  // namespace isocost
