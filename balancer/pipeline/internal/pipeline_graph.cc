#include "balancer/pipeline/internal/pipeline_graph.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "balancer/pipeline/internal/narrow.h"

namespace isocost {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kKinds = PassTable::kKinds;

Error malformed(std::string message) {
  return {ErrorCode::kInvalidArgument, "pipeline step: " + std::move(message)};
}

}  // namespace

/// Merges the stages' programs into one order: each device in turn runs as far as it can.
class GraphBuilder {
 public:
  explicit GraphBuilder(const PipelineStep& step) : step_(step) {}

  Result<PipelineGraph> build() {
    ISOCOST_TRY(check_shape());
    number_rows();
    ISOCOST_TRY(index_feeds());
    ISOCOST_TRY(make_llm_programs());
    if (step_.encoder.stages > 0) ISOCOST_TRY(make_encoder_programs());
    graph_.devices_ = devices_.size();
    ISOCOST_TRY(merge());
    for (const Device& device : devices_) {
      if (device.last >= 0) graph_.last_.push_back(static_cast<std::uint32_t>(device.last));
    }
    return std::move(graph_);
  }

 private:
  using Input = PipelineGraph::Input;

  struct Device {
    bool encoder = false;
    std::uint32_t replica = 0;
    std::uint32_t stage = 0;
    std::vector<Pass> program;
    std::size_t next = 0;
    std::int32_t last = -1;
  };

  const ModulePipeline& module(bool encoder) const { return encoder ? step_.encoder : step_.llm; }

  Status check_module(const ModulePipeline& module, const std::string& name) const {
    if (module.chunks == 0) return malformed(name + " has no model chunks");
    if (module.passes.empty()) return malformed(name + " has no replicas");
    for (const auto& passes : module.passes) {
      if (passes.empty()) return malformed("a replica of " + name + " has no microbatches");
      if (passes.size() % module.model_chunks() != 0) {
        return malformed(name + " has passes that do not fill its stages");
      }
    }
    return {};
  }

  Status check_shape() const {
    if (step_.llm.stages == 0) return malformed("the LLM has no stages");
    ISOCOST_TRY(check_module(step_.llm, "the LLM"));
    for (std::size_t r = 1; r < step_.llm.replicas(); ++r) {
      if (step_.llm.slots(r) != step_.llm.slots(0)) {
        return malformed("the LLM's replicas differ in microbatches");
      }
    }
    if (step_.encoder.stages == 0) {
      return step_.feeds.empty() ? Status{} : malformed("feeds without an encoder");
    }
    if (step_.encoder.chunks != 1) return malformed("an encoder stage holds one chunk");
    return check_module(step_.encoder, "the encoder");
  }

  void number_rows() {
    std::uint32_t row = 0;
    for (const bool encoder : {true, false}) {
      if (module(encoder).stages == 0) continue;
      for (const auto& passes : module(encoder).passes) {
        first_row_[encoder ? 0 : 1].push_back(row);
        row += narrow(passes.size());
      }
    }
    done_.assign(kKinds * row, kNone);
  }

  Status index_feeds() {
    if (step_.encoder.stages == 0) return {};
    const std::size_t microbatches = step_.llm.slots(0);
    into_.resize(step_.llm.replicas() * microbatches);
    from_.resize(step_.encoder.replicas());
    for (std::size_t e = 0; e < from_.size(); ++e) from_[e].resize(step_.encoder.slots(e));
    for (std::size_t i = 0; i < step_.feeds.size(); ++i) {
      const Feed& feed = step_.feeds[i];
      if (feed.encoder_replica >= from_.size() || feed.slot >= from_[feed.encoder_replica].size() ||
          feed.llm_replica >= step_.llm.replicas() || feed.microbatch >= microbatches) {
        return malformed("feed " + std::to_string(i) +
                         " refers to a slot or microbatch that does not exist");
      }
      into_[feed.llm_replica * microbatches + feed.microbatch].push_back(narrow(i));
      from_[feed.encoder_replica][feed.slot].push_back(narrow(i));
    }
    return {};
  }

  Status make_llm_programs() {
    for (std::size_t replica = 0; replica < step_.llm.replicas(); ++replica) {
      for (std::size_t stage = 0; stage < step_.llm.stages; ++stage) {
        ISOCOST_ASSIGN(auto program,
                       stage_program(step_.schedule, step_.llm.stages, stage, step_.llm.chunks,
                                     step_.llm.slots(0), step_.encoder.stages + stage));
        devices_.push_back(
            {.replica = narrow(replica), .stage = narrow(stage), .program = std::move(program)});
      }
    }
    return {};
  }

  // Returns the program of an encoder stage. It runs a slot's backward pass only after it has run
  // ahead far enough for the LLM to return that slot's gradients, and for the encoder's later
  // stages to stay busy.
  Result<std::vector<Pass>> encoder_program(std::size_t replica, std::size_t stage,
                                            const std::vector<std::uint32_t>& taken) const {
    std::vector<FedMicrobatches> slots(from_[replica].size(), {.first = kNone});
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (from_[replica][s].empty()) {
        return malformed("encoder replica " + std::to_string(replica) + " slot " +
                         std::to_string(s) + " feeds nothing");
      }
      for (const std::uint32_t feed : from_[replica][s]) {
        slots[s].first = std::min(slots[s].first, step_.feeds[feed].microbatch);
        slots[s].last = std::max(slots[s].last, step_.feeds[feed].microbatch);
      }
    }
    const std::size_t lead = step_.encoder.stages - stage + step_.encoder_ahead;
    return feeding_program(step_.schedule, forwards_before(taken, slots, lead), stage);
  }

  Status make_encoder_programs() {
    ISOCOST_ASSIGN(
        const std::vector<std::uint32_t> taken,
        taken_before(step_.schedule, step_.llm.stages, step_.llm.chunks, step_.llm.slots(0)));
    std::vector<Device> encoders;
    for (std::size_t replica = 0; replica < step_.encoder.replicas(); ++replica) {
      for (std::size_t stage = 0; stage < step_.encoder.stages; ++stage) {
        ISOCOST_ASSIGN(auto program, encoder_program(replica, stage, taken));
        encoders.push_back({.encoder = true,
                            .replica = narrow(replica),
                            .stage = narrow(stage),
                            .program = std::move(program)});
      }
    }
    devices_.insert(devices_.begin(), std::make_move_iterator(encoders.begin()),
                    std::make_move_iterator(encoders.end()));
    return {};
  }

  std::uint32_t row_of(bool encoder, std::size_t replica, std::size_t slot,
                       std::size_t chunk) const {
    return first_row_[encoder ? 0 : 1][replica] +
           narrow(slot * module(encoder).model_chunks() + chunk);
  }

  std::uint32_t finished(std::uint32_t row, PassKind kind) const {
    return done_[row * kKinds + static_cast<std::size_t>(kind)];
  }

  // Returns an index into PassTable's delays.
  static std::uint32_t output_delay(std::uint32_t row) { return 1 + row; }
  std::uint32_t feed_delay(std::uint32_t feed) const {
    return narrow(1 + done_.size() / kKinds) + feed;
  }

  // Adds the operations that the pass waits for to `inputs`. Returns false if one of them is not
  // scheduled yet.
  bool add_inputs(const Device& device, const Pass& pass, std::size_t model_chunk,
                  std::vector<Input>& inputs) const {
    if (pass.kind == PassKind::kWeights) return true;
    const bool forward = pass.kind == PassKind::kForward;
    const std::size_t edge = forward ? 0 : module(device.encoder).model_chunks() - 1;
    if (model_chunk != edge) {
      const std::size_t neighbour = forward ? model_chunk - 1 : model_chunk + 1;
      const std::uint32_t sender = row_of(device.encoder, device.replica, pass.slot, neighbour);
      const std::uint32_t output =
          forward ? sender : row_of(device.encoder, device.replica, pass.slot, model_chunk);
      inputs.push_back({finished(sender, pass.kind),
                        module(device.encoder).stages == 1 ? 0 : output_delay(output)});
      return inputs.back().operation != kNone;
    }
    return step_.encoder.stages == 0 || forward == device.encoder ||
           add_feeds(device, pass, inputs);
  }

  // Adds feeds to `inputs`: the LLM's first chunk waits for encoder outputs, the encoder's last
  // chunk for their gradients.
  bool add_feeds(const Device& device, const Pass& pass, std::vector<Input>& inputs) const {
    const auto& feeds = device.encoder ? from_[device.replica][pass.slot]
                                       : into_[device.replica * step_.llm.slots(0) + pass.slot];
    for (const std::uint32_t i : feeds) {
      const Feed& feed = step_.feeds[i];
      const std::uint32_t sender =
          device.encoder ? row_of(false, feed.llm_replica, feed.microbatch, 0)
                         : row_of(true, feed.encoder_replica, feed.slot, step_.encoder.stages - 1);
      inputs.push_back({finished(sender, pass.kind), feed_delay(i)});
      if (inputs.back().operation == kNone) return false;
    }
    return true;
  }

  // Schedules the device's next pass. Returns false if it has to wait.
  bool schedule_next(std::size_t index, std::vector<Input>& inputs) {
    Device& device = devices_[index];
    const Pass& pass = device.program[device.next];
    const std::size_t model_chunk = pass.chunk * module(device.encoder).stages + device.stage;
    inputs.clear();
    if (!add_inputs(device, pass, model_chunk, inputs)) return false;
    const std::uint32_t row = row_of(device.encoder, device.replica, pass.slot, model_chunk);
    done_[row * kKinds + static_cast<std::size_t>(pass.kind)] = narrow(graph_.operations_.size());
    const auto previous = device.last;
    device.last = static_cast<std::int32_t>(graph_.operations_.size());
    ++device.next;
    graph_.operations_.push_back({.row = row,
                                  .previous = previous,
                                  .device = narrow(index),
                                  .pass = pass,
                                  .encoder = device.encoder});
    graph_.inputs_.insert(graph_.inputs_.end(), inputs.begin(), inputs.end());
    graph_.moves_.push_back({.seconds = narrow(row * kKinds + static_cast<std::size_t>(pass.kind)),
                             .previous = previous,
                             .inputs_end = narrow(graph_.inputs_.size())});
    return true;
  }

  Status merge() {
    std::size_t total = 0;
    for (const Device& device : devices_) total += device.program.size();
    graph_.operations_.reserve(total);
    graph_.inputs_.reserve(total);
    std::vector<Input> inputs;
    while (graph_.operations_.size() < total) {
      const std::size_t before = graph_.operations_.size();
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        while (devices_[d].next < devices_[d].program.size() && schedule_next(d, inputs)) {
        }
      }
      if (graph_.operations_.size() == before) return deadlock();
    }
    return {};
  }

  Status deadlock() const {
    for (const Device& device : devices_) {
      if (device.next == device.program.size()) continue;
      return malformed(std::string(device.encoder ? "encoder" : "LLM") + " replica " +
                       std::to_string(device.replica) + " stage " + std::to_string(device.stage) +
                       " waits forever at microbatch " +
                       std::to_string(device.program[device.next].slot) +
                       ": an encoder slot comes later than the microbatch that needs it");
    }
    return {};
  }

  const PipelineStep& step_;
  PipelineGraph graph_;
  std::vector<Device> devices_;
  std::vector<std::uint32_t> first_row_[2];       // first rows of encoder and LLM replicas
  std::vector<std::uint32_t> done_;               // [row × kind]: the operation of each
  std::vector<std::vector<std::uint32_t>> into_;  // feeds of [LLM replica × microbatch]
  std::vector<std::vector<std::vector<std::uint32_t>>> from_;  // feeds of [replica][slot]
};

Result<PipelineGraph> PipelineGraph::build(const PipelineStep& step) {
  return GraphBuilder(step).build();
}

double PipelineGraph::seconds(const Operation& operation, const PassTable& table) const {
  return table.seconds_[operation.row * kKinds + static_cast<std::size_t>(operation.pass.kind)];
}

double PipelineGraph::run(const PassTable& table, std::span<double> ends) const {
  const Input* input = inputs_.data();
  for (std::size_t i = 0; i < moves_.size(); ++i) {
    const Move& move = moves_[i];
    double start = 0;
    if (move.previous < 0) {
      start =
          table.transfers(operations_[i].encoder).gather.exposed_s(table.seconds_[move.seconds]);
    } else {
      start = ends[static_cast<std::size_t>(move.previous)];
    }
    for (const Input* const end = inputs_.data() + move.inputs_end; input != end; ++input) {
      start = std::max(start, ends[input->operation] + table.delays_[input->delay]);
    }
    ends[i] = start + table.seconds_[move.seconds];
  }
  double step_s = 0;
  for (const std::uint32_t last : last_) {  // no other operation of the device ends later
    const LayeredTransfer& reduce = table.transfers(operations_[last].encoder).reduce;
    step_s = std::max(step_s, ends[last] + reduce.exposed_s(table.seconds_[moves_[last].seconds]));
  }
  return step_s;
}

PassTable::PassTable(const PipelineStep& step)
    : link_(step.link),
      encoder_(step.encoder.transfers),
      llm_(step.llm.transfers),
      split_(step.schedule == Schedule::kZbH1) {
  for (const ModulePipeline* module : {&step.encoder, &step.llm}) {
    if (module->stages == 0) continue;
    for (const auto& passes : module->passes) {
      rows_.insert(rows_.end(), passes.begin(), passes.end());
    }
  }
  seconds_.resize(rows_.size() * kKinds);
  delays_.resize(1 + rows_.size() + step.feeds.size());
  for (std::size_t row = 0; row < rows_.size(); ++row) set_row(row, StagePass(rows_[row]));
  for (std::size_t feed = 0; feed < step.feeds.size(); ++feed) {
    set_feed(feed, step.feeds[feed].bytes);
  }
}

void PassTable::set_row(std::size_t row, const StagePass& pass) {
  rows_[row] = pass;
  double* const seconds = &seconds_[row * kKinds];
  seconds[static_cast<std::size_t>(PassKind::kForward)] = pass.forward_s;
  seconds[static_cast<std::size_t>(PassKind::kBackward)] =
      split_ ? pass.backward_s : pass.backward_s + pass.weights_s;
  seconds[static_cast<std::size_t>(PassKind::kWeights)] = pass.weights_s;
  delays_[1 + row] = link_.seconds(pass.output_bytes);
}

void PassTable::set_feed(std::size_t feed, std::int64_t bytes) {
  delays_[1 + rows_.size() + feed] = link_.seconds(bytes);
}

}  // namespace isocost
