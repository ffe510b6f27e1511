#include "loader/node/internal/job_order.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "loader/dataset/data_source.h"
#include "loader/node/internal/mixture_of_sources.h"
#include "loader/plan/batch_composer.h"
#include "loader/plan/mixture/mixture_edit.h"
#include "loader/plan/mixture/saved_mixture.h"

namespace isocost {
namespace {

CursorOptions cursor_options(const NodeOptions& options, std::uint64_t size) {
  CursorOptions cursor;
  cursor.seed = options.plan.seed;
  cursor.size = size;
  cursor.global_batch_size = static_cast<std::uint64_t>(options.plan.global_batch_size);
  cursor.tail = options.plan.tail;
  cursor.shuffle = options.plan.shuffle;
  cursor.epochs = static_cast<std::uint64_t>(options.plan.epochs);
  cursor.max_steps = static_cast<std::uint64_t>(options.plan.steps);
  cursor.skipped = options.plan.skip_steps;
  return cursor;
}

// Refuses to leave out steps that an epoch does not have, since they are likely counted in another
// way.
Status check_skipped(const SkippedSteps& skipped, const Cursor& cursor, const std::string& data) {
  if (skipped.empty()) return {};
  const std::uint64_t last = skipped.ranges().back().last;
  const std::uint64_t all = cursor.positions(0);
  if (last >= all) {
    return Error(ErrorCode::kInvalidArgument,
                 data + ": skip_steps leaves out step " + std::to_string(last) + ", and there " +
                     (all == 1 ? "is " : "are ") + counted(all, "step") +
                     " an epoch: steps are counted from 0 in each epoch");
  }
  if (cursor.steps(0) > 0) return {};
  return Error(ErrorCode::kInvalidArgument,
               data + ": skip_steps leaves out all steps of an epoch: keep some");
}

Error no_step(const NodeOptions& options, std::uint64_t size) {
  return {ErrorCode::kInvalidArgument,
          "an epoch has no step: " + counted(size, "sample") + ", global_batch_size = " +
              std::to_string(options.plan.global_batch_size) + ", tail = drop or carry"};
}

std::string text_of(ShufflePolicy shuffle, std::uint64_t window_shards) {
  const auto name = kShufflePolicyNames.at(static_cast<std::size_t>(shuffle));
  std::string text = "shuffle = " + std::string(name);
  if (shuffle != ShufflePolicy::kBlocks) return text;
  return text + " and shuffle_shards = " + std::to_string(window_shards);
}

}  // namespace

Result<JobOrders> JobOrders::create(const NodeOptions& options, const Dataset& dataset) {
  JobOrders orders(options, dataset);
  ISOCOST_ASSIGN(auto mixture, mixture_of_sources(options, dataset, orders.blocks_));
  orders.options_ = cursor_options(options, dataset.size());
  if (mixture == nullptr) orders.options_.blocks = blocks_of(options.plan, dataset);
  orders.options_.mixture = mixture;
  Cursor cursor(orders.options_);
  const SkippedSteps& skipped =
      mixture ? mixture->mixture().options().skipped : options.plan.skip_steps;
  ISOCOST_TRY(check_skipped(skipped, cursor, DataSources::of_text(options.data, {}).given));
  if (cursor.steps(0) == 0) return no_step(options, dataset.size());
  std::string saved;
  if (mixture != nullptr) {
    ISOCOST_ASSIGN(saved, mixture->saved());
  } else if (!skipped.empty()) {
    MixtureOptions skipping;
    skipping.skipped = skipped;
    ISOCOST_ASSIGN(saved, mixture_json(skipping));
  }
  orders.anew_ = std::make_shared<const JobOrder>(
      JobOrder{std::move(cursor), std::move(mixture), std::move(saved)});
  return orders;
}

Result<std::shared_ptr<const JobOrder>> JobOrders::continued(StartPoint& start) {
  StartPoint asked = start;
  asked.cost_model_state.clear();
  if (!last_ || last_->asked != asked) {
    StartPoint counted = asked;
    auto order = continue_from_saved(counted);
    last_ = Continued{asked, order ? counted : asked, std::move(order)};
  }
  start.epoch = last_->start.epoch;
  start.step = last_->start.step;
  return last_->order;
}

Result<std::shared_ptr<const JobOrder>> JobOrders::continue_from_saved(StartPoint& start) const {
  MixtureOptions saved;
  if (!start.mixture.empty()) {
    ISOCOST_ASSIGN(saved, mixture_from_json(start.mixture));
  }
  if (!saved.sources.empty() && anew_->mixture == nullptr) {
    return Error(
        ErrorCode::kInvalidArgument,
        "it is of a mixture of data sets, and the node has one data set: give it the mixture with "
        "which the state was saved");
  }
  if (saved.sources.empty() && anew_->mixture != nullptr) {
    return Error(
        ErrorCode::kInvalidArgument,
        "it is of one data set, and the node has a mixture: give it the data set with which the "
        "state was saved. A mixture cannot begin in the middle of a job");
  }
  if (!saved.sources.empty()) return with_mixture(saved, start);
  ISOCOST_TRY(
      check_skipped_steps(saved.skipped, options_.skipped, end_of_window(start.step, window())));
  return anew_;
}

Result<std::shared_ptr<const JobOrder>> JobOrders::with_mixture(const MixtureOptions& saved,
                                                                StartPoint& start) const {
  const MixtureOptions& present = anew_->mixture->mixture().options();
  if (start.epoch > 0 && start.step == 0 && !anew_->mixture->mixture().by_size()) {
    ISOCOST_ASSIGN(const auto was, Mixture::create(saved));
    const auto steps = MixtureCursor(was, {}).steps();
    if (steps) start.epoch = 0;
    start.step = static_cast<std::uint32_t>(steps.value_or(0));
  }
  ISOCOST_ASSIGN(auto mixture,
                 continued_mixture(saved, present, start.step, window(), start.epoch));
  std::vector<SampleId> first;  // by the sources' names; any for those that are gone
  for (const MixtureSource& source : mixture->sources()) {
    const auto found = std::ranges::find(dataset_->sources(), source.name, &DatasetSource::name);
    first.push_back(found == dataset_->sources().end() ? 0 : found->first);
  }
  auto blocks = blocks_.of(mixture->sources());
  auto draws = std::make_shared<const MixtureCursor>(std::move(mixture), std::move(first),
                                                     std::move(blocks));
  ISOCOST_ASSIGN(std::string text, draws->saved());
  CursorOptions options = options_;
  options.mixture = draws;
  return std::make_shared<const JobOrder>(
      JobOrder{Cursor(options), std::move(draws), std::move(text)});
}

// Tries the orders that there are, since a state has no more of its order than a hash.
std::optional<std::string> JobOrders::other_shuffle(std::uint64_t cursor) const {
  if (anew_->mixture != nullptr) return std::nullopt;
  const std::vector<std::uint64_t> samples = usable_by_shard(*dataset_, 0, dataset_->size());
  const BlockOrder all(samples, samples.size());
  std::vector<OrderIdentity> orders = {{.shuffle = ShufflePolicy::kOff},
                                       {.shuffle = ShufflePolicy::kGlobal}};
  for (std::uint64_t shards = 1; shards <= all.window_shards(); ++shards) {
    orders.push_back({ShufflePolicy::kBlocks, shards, all.fingerprint()});
  }
  const std::uint64_t own = options_.blocks ? options_.blocks->window_shards() : 0;
  for (const OrderIdentity& order : orders) {
    if (order.shuffle == options_.shuffle && order.window_shards == own) continue;
    const std::uint64_t other = anew_->cursor.fingerprint(dataset_->fingerprint(), order);
    if (!draws_by(cursor, other, lookahead_)) continue;
    const bool whole = order.window_shards == all.window_shards();
    return "it is of " + text_of(order.shuffle, order.window_shards) + (whole ? " or more" : "") +
           ", and the node has " + text_of(options_.shuffle, own) +
           ": give the node the order with which the state was saved, or begin a new job, since "
           "all steps would have other samples";
  }
  return std::nullopt;
}

}  // namespace isocost
