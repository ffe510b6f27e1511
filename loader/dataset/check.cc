#include "loader/dataset/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "base/counted.h"
#include "base/executor/executor.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/range.h"
#include "decode/shape/sample_shape.h"
#include "loader/dataset/decoding_memory.h"
#include "loader/dataset/sample_name.h"
#include "loader/dataset/stores/machine_error.h"
#include "loader/dataset/stores/watched_source.h"

namespace isocost {
namespace {

// Returns whether the error says nothing about the sample: this machine is at fault, or a stop was
// requested.
bool is_error_of_the_attempt(ErrorCode code) {
  return is_machine_error(code) || code == ErrorCode::kCancelled;
}

// Warns of weights while there is time to choose another loss: a job learns of them at its start.
void warn_of_weights(const Dataset& dataset, const LogSink& sink) {
  const WeightedSamples& weighted = dataset.weighted();
  if (weighted.count == 0) return;
  const std::string first = sample_name(dataset.shard(weighted.first), dataset.key(weighted.first));
  const bool of_turns = weighted.weight == 1;
  log(sink, LogLevel::kWarning,
      fmt::format(
          "{} {} a weight in the loss other than 0 and 1 ({}): a trainer with a model's own "
          "loss refuses the data set, so give loss='token_loss' there{}",
          counted(weighted.count, "sample"), weighted.count == 1 ? "has" : "have",
          of_turns ? "turns of " + first + " have"
                   : fmt::format("{} has {:g}", first, weighted.weight),
          of_turns ? "" : ", or name another key of their JSON by --weight-key, or none"));
}

struct BadPart {
  SampleId id = 0;
  std::size_t part = 0;  // equal to the number of parts if it means the whole sample
  std::string reason;
};

// Decodes each part separately on the workers: a bad part does not hide another one, and memory is
// admitted per part.
class Checker {
 public:
  Checker(const Dataset& dataset, const Recipe& recipe, SampleDecoder& decoder,
          const CheckOptions& options)
      : dataset_(dataset),
        recipe_(recipe),
        decoder_(decoder),
        options_(options),
        budget_(options.decode.memory),
        executor_(make_executor(static_cast<std::size_t>(options.decode.workers))),
        most_in_flight_(4 * executor_->workers()) {}

  Status run();
  void fill(CheckReport& report) &&;

 private:
  Status compare_shard_of(SampleId id);
  bool each_part_fits(const SampleShape& shape) const;
  // Decodes parts of a sample together; the first of them has the number `first`.
  Status submit(SampleId id, std::size_t first, const SampleShape& parts, const BytesAhead& ahead);
  BytesAhead take_ahead(SampleId id);
  void start(std::function<void()> task);
  void compare(std::size_t shard);
  Status wait_for_slot();
  void check(SampleId id, std::size_t first, const SampleShape& parts, const BytesAhead& ahead);
  void add(BadPart bad) ISOCOST_EXCLUDES(mutex_);
  void fail(Error error) ISOCOST_EXCLUDES(mutex_);
  Status failure() ISOCOST_EXCLUDES(mutex_);

  const Dataset& dataset_;
  const Recipe& recipe_;
  SampleDecoder& decoder_;
  const CheckOptions& options_;
  BufferPool pool_;
  MemoryBudget budget_;

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<BadPart> bad_ ISOCOST_GUARDED_BY(mutex_);
  std::vector<std::size_t> other_bytes_ ISOCOST_GUARDED_BY(mutex_);  // shards with other bytes
  std::size_t in_flight_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::optional<Error> failure_ ISOCOST_GUARDED_BY(mutex_);

  std::deque<BytesAhead> ahead_;  // of the samples from the next one on
  SampleId next_ahead_ = 0;       // the first that is not read ahead
  std::int64_t bytes_ahead_ = 0;  // of those in `ahead_`
  std::size_t next_shard_ = 0;
  std::uint64_t parts_ = 0;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<Executor> executor_;  // declared last: its tasks use all of the above
  std::size_t most_in_flight_;
};

Status Checker::run() {
  const ProgressSink& progress = options_.dataset.progress;
  const std::uint64_t size = dataset_.size();
  for (SampleId id = 0; id < size; ++id) {
    ISOCOST_TRY(failure());
    ISOCOST_TRY(compare_shard_of(id));
    const BytesAhead ahead = take_ahead(id);
    ISOCOST_ASSIGN(const SampleShape shape, dataset_.checked_shape(id));
    ISOCOST_TRY(dataset_.check_index(id));
    const auto together = decoding_bytes(recipe_, shape, budget_.limit());
    const bool too_much = !together && together.error().code() == ErrorCode::kResourceExhausted;
    if (too_much && options_.dataset.model.empty() && each_part_fits(shape)) {
      add({id, shape.parts.size(), together.error().message()});
    }
    // A model's recipe reads the tokens of a text and the media that they name.
    if (!options_.dataset.model.empty()) {
      ISOCOST_TRY(submit(id, 0, shape, ahead));
    } else {
      for (std::size_t i = 0; i < shape.parts.size(); ++i) {
        ISOCOST_TRY(submit(id, i, {{shape.parts[i]}, 1.0F}, ahead));
      }
    }
    if (progress) progress(id + 1, size, "decoding samples");
  }
  executor_.reset();  // runs all submitted tasks
  return failure();
}

// A sample whose part alone is too large is listed with that part.
bool Checker::each_part_fits(const SampleShape& shape) const {
  return std::ranges::all_of(shape.parts, [this](const PartShape& part) {
    return decoding_bytes(recipe_, {{part}, 1.0F}, budget_.limit()).has_value();
  });
}

// Returns what was read ahead of the next sample, and begins to read those that follow: one on a
// disk, many on a server, which takes long to answer.
BytesAhead Checker::take_ahead(SampleId id) {
  constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
  const std::size_t most = dataset_.reads_servers() ? 64 : 2;
  while (next_ahead_ < dataset_.size() &&
         (ahead_.empty() || (ahead_.size() < most && bytes_ahead_ < kMostBytes))) {
    bytes_ahead_ += dataset_.read_ahead_bytes(next_ahead_);
    ahead_.push_back(dataset_.read_ahead(next_ahead_++, options_.stop));
  }
  BytesAhead ahead = std::move(ahead_.front());
  ahead_.pop_front();
  bytes_ahead_ -= dataset_.read_ahead_bytes(id);
  return ahead;
}

Status Checker::submit(SampleId id, std::size_t first, const SampleShape& parts,
                       const BytesAhead& ahead) {
  parts_ += parts.parts.size();
  for (const PartShape& part : parts.parts) {
    bytes_ += static_cast<std::uint64_t>(part.encoded_bytes);
  }
  const auto needed = decoding_bytes(recipe_, parts, budget_.limit());
  if (!needed) {
    add({id, first, needed.error().message()});
    return {};
  }
  ISOCOST_TRY(wait_for_slot());
  ISOCOST_ASSIGN(MemoryBudget::Grant grant, budget_.acquire(*needed, options_.stop));
  auto held = std::make_shared<MemoryBudget::Grant>(std::move(grant));
  start([this, id, first, parts, ahead, held] {
    check(id, first, parts, ahead);
    held->release();
  });
  return {};
}

void Checker::start(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    ++in_flight_;
  }
  executor_->submit([this, task = std::move(task)] {
    task();
    {
      const MutexLock lock(mutex_);
      --in_flight_;
    }
    changed_.notify_one();
  });
}

// Compares a sample's shard before the first of its samples, which then come from the page cache.
Status Checker::compare_shard_of(SampleId id) {
  const std::string_view name = dataset_.shard(id);
  if (id > 0 && dataset_.shard(id - 1) == name) return {};
  while (dataset_.shard_name(next_shard_) != name) ++next_shard_;
  ISOCOST_TRY(wait_for_slot());
  start([this, shard = next_shard_] { compare(shard); });
  return {};
}

void Checker::compare(std::size_t shard) {
  auto same = dataset_.is_as_last_checked(shard, options_.stop);
  if (!same) {
    fail(std::move(same).error());
  } else if (!*same) {
    const MutexLock lock(mutex_);
    other_bytes_.push_back(shard);
  }
}

// Waits for a slot. The queue of tasks is bounded, too, because millions of small parts would fit
// the budget.
Status Checker::wait_for_slot() {
  const MutexLock lock(mutex_);
  const bool room = changed_.wait(mutex_, options_.stop, [this]() ISOCOST_REQUIRES(mutex_) {
    return in_flight_ < most_in_flight_;
  });
  if (room && !options_.stop.stop_requested()) return {};
  return Error(ErrorCode::kCancelled, "stopped before everything was checked");
}

void Checker::check(SampleId id, std::size_t first, const SampleShape& parts,
                    const BytesAhead& ahead) {
  std::vector<std::unique_ptr<WatchedSource>> sources;
  std::vector<PartBytes> bytes;
  for (const PartShape& part : parts.parts) {
    auto opened = dataset_.open_part(id, first + bytes.size(), ahead);
    if (!opened) {
      fail(std::move(opened).error());
      return;
    }
    sources.push_back(std::make_unique<WatchedSource>(*std::move(opened)));
    bytes.push_back({&part, sources.back().get()});
  }
  const auto tensors = decoder_.tensors(bytes, pool_, options_.stop);
  for (const auto& source : sources) {
    if (auto unread = source->failure()) {
      fail((*std::move(unread)).with_context(dataset_.shard(id)));
      return;
    }
  }
  if (!tensors && is_error_of_the_attempt(tensors.error().error.code())) {
    fail(tensors.error().error);
  } else if (!tensors) {
    add({id, first + tensors.error().part, tensors.error().error.message()});
  }
}

// Records a failure. A shard that cannot be read says nothing about its samples.
void Checker::fail(Error error) {
  const MutexLock lock(mutex_);
  if (!failure_) failure_ = std::move(error);
}

Status Checker::failure() {
  const MutexLock lock(mutex_);
  if (failure_) return *failure_;
  return {};
}

void Checker::add(BadPart bad) {
  const MutexLock lock(mutex_);
  bad_.push_back(std::move(bad));
}

void Checker::fill(CheckReport& report) && {
  const MutexLock lock(mutex_);
  std::sort(bad_.begin(), bad_.end(), [](const BadPart& a, const BadPart& b) {
    return a.id != b.id ? a.id < b.id : a.part < b.part;
  });
  report.samples = dataset_.size();
  report.parts = parts_;
  report.bytes = bytes_;
  std::sort(other_bytes_.begin(), other_bytes_.end());
  for (const std::size_t shard : other_bytes_) {
    report.bad.push_back({dataset_.shard_name(shard), "", "",
                          "its bytes are not those of the last check, though its size and time of "
                          "modification are; put it back, or `touch` it if it is right as it is"});
  }
  std::optional<SampleId> last;
  for (BadPart& bad : bad_) {
    const std::size_t parts = dataset_.shape(bad.id).parts.size();
    const auto name = bad.part < parts ? dataset_.part_name(bad.id, bad.part) : "";
    report.bad.push_back(
        {std::string(dataset_.shard(bad.id)), dataset_.key(bad.id), name, std::move(bad.reason)});
    if (last == bad.id) continue;
    last = bad.id;
    report.samples -= 1;
    report.parts -= parts;
  }
}

Status validate(const CheckOptions& options) {
  ISOCOST_TRY(options.decode.validate());
  return check_range("max_decoded_pixels", options.dataset.limits.max_pixels, 1,
                     std::int64_t{1} << 40);
}

}  // namespace

Result<CheckReport> check_dataset(const DataSources& data, const CheckOptions& options) {
  ISOCOST_TRY(validate(options));
  ISOCOST_ASSIGN(const Recipe recipe, Recipe::create(options.decode.recipe));
  ISOCOST_ASSIGN(const auto decoder, make_decoder(recipe, options.decode, options.dataset.log));
  ISOCOST_ASSIGN(const std::unique_ptr<Dataset> dataset, Dataset::open(data, options.dataset));
  if (!options.dataset.model.empty()) warn_of_weights(*dataset, options.dataset.log);
  if (const auto format = dataset->format_that_needs_worker()) {
    ISOCOST_TRY_CONTEXT(decoder->start_for(*format, options.dataset.stop), data.given);
  }
  CheckReport report;
  report.sources = dataset->sources();
  report.findings = dataset->findings();
  report.bad = dataset->bad();
  report.remarks = dataset->remarks();
  Checker checker(*dataset, recipe, *decoder, options);
  ISOCOST_TRY(checker.run());
  std::move(checker).fill(report);
  return report;
}

}  // namespace isocost
