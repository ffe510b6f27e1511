#include "trainer_adapter/python/client.h"

#include <pybind11/stl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "base/load.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/python/errors.h"
#include "trainer_adapter/python/tensor.h"
#include "trainer_adapter/python/waiting.h"

namespace isocost::python {
namespace {

namespace py = pybind11;
using Clock = std::chrono::steady_clock;

template <typename T>
py::dict by_module(const std::array<T, kModules>& values) {
  py::dict result;
  for (std::size_t i = 0; i < kModules; ++i) {
    result[py::str(std::string(module_name(static_cast<Module>(i))))] = values[i];
  }
  return result;
}

class PyClient {
 public:
  explicit PyClient(std::unique_ptr<Client> client) : client_(std::move(client)) {}
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
    const auto asked = Clock::now();
    Client& client = this->client();
    wait_interruptibly([&](std::chrono::milliseconds limit) { return client.wait(limit); });
    auto next = value(client.next({}));  // does not block any more
    if (next) next->waited = Clock::now() - asked;
    return next;
  }

  void close() {
    const py::gil_scoped_release released;
    if (client_ != nullptr) client_->close();
  }
  /// For a forked child: the threads are the parent's, so nothing may be joined or freed.
  void forget() {
    // NOLINTNEXTLINE(bugprone-unused-return-value): leaked, as said.
    static_cast<void>(client_.release());
  }

 private:
  std::unique_ptr<Client> client_;
};

// Connecting waits for the node: on a thread, so that Ctrl-C is seen, which stops it.
std::unique_ptr<PyClient> connect(const ClientOptions& options) {
  Result<std::unique_ptr<Client>> outcome;
  std::atomic<bool> done = false;
  {
    std::jthread connecting([&](const std::stop_token& stop) {
      outcome = Client::connect(options, stop);
      done = true;
      done.notify_all();
    });
    wait_interruptibly([&](std::chrono::milliseconds limit) {
      const auto until = Clock::now() + limit;
      while (!done && Clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return done.load();
    });
  }
  return std::make_unique<PyClient>(value(std::move(outcome)));
}

// As the fields of StartPoint.
using Start = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::string>;

ClientOptions client_options(const std::string& endpoint, std::int32_t rank,
                             std::int32_t world_size, std::uint32_t prefetch,
                             double connect_timeout_s, const std::optional<Start>& start,
                             const std::string& server_key_file, const std::string& secret_key_file,
                             const std::string& hardware, std::uint64_t layout) {
  ClientOptions options;
  options.endpoint = endpoint;
  options.rank = rank;
  options.world_size = world_size;
  options.prefetch = prefetch;
  options.connect_timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(connect_timeout_s * 1e3));
  if (start) options.start = std::make_from_tuple<StartPoint>(*start);
  options.curve_server_key_file = server_key_file;
  options.curve_secret_key_file = secret_key_file;
  options.hardware = hardware;
  options.layout = layout;
  return options;
}

py::dict welcome(PyClient& self) {
  const Welcome& welcome = self.client().welcome();
  py::dict result;
  result["ranks"] = welcome.ranks;
  result["cursor"] = welcome.start.cursor;
  result["start"] = py::make_tuple(welcome.start.epoch, welcome.start.step);
  result["samples_per_epoch"] = welcome.samples_per_epoch;
  result["steps_per_epoch"] = welcome.steps_per_epoch;
  result["epochs"] = welcome.epochs;
  result["global_batch_size"] = welcome.global_batch_size;
  result["microbatches"] = welcome.microbatches;
  result["timeout_s"] = static_cast<double>(welcome.heartbeat_timeout_ms) / 1e3;
  return result;
}

py::object epoch_end(PyClient& self) {
  const auto& end = self.client().epoch_end();
  if (!end) return py::none();
  py::dict result;
  result["epoch"] = end->epoch;
  result["steps"] = end->steps;
  result["delivered"] = end->delivered;
  result["bad"] = end->bad;
  result["dropped"] = end->dropped;
  result["last_epoch"] = end->last_epoch;
  return result;
}

void report(PyClient& self, std::uint32_t epoch, std::uint32_t step, std::uint32_t microbatch,
            const std::array<double, kModules>& seconds, double forward) {
  value(self.client().report(Report{{epoch, step, microbatch}, seconds, forward}));
}

void send_profile(PyClient& self, const std::string& profile) {
  value(self.client().send_profile(profile));
}

py::list tensors(const Microbatch& microbatch) {
  py::list result;
  for (const NamedTensor& named : microbatch.tensors) {
    result.append(py::make_tuple(named.name, named.tensor));
  }
  return result;
}

py::list capsules(const Microbatch& microbatch) {
  py::list result;
  for (const NamedTensor& named : microbatch.tensors) {
    result.append(py::make_tuple(named.name, to_dlpack(named.tensor)));
  }
  return result;
}

py::list samples(const Microbatch& microbatch) {
  py::list result;
  for (const SampleEntry& sample : microbatch.header.samples) {
    result.append(py::make_tuple(sample.id, sample.weight, sample.label_tokens));
  }
  return result;
}

py::list routes(const Microbatch& microbatch) {
  py::list result;
  for (const Route& route : microbatch.header.routes) {
    result.append(py::make_tuple(std::string(module_name(route.module)), route.sample,
                                 route.first_unit, route.units, route.replica, route.microbatch,
                                 route.peer_first_unit));
  }
  return result;
}

void bind_microbatch(py::module_& module) {
  py::class_<Microbatch>(module, "Microbatch")
      .def_property_readonly("tensors", &tensors, "[(name, Tensor)], in the order announced")
      .def("capsules", &capsules, "[(name, DLPack capsule)], each to be taken over once")
      .def_property_readonly("samples", &samples, "[(id, weight, label tokens)]")
      .def_property_readonly("routes", &routes,
                             "[(module, sample, first unit, units, replica, microbatch, peer's "
                             "first unit)]")
      .def_property_readonly(
          "position",
          [](const Microbatch& self) {
            const Position& at = self.header.position;
            return py::make_tuple(at.epoch, at.step, at.microbatch);
          },
          "(epoch, step, microbatch)")
      .def_property_readonly(
          "announced",
          [](const Microbatch& self) {
            return static_cast<std::size_t>(self.header.tensors.size());
          },
          "tensors that have `rows`; those after them are derived")
      .def_property_readonly(
          "rows", [](const Microbatch& self) { return self.header.rows; },
          "[samples * announced] rows of each sample in each tensor, sample by sample")
      .def_property_readonly("microbatches",
                             [](const Microbatch& self) { return self.header.microbatches; })
      .def_property_readonly("last_of_step",
                             [](const Microbatch& self) { return self.header.last_of_step(); })
      .def_property_readonly("global_label_tokens",
                             [](const Microbatch& self) { return self.header.global_label_tokens; })
      .def_property_readonly("label_tokens",
                             [](const Microbatch& self) { return self.header.load.label_tokens; })
      .def_property_readonly("tensor_bytes",
                             [](const Microbatch& self) { return self.header.load.tensor_bytes; })
      .def_property_readonly("plan_hash",
                             [](const Microbatch& self) { return self.header.plan_hash; })
      .def_property_readonly("profile_wanted",
                             [](const Microbatch& self) { return self.header.profile_wanted; })
      .def_property_readonly(
          "learned", [](const Microbatch& self) { return py::bytes(self.header.cost_model_state); },
          "what the cost model has learned, for saved states; empty: nothing new")
      .def_property_readonly(
          "predicted",
          [](const Microbatch& self) { return by_module(self.header.predicted_seconds); })
      .def_property_readonly("waited_s", [](const Microbatch& self) {
        return std::chrono::duration<double>(self.waited).count();
      });
}

}  // namespace

void bind_client(py::module_& module) {
  bind_microbatch(module);
  py::class_<PyClient>(module, "Client")
      .def(py::init([](const std::string& endpoint, std::int32_t rank, std::int32_t world_size,
                       std::uint32_t prefetch, double connect_timeout_s,
                       const std::optional<Start>& start, const std::string& server_key_file,
                       const std::string& secret_key_file, const std::string& hardware,
                       std::uint64_t layout) {
             return connect(client_options(endpoint, rank, world_size, prefetch, connect_timeout_s,
                                           start, server_key_file, secret_key_file, hardware,
                                           layout));
           }),
           py::kw_only(), py::arg("endpoint"), py::arg("rank"), py::arg("world_size"),
           py::arg("prefetch"), py::arg("connect_timeout_s"), py::arg("start"),
           py::arg("server_key_file"), py::arg("secret_key_file"), py::arg("hardware"),
           py::arg("layout"))
      .def("next", &PyClient::next)
      .def("welcome", &welcome)
      .def("epoch_end", &epoch_end)
      .def("send_profile", &send_profile, py::arg("profile"))
      .def("report", &report, py::arg("epoch"), py::arg("step"), py::arg("microbatch"),
           py::arg("seconds"), py::arg("forward"))
      .def("close", &PyClient::close)
      .def("forget", &PyClient::forget)
      .def("bytes_copied", [](PyClient& self) { return self.client().bytes_copied(); })
      .def("bytes_in_use", [](PyClient& self) { return self.client().pool().bytes_in_use(); })
      .def("owns", [](PyClient& self, std::uintptr_t address) {
        return self.client().pool().owns(
            reinterpret_cast<const void*>(address));  // NOLINT(performance-no-int-to-ptr)
      });
}

}  // namespace isocost::python
