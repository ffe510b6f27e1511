#include "balancer/layout/layout.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "balancer/layout/cluster.h"
#include "base/counted.h"
#include "base/fingerprint.h"
#include "base/json_object.h"

namespace isocost {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kLargestDegree = 100'000;
constexpr std::size_t kMostPasses = 4'000'000;  // simulating more takes several GiB
constexpr std::size_t kMostStages = 4096;
constexpr JsonFormat kFormat{
    .name = "layout", .max_bytes = 1 << 16, .max_depth = 4, .remedy = "run isocost plan again"};

Error invalid(const std::string& field, std::size_t value, const std::string& allowed) {
  return {ErrorCode::kInvalidArgument,
          "layout: '" + field + "' is " + std::to_string(value) + "; " + allowed};
}

Result<std::size_t> degree(const JsonObject& object, const char* name) {
  ISOCOST_ASSIGN(const std::int64_t value, object.whole(name, 1, std::int64_t{kLargestDegree}));
  return static_cast<std::size_t>(value);
}

Result<ModuleDegrees> degrees(const JsonObject& document, const char* name) {
  ISOCOST_ASSIGN(const JsonObject object, document.object(name));
  ISOCOST_TRY(object.only_keys({"tensor", "pipeline", "data", "shard", "reshard", "layers", "train",
                                "adapter_rank", "recompute"}));
  ModuleDegrees out;
  ISOCOST_ASSIGN(out.tensor, degree(object, "tensor"));
  ISOCOST_ASSIGN(out.pipeline, degree(object, "pipeline"));
  ISOCOST_ASSIGN(out.data, degree(object, "data"));
  if (object.has("shard")) {
    ISOCOST_ASSIGN(out.shard, degree(object, "shard"));
  }
  return out;
}

Result<std::vector<std::int64_t>> layers(const JsonObject& document, const char* name) {
  ISOCOST_ASSIGN(const JsonObject object, document.object(name));
  if (!object.has("layers")) return std::vector<std::int64_t>();
  return object.wholes("layers", kMostStages, 0, std::int64_t{kLargestDegree});
}

// Reads one name for all stages, or a list with one for each.
Result<std::vector<Recompute>> recompute_by_stage(const JsonObject& object) {
  const Error wrong = object.wrong(
      "recompute", "must be none, selective or full, or a list with one of these for each stage");
  std::vector<std::string> names;
  if (auto name = object.text("recompute")) {
    names = {*std::move(name)};
  } else if (auto list = object.text_list("recompute", kMostStages)) {
    names = *std::move(list);
  }
  std::vector<Recompute> all;
  for (const std::string& name : names) {
    const auto recompute = recompute_from_name(name);
    if (!recompute) return wrong;
    all.push_back(*recompute);
  }
  if (all.empty()) return wrong;
  return all;
}

Error nothing_to_reshard(const std::string& module) {
  return {ErrorCode::kInvalidArgument,
          "layout: '" + module +
              ".reshard' is given, but every replica holds the weights of this module; leave it "
              "out, or shard them ('" +
              module + ".shard')"};
}

Result<ModuleTraining> training(const JsonObject& document, const char* name) {
  ISOCOST_ASSIGN(const JsonObject object, document.object(name));
  ModuleTraining training;
  if (object.has("train")) {
    ISOCOST_ASSIGN(const std::string text, object.text("train"));
    const auto weights = trained_weights_from_name(text);
    if (!weights) return object.wrong("train", "must be all, adapters or none");
    training.weights = *weights;
  }
  if (object.has("adapter_rank")) {
    ISOCOST_ASSIGN(training.adapter_rank,
                   object.whole("adapter_rank", 0, ModuleTraining::kMostRank));
  }
  if (object.has("recompute")) {
    ISOCOST_ASSIGN(training.recompute, recompute_by_stage(object));
  }
  if (object.has("reshard")) {
    ISOCOST_ASSIGN(training.reshard, object.flag("reshard"));
    ISOCOST_ASSIGN(const ModuleDegrees its, degrees(document, name));
    if (its.shard == 1) return nothing_to_reshard(name);
  }
  return training;
}

Result<ActivationCaps> caps(const JsonObject& object) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  ISOCOST_TRY(object.only_keys({"encoder_bytes", "llm_bytes"}));
  ActivationCaps caps;
  ISOCOST_ASSIGN(caps.encoder_bytes, object.whole("encoder_bytes", 0, kMost));
  ISOCOST_ASSIGN(caps.llm_bytes, object.whole("llm_bytes", 0, kMost));
  return caps;
}

nlohmann::ordered_json module_json(const ModuleDegrees& degrees,
                                   const std::vector<std::int64_t>& layers,
                                   const ModuleTraining& training) {
  nlohmann::ordered_json json = {
      {"tensor", degrees.tensor}, {"pipeline", degrees.pipeline}, {"data", degrees.data}};
  if (degrees.shard > 1) json["shard"] = degrees.shard;
  if (!training.reshard) json["reshard"] = false;
  if (!layers.empty()) json["layers"] = layers;
  if (training.weights != TrainedWeights::kAll) {
    json["train"] = trained_weights_name(training.weights);
  }
  if (training.adapter_rank > 0) json["adapter_rank"] = training.adapter_rank;
  if (training.by_stage()) {
    for (const Recompute what : training.recompute)
      json["recompute"].push_back(recompute_name(what));
  } else if (training.recomputes()) {
    json["recompute"] = recompute_name(training.recompute.front());
  }
  return json;
}

std::string degrees_text(const ModuleDegrees& degrees) {
  return std::to_string(degrees.tensor) + "x" + std::to_string(degrees.pipeline) + "x" +
         std::to_string(degrees.data) +
         (degrees.shard > 1 ? " sharded by " + std::to_string(degrees.shard) : "");
}

// Returns text like "full", or "full on 2 stages, none on 6".
std::string recompute_text(const std::vector<Recompute>& stages) {
  if (stages.size() == 1) return std::string(recompute_name(stages.front()));
  std::string text;
  for (auto run = stages.begin(); run != stages.end();) {
    const auto end =
        std::find_if(run, stages.end(), [run](Recompute what) { return what != *run; });
    const auto length = static_cast<std::size_t>(end - run);
    text += text.empty() ? "" : ", ";
    text += std::string(recompute_name(*run)) + " on " +
            (run == stages.begin() ? counted(length, "stage") : std::to_string(length));
    run = end;
  }
  return text;
}

std::string training_text(const ModuleTraining& training, const std::string& module) {
  std::string text;
  if (training.weights == TrainedWeights::kNone) text += ", " + module + " frozen";
  if (training.weights == TrainedWeights::kAdapters) {
    text += ", adapters of rank " + std::to_string(training.adapter_rank) + " in the " + module;
  }
  if (training.recomputes()) {
    text += ", " + recompute_text(training.recompute) + " recomputation of the " + module;
  }
  if (!training.reshard) text += ", " + module + " stays gathered";
  return text;
}

Status check_degrees(const ModuleDegrees& degrees, const std::string& module) {
  for (const auto& [name, value] : {std::pair{"tensor", degrees.tensor},
                                    {"pipeline", degrees.pipeline},
                                    {"data", degrees.data}}) {
    if (value < 1 || value > kLargestDegree) {
      return invalid(module + "." + name, value, "it must be between 1 and 100000");
    }
  }
  return {};
}

Status check_training(const ModuleTraining& training, const std::string& module) {
  const bool adapters = training.weights == TrainedWeights::kAdapters;
  const std::int64_t rank = training.adapter_rank;
  if (adapters ? rank < 1 || rank > ModuleTraining::kMostRank : rank != 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "layout: '" + module + ".adapter_rank' is " + std::to_string(rank) +
                     (adapters ? "; adapters need a rank between 1 and " +
                                     std::to_string(ModuleTraining::kMostRank)
                               : "; only a module with \"train\": \"adapters\" has one"));
  }
  return {};
}

// Stages that recompute different activations differ in seconds, so their layers must be given.
Status check_recompute(const ModuleTraining& training, std::size_t stages, bool has_layers,
                       const std::string& module) {
  if (!training.by_stage()) return {};
  const std::string key = "layout: '" + module + ".recompute' ";
  if (training.recompute.size() != stages) {
    return Error(ErrorCode::kInvalidArgument,
                 key + "has " + counted(training.recompute.size(), "entry") + "; there " +
                     (stages == 1 ? "is " : "are ") + counted(stages, "stage"));
  }
  if (has_layers) return {};
  return Error(ErrorCode::kInvalidArgument, key + "differs by stage; give '" + module +
                                                ".layers', too, which divide the stages' seconds");
}

// Weights stay gathered for a backward pass alone, which a frozen encoder does not have.
Status check_reshard(const ModuleTraining& training, const ModuleDegrees& degrees,
                     const std::string& module) {
  if (training.reshard) return {};
  if (degrees.shard == 1) return nothing_to_reshard(module);
  if (module != "encoder" || training.weights != TrainedWeights::kNone) return {};
  return Error(ErrorCode::kInvalidArgument,
               "layout: 'encoder.reshard' is false, but a frozen encoder has no backward pass for "
               "which its weights could stay gathered; leave it out");
}

// A frozen encoder keeps no activations, since nothing before it is trained.
Status check_trainings(const Layout& layout) {
  ISOCOST_TRY(check_training(layout.encoder_training, "encoder"));
  ISOCOST_TRY(check_training(layout.llm_training, "llm"));
  ISOCOST_TRY(check_reshard(layout.encoder_training, layout.encoder, "encoder"));
  ISOCOST_TRY(check_reshard(layout.llm_training, layout.llm, "llm"));
  const bool joint = layout.encoder_place == EncoderPlacement::kLlmRanks;
  ISOCOST_TRY(
      check_recompute(layout.llm_training, layout.llm.pipeline, !layout.layers.llm.empty(), "llm"));
  ISOCOST_TRY(check_recompute(layout.encoder_training,
                              (joint ? layout.llm : layout.encoder).pipeline,
                              !layout.layers.encoder.empty(), "encoder"));
  if (layout.encoder_training.weights != TrainedWeights::kNone ||
      !layout.encoder_training.recomputes()) {
    return {};
  }
  return Error(ErrorCode::kInvalidArgument,
               "layout: 'encoder.recompute' is given, but a frozen encoder has no backward pass "
               "that would compute anything again; leave it out");
}

Status check_shard(const Layout& layout, const ModuleDegrees& degrees, const std::string& module) {
  if (degrees.shard == 1) return {};
  if (degrees.shard < 1 || degrees.data % degrees.shard != 0) {
    return invalid(module + ".shard", degrees.shard,
                   "it must divide " + module + ".data (" + std::to_string(degrees.data) + ")");
  }
  if (degrees.pipeline > 1) {
    return invalid(module + ".shard", degrees.shard,
                   "weights are sharded in modules of one stage alone");
  }
  if (layout.replicated_optimizer) {
    return invalid(module + ".shard", degrees.shard,
                   "the optimizer of sharded weights cannot be replicated");
  }
  return {};
}

// Checks the products of degrees that are each within bounds.
Status check_products(const Layout& layout) {
  for (const auto& [name, value] :
       {std::pair{"encoder", layout.encoder.ranks()}, {"llm", layout.llm.ranks()}}) {
    if (value <= kLargestDegree) continue;
    return invalid(name, value, "tensor x pipeline x data must be 100000 at most");
  }
  const std::size_t passes = layout.llm.data * layout.microbatches *
                             (layout.encoder.pipeline + layout.llm.pipeline * layout.chunks);
  if (layout.chunks <= kLargestDegree && passes <= kMostPasses) return {};
  return invalid("microbatches", layout.microbatches,
                 "llm.data x microbatches x stages x chunks must be 4000000 at most");
}

Status check_layers(const std::vector<std::int64_t>& layers, std::size_t parts,
                    const std::string& module) {
  if (layers.empty()) return {};
  if (layers.size() != parts) {
    return Error(ErrorCode::kInvalidArgument, "layout: '" + module + ".layers' has " +
                                                  counted(layers.size(), "entry") + "; there are " +
                                                  counted(parts, "stage") + " x chunks");
  }
  for (const std::int64_t of_one : layers) {
    if (of_one >= 0 && of_one <= std::int64_t{kLargestDegree}) continue;
    return Error(ErrorCode::kInvalidArgument, "layout: '" + module + ".layers' has " +
                                                  std::to_string(of_one) +
                                                  "; each must be between 0 and 100000");
  }
  return {};
}

}  // namespace

Status Layout::validate() const {
  ISOCOST_TRY(check_degrees(encoder, "encoder"));
  ISOCOST_TRY(check_degrees(llm, "llm"));
  ISOCOST_TRY(check_trainings(*this));
  ISOCOST_TRY(check_shard(*this, encoder, "encoder"));
  ISOCOST_TRY(check_shard(*this, llm, "llm"));
  if (microbatches < 1 || microbatches > kLargestDegree) {
    return invalid("microbatches", microbatches, "it must be between 1 and 100000");
  }
  ISOCOST_TRY(check_products(*this));
  if (auto cluster = Cluster::parse_interconnect(interconnect); !cluster) {
    return std::move(cluster).error().with_context("layout: 'interconnect'");
  }
  if (coupled && encoder_place == EncoderPlacement::kLlmRanks) {
    return Error(ErrorCode::kInvalidArgument,
                 "layout: 'coupled' requires an encoder with its own ranks; leave it out");
  }
  if (encoder_place == EncoderPlacement::kLlmRanks && encoder != llm) {
    return Error(ErrorCode::kInvalidArgument,
                 "layout: the encoder is on the LLM's ranks, so 'encoder' must equal 'llm'");
  }
  if (encoder.data > llm.data * microbatches) {
    return invalid("encoder.data", encoder.data,
                   "there are only " + counted(llm.data * microbatches, "microbatch") +
                       " (llm.data x microbatches)");
  }
  if (encoder_ahead > (encoder_place == EncoderPlacement::kOwnRanks ? microbatches : 0)) {
    return invalid("encoder_ahead", encoder_ahead,
                   encoder_place == EncoderPlacement::kOwnRanks
                       ? "an LLM replica has " + counted(microbatches, "microbatch")
                       : "only an encoder with its own ranks can run ahead");
  }
  if (chunks < 1 || (chunks > 1 && schedule != Schedule::kInterleaved1F1B)) {
    return invalid("chunks", chunks,
                   "schedule " + std::string(schedule_name(schedule)) + " has one chunk per stage");
  }
  if (chunks > 1 && microbatches % llm.pipeline != 0) {
    return invalid("microbatches", microbatches,
                   "interleaved stages need a multiple of llm.pipeline (" +
                       std::to_string(llm.pipeline) + ")");
  }
  const bool joint = encoder_place == EncoderPlacement::kLlmRanks;
  if (joint && layers.encoder.empty() != layers.llm.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "layout: both modules share one pipeline, so 'encoder.layers' and "
                 "'llm.layers' must be given together");
  }
  ISOCOST_TRY(check_layers(layers.llm, llm.pipeline * chunks, "llm"));
  return check_layers(layers.encoder, joint ? llm.pipeline * chunks : encoder.pipeline, "encoder");
}

std::vector<std::string> Layout::warnings() const {
  const bool own = encoder_place == EncoderPlacement::kOwnRanks;
  const std::size_t stages = llm.pipeline + (own ? encoder.pipeline : 0);
  std::vector<std::string> all;
  if (!own && stages * chunks > 1 && layers.llm.empty()) {
    all.emplace_back(
        "without 'encoder.layers' and 'llm.layers', each program cuts the pipeline that both "
        "modules share by its own mean sample, and node and trainers may disagree: give both, as "
        "isocost plan does");
  }
  if (microbatches >= stages) return all;
  const std::size_t idle = 100 * (stages - 1) / (microbatches + stages - 1);
  all.push_back(counted(microbatches, "microbatch") + " for " + counted(stages, "stage") +
                ": about " + std::to_string(idle) +
                " % of each step is idle while the pipeline fills and drains; use at least " +
                counted(2 * stages, "microbatch"));
  return all;
}

namespace {

Result<Layout> read(const JsonObject& document) {
  ISOCOST_TRY(document.check_version(kVersion));
  ISOCOST_TRY(document.only_keys({"version", "encoder_place", "encoder", "llm", "microbatches",
                                  "chunks", "schedule", "encoder_ahead", "coupled", "optimizer",
                                  "activation_caps", "interconnect"}));
  Layout layout;
  ISOCOST_ASSIGN(const std::string place, document.text("encoder_place"));
  if (place != "own" && place != "llm") {
    return document.wrong("encoder_place", "must be \"own\" or \"llm\"");
  }
  layout.encoder_place = place == "own" ? EncoderPlacement::kOwnRanks : EncoderPlacement::kLlmRanks;
  ISOCOST_ASSIGN(layout.encoder, degrees(document, "encoder"));
  ISOCOST_ASSIGN(layout.llm, degrees(document, "llm"));
  ISOCOST_ASSIGN(layout.layers.encoder, layers(document, "encoder"));
  ISOCOST_ASSIGN(layout.layers.llm, layers(document, "llm"));
  ISOCOST_ASSIGN(layout.encoder_training, training(document, "encoder"));
  ISOCOST_ASSIGN(layout.llm_training, training(document, "llm"));
  ISOCOST_ASSIGN(layout.microbatches, degree(document, "microbatches"));
  ISOCOST_ASSIGN(layout.chunks, degree(document, "chunks"));
  ISOCOST_ASSIGN(const std::string schedule_text, document.text("schedule"));
  const auto known = schedule_from_name(schedule_text);
  if (!known) return document.wrong("schedule", "must be gpipe, 1f1b, interleaved or zb-h1");
  layout.schedule = *known;
  if (document.has("encoder_ahead")) {
    ISOCOST_ASSIGN(const std::int64_t ahead,
                   document.whole("encoder_ahead", 0, std::int64_t{kLargestDegree}));
    layout.encoder_ahead = static_cast<std::size_t>(ahead);
  }
  if (document.has("coupled")) {
    ISOCOST_ASSIGN(layout.coupled, document.flag("coupled"));
  }
  if (document.has("optimizer")) {
    ISOCOST_ASSIGN(const std::string optimizer, document.text("optimizer"));
    if (optimizer != "sharded" && optimizer != "replicated") {
      return document.wrong("optimizer", "must be \"sharded\" or \"replicated\"");
    }
    layout.replicated_optimizer = optimizer == "replicated";
  }
  if (document.has("activation_caps")) {
    ISOCOST_ASSIGN(const JsonObject object, document.object("activation_caps"));
    ISOCOST_ASSIGN(layout.activation_caps, caps(object));
  }
  ISOCOST_ASSIGN(layout.interconnect, document.optional_text("interconnect"));
  ISOCOST_TRY(layout.validate());
  return layout;
}

}  // namespace

Result<Layout> Layout::parse(std::string_view text) {
  ISOCOST_ASSIGN(const JsonObject document, JsonObject::parse(text, kFormat));
  return read(document);
}

Result<Layout> Layout::load(const std::filesystem::path& file) {
  ISOCOST_ASSIGN(const JsonObject document, JsonObject::load(file, kFormat));
  Result<Layout> layout = read(document);
  if (!layout) return error_of_file(std::move(layout).error(), file);
  return layout;
}

std::string Layout::to_json() const {
  nlohmann::ordered_json document;
  document["version"] = kVersion;
  document["encoder_place"] = encoder_place == EncoderPlacement::kOwnRanks ? "own" : "llm";
  document["encoder"] = module_json(encoder, layers.encoder, encoder_training);
  document["llm"] = module_json(llm, layers.llm, llm_training);
  document["microbatches"] = microbatches;
  document["chunks"] = chunks;
  document["schedule"] = schedule_name(schedule);
  if (encoder_ahead > 0) document["encoder_ahead"] = encoder_ahead;
  if (coupled) document["coupled"] = true;
  if (replicated_optimizer) document["optimizer"] = "replicated";
  if (activation_caps.any()) {
    document["activation_caps"] = {{"encoder_bytes", activation_caps.encoder_bytes},
                                   {"llm_bytes", activation_caps.llm_bytes}};
  }
  if (!interconnect.empty()) document["interconnect"] = interconnect;
  return document.dump(2) + "\n";
}

std::uint64_t Layout::fingerprint() const { return Fingerprint::of(to_json()); }

std::string Layout::to_string() const {
  const bool own = encoder_place == EncoderPlacement::kOwnRanks;
  return (own ? "encoder " + degrees_text(encoder) + ", llm " : "both ") + degrees_text(llm) +
         ", " + counted(microbatches, "microbatch") + ", " + std::string(schedule_name(schedule)) +
         (chunks > 1 ? " of " + counted(chunks, "chunk") : "") +
         (encoder_ahead > 0 ? ", encoder " + std::to_string(encoder_ahead) + " ahead" : "") +
         (coupled ? ", coupled" : "") + training_text(encoder_training, "encoder") +
         training_text(llm_training, "LLM") +
         (replicated_optimizer ? ", replicated optimizer" : "");
}

}  // namespace isocost
