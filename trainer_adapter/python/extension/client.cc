#include "trainer_adapter/python/extension/client.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/load.h"
#include "base/mutex.h"
#include "base/sample_part.h"
#include "base/tensor_schema.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/python/extension/errors.h"
#include "trainer_adapter/python/extension/log_sink.h"
#include "trainer_adapter/python/extension/os_text.h"
#include "trainer_adapter/python/extension/tensor.h"
#include "trainer_adapter/python/extension/waiting.h"

namespace isocost::python {
namespace {

namespace py = pybind11;

template <typename T>
py::dict by_module(const std::array<T, kModules>& values) {
  py::dict result;
  for (std::size_t i = 0; i < kModules; ++i) {
    result[py::str(std::string(module_name(static_cast<CostModule>(i))))] = values[i];
  }
  return result;
}

// Passes messages of the client's thread on to the thread that takes microbatches: the former must
// not wait for the GIL, since it also sends heartbeats. Holds the first of many. Internally
// synchronised.
class NoticeQueue : public std::enable_shared_from_this<NoticeQueue> {
 public:
  explicit NoticeQueue(const py::function& on_log) : on_log_(hold(on_log)) {}

  LogSink sink() {
    return [self = shared_from_this()](LogLevel level, std::string_view text) {
      constexpr std::size_t kMost = 100;
      const MutexLock lock(self->mutex_);
      if (self->waiting_.size() < kMost) self->waiting_.emplace_back(level, text);
    };
  }

  /// Logs the messages. Call it with the GIL. Throws what the handler of a signal raises meanwhile.
  void pass_on() {
    std::vector<std::pair<LogLevel, std::string>> notices;
    {
      const MutexLock lock(mutex_);
      notices.swap(waiting_);
    }
    for (const auto& [level, text] : notices) log_here(*on_log_, level, text);
  }

 private:
  const std::shared_ptr<py::function> on_log_;
  Mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> waiting_ ISOCOST_GUARDED_BY(mutex_);
};

class PyClient {
 public:
  PyClient(std::unique_ptr<Client> client, std::shared_ptr<NoticeQueue> notices)
      : client_(std::move(client)), notices_(std::move(notices)) {}
  ~PyClient() {
    const py::gil_scoped_release released;
    client_.reset();
  }
  PyClient(const PyClient&) = delete;
  PyClient& operator=(const PyClient&) = delete;

  Client& client() {
    if (client_ == nullptr) raise(Error(ErrorCode::kCancelled, "the loader is closed"));
    return *client_;
  }

  std::optional<Microbatch> next() {
    Client& client = this->client();
    wait_interruptibly([&](std::chrono::milliseconds limit) { return client.wait(limit); },
                       [this] { notices_->pass_on(); });
    return value(client.next({}));  // does not block at this point
  }

  void acknowledge() {
    Client& client = this->client();
    const py::gil_scoped_release released;
    client.acknowledge();
  }
  void use(std::uint32_t epoch, std::uint32_t step, std::uint32_t microbatch, double waited_s) {
    Client& client = this->client();
    const py::gil_scoped_release released;
    client.use({epoch, step, microbatch},
               std::chrono::nanoseconds(static_cast<std::int64_t>(waited_s * 1e9)));
  }

  void trained(std::uint32_t epoch, std::uint32_t step, std::uint32_t microbatch) {
    value(client().trained({epoch, step, microbatch}));
  }

  void close() {
    const py::gil_scoped_release released;
    if (client_ != nullptr) client_->close();
  }
  /// Forgets the client in a forked child, whose threads are the parent's: joins and frees nothing.
  void forget() {
    // NOLINTNEXTLINE(bugprone-unused-return-value): leaked on purpose.
    static_cast<void>(client_.release());
  }

 private:
  std::unique_ptr<Client> client_;
  std::shared_ptr<NoticeQueue> notices_;
};

using Connected = Result<std::unique_ptr<Client>>;

// The outcome of one thread's attempt to connect, for another thread that waits for it.
class ConnectOutcome {
 public:
  void set(Connected connected) {
    const MutexLock lock(mutex_);
    connected_ = std::move(connected);
    is_set_ = true;
    changed_.notify_one();
  }

  /// Blocks until it is set or `limit` has passed. Returns whether it is set.
  bool wait(std::chrono::milliseconds limit) {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, limit, [this]() ISOCOST_REQUIRES(mutex_) { return is_set_; });
  }

  /// Returns the outcome. Call it once the outcome is set.
  Connected take() {
    const MutexLock lock(mutex_);
    return std::move(connected_);
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool is_set_ ISOCOST_GUARDED_BY(mutex_) = false;
  Connected connected_ ISOCOST_GUARDED_BY(mutex_) = Error(ErrorCode::kInternal, "not set");
};

// Connects on a thread of its own, since connecting blocks until the node answers, and Ctrl-C must
// stop it.
std::unique_ptr<PyClient> connect(ClientOptions options, const py::function& on_log) {
  auto notices = std::make_shared<NoticeQueue>(on_log);
  options.log = notices->sink();
  auto outcome = std::make_unique<ConnectOutcome>();
  std::jthread connecting([&outcome = *outcome, &options](const std::stop_token& stop) {
    outcome.set(Client::connect(options, stop));
  });
  try {
    wait_interruptibly([&](std::chrono::milliseconds limit) { return outcome->wait(limit); });
  } catch (...) {
    const py::gil_scoped_release released;  // the client's threads may be logging
    connecting.request_stop();
    connecting.join();
    outcome.reset();
    throw;
  }
  return std::make_unique<PyClient>(value(outcome->take()), std::move(notices));
}

// The fields of StartPoint.
using Start =
    std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, py::bytes, std::string, std::uint16_t>;

ClientOptions client_options(const OsText& endpoint, std::int32_t rank, std::int32_t world_size,
                             std::uint32_t prefetch, double connect_timeout_s,
                             const std::optional<Start>& start, const OsText& server_key_file,
                             const OsText& secret_key_file, const std::string& hardware,
                             std::uint64_t layout) {
  ClientOptions options;
  options.endpoint = endpoint.bytes;
  options.rank = rank;
  options.world_size = world_size;
  options.prefetch = prefetch;
  options.prepares_ahead = true;  // the loader says where the loop is
  options.connect_timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(connect_timeout_s * 1e3));
  if (start) {
    const auto& [cursor, epoch, step, cost_model_state, mixture, version] = *start;
    options.start = {cursor, epoch, step, cost_model_state, mixture, version};
    options.accept_other_data = cursor == 0;  // set_epoch before the node was asked
  }
  options.curve_server_key_file = server_key_file.bytes;
  options.curve_secret_key_file = secret_key_file.bytes;
  options.hardware = hardware;
  options.layout = layout;
  return options;
}

py::dict welcome(PyClient& self) {
  const Welcome& welcome = self.client().welcome();
  py::dict result;
  result["ranks"] = welcome.ranks;
  result["cursor"] = welcome.start.cursor;
  result["mixture"] = welcome.start.mixture;
  result["start"] = py::make_tuple(welcome.start.epoch, welcome.start.step);
  result["dataset_fingerprint"] = welcome.dataset_fingerprint;
  result["samples_per_epoch"] = welcome.samples_per_epoch;
  result["steps_per_epoch"] = welcome.steps_per_epoch;
  result["has_length"] = welcome.has_length;
  result["epochs"] = welcome.epochs;
  result["global_batch_size"] = welcome.global_batch_size;
  result["microbatches"] = welcome.microbatches;
  result["recipe_fingerprint"] = welcome.recipe_fingerprint;
  result["weighted_samples"] = welcome.weighted_samples;
  result["first_weighted"] = welcome.first_weighted;
  result["first_weight"] = welcome.first_weight;
  result["padded_multiple"] = welcome.padded_multiple;
  return result;
}

std::optional<py::dict> epoch_end(PyClient& self) {
  const auto& end = self.client().epoch_end();
  if (!end) return std::nullopt;
  py::dict result;
  result["epoch"] = end->epoch;
  result["steps"] = end->steps;
  result["planned"] = end->planned;
  result["bad"] = end->bad;
  result["dropped"] = end->dropped;
  result["last_epoch"] = end->last_epoch;
  return result;
}

void report(PyClient& self, std::uint32_t epoch, std::uint32_t step, std::uint32_t microbatch,
            const std::array<double, kModules>& seconds, double forward, double measuring) {
  Client& client = self.client();
  Status sent;
  {
    const py::gil_scoped_release released;
    Report report{{epoch, step, microbatch}, seconds, forward};
    report.measuring_s = measuring;
    sent = client.report(report);
  }
  value(std::move(sent));
}

void send_profile(PyClient& self, const std::string& profile, double took_s,
                  const std::string& failure) {
  Client& client = self.client();
  Status sent;
  {
    const py::gil_scoped_release released;
    sent = client.send_profile({profile, took_s, failure});
  }
  value(std::move(sent));
}

using NamedTensors = std::vector<std::pair<std::string, SharedTensor>>;

NamedTensors tensors(const Microbatch& microbatch) {
  NamedTensors result;
  for (const NamedTensor& named : microbatch.tensors) {
    result.emplace_back(named.name, named.tensor);
  }
  return result;
}

// Returns all tensors in one call, which takes less time than a call from Python for each.
py::dict convert(const Microbatch& microbatch, const py::function& from_dlpack) {
  py::dict result;
  for (const NamedTensor& named : microbatch.tensors) {
    result[py::str(argument_name(named.name))] = from_dlpack(to_dlpack(named.tensor));
  }
  return result;
}

// The fields of Part in isocost/microbatches/transform.py, with a grid of two numbers.
using PartTuple = std::tuple<std::string, std::uint32_t, std::uint32_t, std::vector<double>>;
// The fields of RawSample in isocost/microbatches/transform.py.
using SampleTuple =
    std::tuple<std::uint64_t, float, std::uint32_t, std::string, py::bytes, std::vector<PartTuple>>;

SampleTuple to_tuple(const SampleEntry& sample) {
  std::vector<PartTuple> parts;
  parts.reserve(sample.parts.size());
  for (const SamplePart& part : sample.parts) {
    parts.emplace_back(modality_name(part.modality), part.rows, part.columns, part.timestamps_s);
  }
  return {sample.id,  sample.weight,          sample.label_tokens,
          sample.key, py::bytes(sample.json), std::move(parts)};
}

std::vector<SampleTuple> samples(const Microbatch& microbatch) {
  std::vector<SampleTuple> result;
  result.reserve(microbatch.header.samples.size());
  for (const SampleEntry& sample : microbatch.header.samples) result.push_back(to_tuple(sample));
  return result;
}

// Returns a list of what `of` returns for each sample of the data set.
template <typename Of>
auto of_samples(const Microbatch& microbatch, const Of& of) {
  std::vector<std::remove_cvref_t<std::invoke_result_t<Of, const SampleEntry&>>> result;
  result.reserve(microbatch.header.samples.size());
  for (const SampleEntry& sample : microbatch.header.samples) {
    if (!sample.is_dummy()) result.push_back(std::invoke(of, sample));
  }
  return result;
}

// The fields of Route.
using RouteTuple = std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t,
                              std::uint32_t, std::uint32_t, std::uint32_t>;

std::vector<RouteTuple> routes(const Microbatch& microbatch) {
  std::vector<RouteTuple> result;
  result.reserve(microbatch.header.routes.size());
  for (const Route& route : microbatch.header.routes) {
    result.emplace_back(module_name(route.module), route.sample, route.first_unit, route.units,
                        route.replica, route.microbatch, route.peer_first_unit);
  }
  return result;
}

// Returns the number of images of each sample, those of dummies included.
std::vector<std::int64_t> images(const Microbatch& microbatch) {
  std::vector<std::int64_t> result;
  result.reserve(microbatch.header.samples.size());
  for (const SampleEntry& sample : microbatch.header.samples) {
    result.push_back(std::ranges::count(sample.parts, Modality::kImage, &SamplePart::modality));
  }
  return result;
}

// Returns whether some token may have a weight in the loss other than 1.
bool is_weighted(const MicrobatchHeader& header) {
  const auto& turns = tensor_entry(CostModule::kLlm, TensorRole::kTurnWeights);
  return std::ranges::any_of(header.samples,
                             [](const SampleEntry& sample) { return sample.weight != 1; }) ||
         std::ranges::any_of(header.tensors,
                             [&](const TensorSpec& spec) { return spec.name == turns.name; });
}

using PositionTuple = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

PositionTuple position(const Microbatch& microbatch) {
  const Position& at = microbatch.header.position;
  return {at.epoch, at.step, at.microbatch};
}

// Returns the microbatch's part of global_label_tokens, to which repeats add nothing.
std::int64_t counted_label_tokens(const MicrobatchHeader& header) {
  std::int64_t count = 0;
  for (const SampleEntry& sample : header.samples) {
    if (sample.weight != 0) count += sample.label_tokens;
  }
  return count;
}

// The fields of Description in isocost/microbatches/microbatch.py.
using DescriptionTuple =
    std::tuple<PositionTuple, std::vector<std::uint64_t>, std::vector<std::string>,
               std::vector<float>, bool, std::vector<std::int64_t>, bool, bool, py::dict,
               std::int64_t, std::uint64_t, std::uint64_t, double, bool, py::bytes,
               std::vector<RouteTuple>>;

DescriptionTuple description(const Microbatch& microbatch) {
  const MicrobatchHeader& header = microbatch.header;
  return {position(microbatch),
          of_samples(microbatch, &SampleEntry::id),
          of_samples(microbatch, &SampleEntry::key),
          of_samples(microbatch, &SampleEntry::weight),
          is_weighted(header),
          images(microbatch),
          header.last_of_step(),
          header.last_of_epoch(),
          by_module(header.predicted_seconds),
          counted_label_tokens(header),
          header.global_label_tokens,
          header.plan_hash,
          header.profile_budget_s,
          header.seconds_wanted,
          py::bytes(header.cost_model_state),
          routes(microbatch)};
}

// Microbatch::pin, as an object that is cheaper to make than a Python function.
struct Pin {
  std::function<bool()> pin;

  bool operator()() const {
    const py::gil_scoped_release released;
    return pin();
  }
};

std::optional<Pin> pin(const Microbatch& microbatch) {
  if (!microbatch.pin) return std::nullopt;
  return Pin{microbatch.pin};
}

void bind_microbatch(py::module_& module) {
  py::class_<Pin>(module, "Pin").def("__call__", &Pin::operator());
  py::class_<Microbatch>(module, "Microbatch")
      .def_property_readonly("tensors", &tensors, "Names and tensors, in the order announced.")
      .def("convert", &convert, py::arg("from_dlpack"),
           "The objects that `from_dlpack` makes of a DLPack capsule of each tensor, by argument "
           "name.")
      .def_property_readonly("description", &description, "Fields of Description.")
      .def_property_readonly("position", &position, "Epoch, step and microbatch.")
      .def_property_readonly(
          "pin", &pin,
          "Registers the tensors' block of shared memory with the CUDA runtime, once; None if they "
          "lie in none. Does not keep the tensors.")
      .def_property_readonly("samples", &samples, "Fields of RawSample, for each sample.")
      .def_property_readonly(
          "announced",
          [](const Microbatch& self) {
            return static_cast<std::size_t>(self.header.tensors.size());
          },
          "Number of tensors that have `rows`; those after them are derived.")
      .def_property_readonly(
          "rows", [](const Microbatch& self) { return self.header.rows; },
          "[samples * announced] rows of each sample in each tensor, sample by sample.");
}

}  // namespace

void bind_client(py::module_& module) {
  module.attr("no_rank") = kNoRank;
  module.attr("dummy_sample") = SampleEntry::kDummy;
  bind_microbatch(module);
  py::class_<PyClient>(module, "Client")
      .def(py::init([](const OsText& endpoint, std::int32_t rank, std::int32_t world_size,
                       std::uint32_t prefetch, double connect_timeout_s,
                       const std::optional<Start>& start, const OsText& server_key_file,
                       const OsText& secret_key_file, const std::string& hardware,
                       std::uint64_t layout, const py::function& on_log) {
             return connect(
                 client_options(endpoint, rank, world_size, prefetch, connect_timeout_s, start,
                                server_key_file, secret_key_file, hardware, layout),
                 on_log);
           }),
           py::kw_only(), py::arg("endpoint"), py::arg("rank"), py::arg("world_size"),
           py::arg("prefetch"), py::arg("connect_timeout_s"), py::arg("start"),
           py::arg("server_key_file"), py::arg("secret_key_file"), py::arg("hardware"),
           py::arg("layout"), py::arg("on_log"))
      .def("next", &PyClient::next)
      .def("acknowledge", &PyClient::acknowledge)
      .def("use", &PyClient::use, py::arg("epoch"), py::arg("step"), py::arg("microbatch"),
           py::arg("waited_s"))
      .def("trained", &PyClient::trained, py::arg("epoch"), py::arg("step"), py::arg("microbatch"))
      .def("welcome", &welcome)
      .def("epoch_end", &epoch_end)
      .def("send_profile", &send_profile, py::arg("profile"), py::arg("took_s"), py::arg("failure"))
      .def("report", &report, py::arg("epoch"), py::arg("step"), py::arg("microbatch"),
           py::arg("seconds"), py::arg("forward"), py::arg("measuring"))
      .def("close", &PyClient::close)
      .def("forget", &PyClient::forget)
      .def("bytes_copied", [](PyClient& self) { return self.client().bytes_copied(); })
      .def("bytes_in_use", [](PyClient& self) { return self.client().bytes_in_use(); })
      .def(
          "owns",
          [](PyClient& self, std::uintptr_t address) {
            return self.client().pool().owns(
                reinterpret_cast<const void*>(address));  // NOLINT(performance-no-int-to-ptr)
          },
          py::arg("address"));
}

}  // namespace isocost::python
