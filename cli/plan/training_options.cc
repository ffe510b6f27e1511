#include "cli/plan/training_options.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace isocost::cli {
namespace {

Error refused(const std::string& option, const std::string& value, const std::string& reason) {
  return {ErrorCode::kInvalidArgument, option + " is '" + value + "'; " + reason};
}

ModuleTraining* module_of(LayoutSearchOptions& search, std::string_view name) {
  if (name == "encoder") return &search.encoder_training;
  if (name == "llm") return &search.llm_training;
  return nullptr;
}

bool is_priced(const CostProfile& profile, CostModule module) {
  const ModuleProfile& of = profile.modules.at(static_cast<std::size_t>(module));
  return !of.points.empty() || of.coefficients != ModuleCoefficients{};
}

std::optional<std::int64_t> rank_of(std::string_view text) {
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || rank < 1 || rank > ModuleTraining::kMostRank) return std::nullopt;
  return rank;
}

Status freeze(LayoutSearchOptions& search, const std::string& name) {
  if (name == "both") {
    ISOCOST_TRY(freeze(search, "encoder"));
    return freeze(search, "llm");
  }
  ModuleTraining* const module = module_of(search, name);
  if (module == nullptr) return refused("--freeze", name, "name encoder, llm or both");
  module->weights = TrainedWeights::kNone;
  return {};
}

Status adapt(LayoutSearchOptions& search, const std::string& text) {
  const std::size_t equals = text.find('=');
  ModuleTraining* const module = module_of(search, text.substr(0, equals));
  const auto rank = equals == std::string::npos
                        ? std::nullopt
                        : rank_of(std::string_view(text).substr(equals + 1));
  if (module == nullptr || !rank) {
    return refused("--adapters", text,
                   "give a module and the rank of its adapters: llm=16 (the rank is at most " +
                       std::to_string(ModuleTraining::kMostRank) + ")");
  }
  if (module->weights == TrainedWeights::kNone) {
    return refused("--adapters", text, "--freeze names the module too: adapters freeze it already");
  }
  if (module->weights == TrainedWeights::kAdapters) {
    return refused("--adapters", text, "the module has a rank already");
  }
  module->weights = TrainedWeights::kAdapters;
  module->adapter_rank = *rank;
  return {};
}

}  // namespace

Status TrainingOptions::check_measured(const CostProfile& profile) const {
  const auto check = [&profile](const std::string& option, std::string_view name) -> Status {
    const bool named = name == "encoder" || name == "llm" || name == "both";
    if (!named) return {};  // apply() refuses it
    const bool encoder =
        is_priced(profile, CostModule::kVision) || is_priced(profile, CostModule::kAudio);
    const bool llm = is_priced(profile, CostModule::kLlm);
    if ((encoder || name == "llm") && (llm || name == "encoder")) return {};
    const std::string missing = encoder ? "llm" : "encoder";
    return Error(ErrorCode::kInvalidArgument,
                 option + " names the " + missing + ", of which model profile " + profile.source +
                     " has no seconds: measure all modules in one profile ('isocost model profile "
                     "DIR'), or leave the flag out");
  };
  for (const std::string& name : frozen) ISOCOST_TRY(check("--freeze", name));
  for (const std::string& text : adapters) {
    ISOCOST_TRY(check("--adapters", std::string_view(text).substr(0, text.find('='))));
  }
  return {};
}

Status TrainingOptions::apply(LayoutSearchOptions& search) const {
  for (const std::string& name : frozen) ISOCOST_TRY(freeze(search, name));
  for (const std::string& text : adapters) ISOCOST_TRY(adapt(search, text));
  if (replicated_optimizer && shard_weights) {
    return Error(ErrorCode::kInvalidArgument,
                 "--replicate-optimizer and --shard-weights exclude each other: sharded weights "
                 "have a sharded optimizer");
  }
  search.replicated_optimizer = replicated_optimizer;
  search.shard_weights = shard_weights;
  if (recompute == "auto") {
    search.most_recompute = Recompute::kFull;
    return {};
  }
  const auto all = recompute_from_name(recompute);
  if (!all) return refused("--recompute", recompute, "it must be none, selective, full or auto");
  search.most_recompute = *all;
  search.llm_training.recompute = {*all};
  if (search.encoder_training.weights != TrainedWeights::kNone) {
    search.encoder_training.recompute = {*all};
  }
  return {};
}

void TrainingOptions::add_to(CLI::App& command) {
  command.add_option("--freeze", frozen, "Modules that are not trained: encoder, llm or both")
      ->delimiter(',')
      ->type_name("MODULE[,MODULE]");
  command
      .add_option("--adapters", adapters,
                  "Modules of which only low-rank adapters beside every linear layer are trained, "
                  "with their rank: llm=16")
      ->delimiter(',')
      ->type_name("MODULE=RANK[,...]");
  command
      .add_option("--recompute", recompute,
                  "Activations that backward passes compute again: none, selective (the inner "
                  "values of MLPs), full (whole layers), or auto: the least with which a layout "
                  "fits")
      ->type_name("KIND")
      ->capture_default_str();
  command.add_flag("--shard-weights", shard_weights,
                   "Also try layouts that shard weights and gradients over all replicas (FSDP), or "
                   "over those of a machine (HSDP), and gather them once or twice a microbatch");
  command.add_flag("--replicate-optimizer", replicated_optimizer,
                   "Every replica holds the whole optimizer state, instead of its part (ZeRO 1)");
}

}  // namespace isocost::cli
