#include "loader/node/internal/node_parts.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/output_file.h"
#include "loader/node/internal/correction_file.h"

namespace isocost {
namespace {

DataSources sources_of(const NodeOptions& options) {
  if (!options.sources.sources.empty()) return options.sources;
  return DataSources::of_text(options.data, options.decode.reading);
}

CostModel::Options cost_model_options(const NodeOptions& options, const MonotonicClock& clock) {
  CostModel::Options model_options;
  model_options.correct = options.cost_model.correct;
  model_options.padded = options.cost_model.padded;
  model_options.padded_multiple = options.plan.padded_multiple;
  model_options.correction.clock = [clock] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(clock().time_since_epoch()).count();
  };
  return model_options;
}

Result<std::unique_ptr<OnlineModel>> model_from(const NodeOptions& options,
                                                const CostProfile& profile, const LogSink& log,
                                                const MonotonicClock& clock) {
  auto model = std::make_unique<OnlineModel>(profile, cost_model_options(options, clock), log);
  if (options.cost_model.correct) {
    ISOCOST_TRY(restore_correction(*model, options.cost_model.correction_file, log));
  }
  return model;
}

// Returns why a sample of this shape fits into no microbatch; empty if it fits. Also empty if the
// recipe refuses the shape, since decoding then gives the reason.
std::string why_too_large(const SampleShape& shape, const Recipe& recipe,
                          const MicrobatchLimits& limits) {
  const auto load = recipe.load(shape);
  return load ? limits.why_too_large(*load).value_or("") : std::string();
}

// Returns a hash of what why_too_large depends on.
std::uint64_t identity_of_limits(const NodeOptions& options, const Recipe& recipe,
                                 const CostProfile& profile) {
  Fingerprint hash;
  hash.add(recipe.fingerprint());
  MicrobatchLimits::add_to(hash, options.plan);
  hash.add(options.plan.padded_multiple);
  hash.add(profile.to_json());
  hash.add(profile.source == CostProfile::kBuiltIn);
  return std::max<std::uint64_t>(hash.value(), 1);
}

Error no_usable_sample(const std::string& data, const DatasetOptions& options,
                       const Dataset& dataset) {
  const std::vector<BadSample>& bad = dataset.bad();
  const std::string none = data + " holds no usable sample (";
  const auto limited = std::find_if(bad.begin(), bad.end(),
                                    [](const BadSample& sample) { return sample.over_limit; });
  if (limited != bad.end()) {
    return {ErrorCode::kResourceExhausted, none + describe(*limited) + ")"};
  }
  return {ErrorCode::kCorrupt, none + first_fault(dataset) + "): `isocost check " +
                                   data_arguments(data, options) + "` lists the reasons"};
}

std::size_t window_shards(const PlanOptions& options) {
  if (options.shuffle != ShufflePolicy::kBlocks) return 0;
  return static_cast<std::size_t>(options.shuffle_shards);
}

// Opens the data set, and refuses one of which nothing or too little can be used.
Result<std::unique_ptr<Dataset>> open_usable(const NodeOptions& options,
                                             const DatasetOptions& dataset_options) {
  const DataSources data = sources_of(options);
  ISOCOST_ASSIGN(auto dataset, Dataset::open(data, dataset_options));
  ISOCOST_TRY_CONTEXT(check_findings(dataset->sources(), options.shards), data.given);
  log_findings(dataset->findings(), options.shards, dataset_options.log);
  if (dataset->size() == 0) return no_usable_sample(data.given, dataset_options, *dataset);
  return dataset;
}

// Returns the loads of samples from all over the data set; none without a layout: only a layout
// needs them.
Result<std::vector<Load>> sampled_loads(const NodeOptions& options, const Dataset& dataset,
                                        const Recipe& recipe) {
  constexpr std::uint64_t kLoads = 1024;
  std::vector<Load> loads;
  if (options.plan.layout == nullptr) return loads;
  const std::uint64_t count = std::min(kLoads, dataset.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    ISOCOST_ASSIGN(const SampleShape shape, dataset.checked_shape(i * dataset.size() / count));
    if (auto load = recipe.load(shape)) loads.push_back(*load);
  }
  return loads;
}

}  // namespace

DatasetOptions dataset_options_of(const DecodeOptions& options) {
  DatasetOptions dataset;
  dataset.limits.max_pixels = options.max_decoded_pixels;
  dataset.index_dir = options.index_dir;
  dataset.stores = store_options_of(options);
  dataset.reading = options.reading;
  dataset.model = model_directory(options.recipe);
  return dataset;
}

Result<NodeParts> open_node_parts(NodeOptions options, ProgressSink progress, const LogSink& log,
                                  LoadHook load_hook, const std::stop_token& stop,
                                  const MonotonicClock& clock) {
  ISOCOST_TRY(options.read_files());
  ISOCOST_TRY(options.validate());
  const CostProfile& profile = *options.cost_model.profile;
  ISOCOST_TRY(check_server(server_options(options)));
  ISOCOST_ASSIGN(auto bad, BadSampleList::create(options.bad_samples, log));
  ISOCOST_TRY(check_output_file("correction_file", options.cost_model.correction_file));
  ISOCOST_TRY(check_output_file("summary", options.service.summary));
  ISOCOST_ASSIGN(auto model, model_from(options, profile, log, clock));
  ISOCOST_ASSIGN(Recipe recipe, Recipe::create(options.decode.recipe));
  ISOCOST_ASSIGN(auto decoder, make_decoder(recipe, options.decode, log));
  ISOCOST_ASSIGN(MicrobatchLimits limits, MicrobatchLimits::create(options.plan, profile));

  DatasetOptions dataset_options = dataset_options_of(options.decode);
  dataset_options.window_shards = window_shards(options.plan);
  dataset_options.reads_again = true;
  dataset_options.progress = std::move(progress);
  dataset_options.log = log;
  dataset_options.stop = stop;
  // It lives on: `stop` may be asked for when the node is open, and not because it ends.
  std::stop_source requests;
  const std::stop_callback end_requests(stop, [&requests] { requests.request_stop(); });
  dataset_options.stores.stop = requests.get_token();
  // A hook's loads are known only when a step is planned.
  if (!limits.empty() && !load_hook) {
    dataset_options.check_shape = [&](const SampleShape& shape) {
      return why_too_large(shape, recipe, limits);
    };
    dataset_options.check_identity = identity_of_limits(options, recipe, profile);
    dataset_options.truncate = options.plan.on_long == LongPolicy::kTruncate;
  }
  if (!limits.empty() && load_hook) {
    isocost::log(log, LogLevel::kInfo,
                 "count_tokens= gives a sample's length when its step is planned: samples beyond a "
                 "limit are found then, and not at the start");
  }
  ISOCOST_ASSIGN(auto dataset, open_usable(options, dataset_options));
  if (const auto format = dataset->format_that_needs_worker()) {
    ISOCOST_TRY_CONTEXT(decoder->start_for(*format, stop), sources_of(options).given);
  }
  bad->count_by(dataset->sources());
  ISOCOST_TRY(bad->add_indexed(dataset->bad()));

  ISOCOST_ASSIGN(auto orders, JobOrders::create(options, *dataset));
  ISOCOST_ASSIGN(auto loads, sampled_loads(options, *dataset, recipe));
  ISOCOST_ASSIGN(auto layout, ServedLayout::create(options.plan, profile, std::move(loads)));
  return NodeParts{std::move(options),
                   log,
                   clock,
                   std::move(dataset),
                   std::move(recipe),
                   std::move(decoder),
                   std::move(limits),
                   std::move(model),
                   std::move(layout),
                   std::move(orders),
                   std::move(bad),
                   std::move(load_hook),
                   requests};
}

void warn_of_assumed_profile(const NodeOptions& options, const CostProfile& profile,
                             const LogSink& log) {
  const std::string directory = model_directory(options.decode.recipe).string();
  if (directory.empty() || profile.source != CostProfile::kBuiltIn) return;
  std::string assumed;
  for (const ModuleProfile& module : profile.modules) {
    if (!module.architecture) continue;
    assumed += (assumed.empty() ? "" : ", ") + module.architecture->name;
  }
  const bool limits_memory = options.plan.max_memory > 0;
  isocost::log(log, LogLevel::kWarning,
               "no model profile is given for " + directory + ": costs" +
                   (limits_memory ? " and the memory that max_memory limits" : "") +
                   " are those of the built-in one (" + assumed +
                   "), which is not of this model: `isocost model profile " + directory +
                   " --output profile.json` measures one, to be given as profile");
}

ServerOptions server_options(const NodeOptions& options) {
  ServerOptions server;
  server.bind = options.service.bind;
  server.insecure = options.service.insecure;
  server.curve_key = options.service.curve_key;
  server.curve_clients = options.service.curve_clients;
  server.io_threads = static_cast<int>(options.service.io_threads);
  server.heartbeat_timeout = options.service.heartbeat_timeout;
  server.heartbeat = std::min(server.heartbeat, options.service.heartbeat_timeout / 4);
  return server;
}

}  // namespace isocost
