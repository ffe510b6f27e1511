// What does a node add to the decoding of its samples?
//
//     build/release/bench/node_overhead [DIR [SUFFIX [GLOBAL_BATCH_SIZE]]]
//
// Takes the files of DIR (default: build/demo/made, which `./run demo --media-only` makes) that end
// in SUFFIX (default: .jpg), a sample each. In turn, round by round: the recipe alone on one
// thread, from memory; on two threads; a node with two workers, whose client, another process,
// drops each microbatch. The tensors that the node delivers are compared with the recipe's first.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/scratch_directory.h"
#include "base/statistics.h"
#include "decode/recipe.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "loader/node/node_thread.h"
#include "trainer_adapter/client.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 5;
constexpr int kWorkers = 2;
constexpr double kSecondsOfARound = 6;  // of the recipe alone; starting the node is within

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "node_overhead: %s\n", what.c_str());
  std::exit(1);
}

template <typename Value>
Value required(Result<Value> result) {
  if (!result) give_up(result.error().message());
  return *std::move(result);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A process that takes all microbatches of the node at a given endpoint, and says so.
class Dropper {
 public:
  Dropper() {
    int orders[2];
    int answers[2];
    if (pipe(orders) != 0 || pipe(answers) != 0) give_up("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      close(orders[1]);
      run(fdopen(orders[0], "r"), fdopen(answers[1], "w"));
    }
    close(orders[0]);
    close(answers[1]);
    orders_ = fdopen(orders[1], "w");
    answers_ = fdopen(answers[0], "r");
  }
  ~Dropper() {
    std::fclose(orders_);
    std::fclose(answers_);
    waitpid(pid_, nullptr, 0);
  }
  Dropper(const Dropper&) = delete;
  Dropper& operator=(const Dropper&) = delete;

  struct Taken {
    std::size_t samples = 0;
    double cpu_seconds = 0;
  };
  // Blocks until it has taken everything.
  Taken take_all(const std::string& endpoint) {
    std::fprintf(orders_, "%s\n", endpoint.c_str());
    std::fflush(orders_);
    Taken taken;
    if (std::fscanf(answers_, "%zu %lf", &taken.samples, &taken.cpu_seconds) != 2) {
      give_up("the client ended");
    }
    return taken;
  }

 private:
  [[noreturn]] static void run(FILE* orders, FILE* answers) {
    char line[256];
    while (std::fgets(line, sizeof(line), orders) != nullptr) {
      ClientOptions options;
      options.endpoint = std::string(line, std::strlen(line) - 1);
      std::size_t samples = 0;
      const double cpu = cpu_seconds();
      const auto client = required(Client::connect(options));
      for (;;) {
        const auto next = required(client->next({}));
        if (!next && client->epoch_end()->last_epoch) break;
        if (next) samples += next->header.samples.size();
      }
      std::fprintf(answers, "%zu %f\n", samples, cpu_seconds() - cpu);
      std::fflush(answers);
    }
    std::_Exit(0);
  }

  pid_t pid_ = -1;
  FILE* orders_ = nullptr;
  FILE* answers_ = nullptr;
};

// The only file of a sample, in memory.
struct MediaFile {
  PartShape shape;
  std::vector<std::byte> bytes;
};

struct Data {
  ScratchDirectory scratch = required(ScratchDirectory::create("isocost-node-overhead"));
  std::vector<MediaFile> parts;  // by sample id
  std::int64_t global_batch_size = 32;
  std::uint64_t passes = 1;  // of a round
  Recipe recipe = required(Recipe::create({}));
  BufferPool pool;

  fs::path shards() const { return scratch / "shards"; }
  std::uint64_t samples() const { return passes * parts.size(); }  // of a round
};

void make_shards_of(const fs::path& directory, const std::string& suffix, const Data& data) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == suffix) files.push_back(fs::absolute(entry.path()));
  }
  if (files.empty()) give_up(directory.string() + ": has no file that ends in " + suffix);
  std::ranges::sort(files);
  std::ofstream manifest(data.scratch / "manifest.jsonl");
  for (std::size_t i = 0; i < files.size(); ++i) {
    manifest << R"({"key": ")" << i << R"(", "parts": [{"name": ")" << suffix.substr(1)
             << R"(", "file": ")" << files[i].string() << R"("}]})" << "\n";
  }
  manifest.close();
  required(make_shards(data.scratch / "manifest.jsonl", data.shards(), {}));
}

void read_parts(Data& data) {
  const auto dataset = required(Dataset::open(data.shards(), {}));
  for (SampleId id = 0; id < dataset->size(); ++id) {
    const auto source = required(dataset->open_part(id, 0));
    MediaFile part{dataset->shape(id).parts.front(), {}};
    part.bytes.resize(static_cast<std::size_t>(source->size()));
    required(source->read_at(0, part.bytes));
    data.parts.push_back(std::move(part));
  }
}

std::vector<NamedTensor> decode(Data& data, std::size_t id) {
  const MediaFile& part = data.parts[id];
  const MemoryByteSource source(part.bytes);
  const PartBytes bytes{&part.shape, &source};
  auto tensors = data.recipe.tensors(std::span(&bytes, 1), data.pool);
  if (!tensors) give_up("sample " + std::to_string(id) + ": " + tensors.error().error.message());
  return *std::move(tensors);
}

NodeOptions node_options(const Data& data, std::int64_t batch, std::uint64_t epochs) {
  NodeOptions options;
  options.data = data.shards();
  options.plan.ranks = 1;
  options.plan.global_batch_size = batch;
  options.plan.microbatches = std::min<std::int64_t>(batch, 4);
  options.plan.epochs = static_cast<std::int64_t>(epochs);
  options.decode.workers = kWorkers;
  options.bad_samples.file.clear();
  options.service.bind = "tcp://127.0.0.1:*";
  return options;
}

std::unique_ptr<Node> make_node(const Data& data, std::int64_t batch, std::uint64_t epochs) {
  return required(Node::create(node_options(data, batch, epochs), {}, {}));
}

// With batches of one sample a microbatch is a sample.
void compare(Data& data) {
  NodeThread node(make_node(data, 1, 1));
  ClientOptions options;
  options.endpoint = node.endpoint();
  const auto client = required(Client::connect(options));
  std::size_t compared = 0;
  for (;;) {
    const auto microbatch = required(client->next({}));
    if (!microbatch) break;
    const SampleId id = microbatch->header.samples.at(0).id;
    for (const NamedTensor& expected : decode(data, id)) {
      const auto found = microbatch->find(expected.name);
      const auto bytes = expected.tensor.bytes();
      if (!found || !std::ranges::equal(found->bytes(), bytes)) {
        give_up("sample " + std::to_string(id) + ": another " + expected.name + " is delivered");
      }
    }
    ++compared;
  }
  if (compared != data.parts.size()) give_up("samples are missing");
}

struct Contender {
  const char* name;
  std::vector<double> cpu_ms;  // a sample, of each round
  std::vector<double> rate;    // samples a second
};

// Adds a round in which `run` decodes this number of samples.
template <typename Run>
void measure(Contender& contender, std::uint64_t samples, Run run) {
  const double cpu = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  run();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  contender.cpu_ms.push_back(1e3 * (cpu_seconds() - cpu) / static_cast<double>(samples));
  contender.rate.push_back(static_cast<double>(samples) / wall.count());
}

void decode_all(Data& data, int threads) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&] {
      for (std::size_t i = next++; i < data.samples(); i = next++)
        decode(data, i % data.parts.size());
    });
  }
}

// Returns the client's CPU time in seconds.
double serve(const Data& data, Dropper& client, std::unique_ptr<Node> made) {
  NodeThread node(std::move(made));
  const Dropper::Taken taken = client.take_all(node.endpoint());
  if (taken.samples != data.samples()) give_up("samples are missing");
  return taken.cpu_seconds;
}

void print(const char* name, std::vector<double> values, const char* unit) {
  const auto [least, most] = std::ranges::minmax(values);
  std::printf("%-40s %9.3f %s (%.3f to %.3f)\n", name, median(values), unit, least, most);
}

std::vector<double> ratios(const std::vector<double>& above, const std::vector<double>& below,
                           double factor) {
  std::vector<double> out(above.size());
  std::ranges::transform(above, below, out.begin(),
                         [factor](double a, double b) { return factor * a / b; });
  return out;
}

// Returns the number of passes that fill a round.
std::uint64_t passes_of_a_round(Data& data) {
  Contender once{"", {}, {}};
  measure(once, data.samples(), [&] { decode_all(data, 1); });
  const double seconds = static_cast<double>(data.samples()) / once.rate.front();
  return static_cast<std::uint64_t>(std::ceil(kSecondsOfARound / seconds));
}

void run(Data& data, Dropper& client) {
  data.passes = passes_of_a_round(data);
  Contender one{"recipe, one thread", {}, {}};
  Contender two{"recipe, two threads", {}, {}};
  Contender node{"node, two workers", {}, {}};
  std::vector<double> client_ms;
  for (int round = 0; round <= kRounds; ++round) {
    measure(one, data.samples(), [&] { decode_all(data, 1); });
    measure(two, data.samples(), [&] { decode_all(data, 2); });
    auto made = make_node(data, data.global_batch_size, data.passes);
    measure(node, data.samples(), [&] {
      const double seconds = serve(data, client, std::move(made));
      client_ms.push_back(1e3 * seconds / static_cast<double>(data.samples()));
    });
    if (round > 0) continue;  // the first one warms up
    for (Contender* contender : {&one, &two, &node}) {
      contender->cpu_ms.clear();
      contender->rate.clear();
    }
    client_ms.clear();
  }
  std::printf("%zu samples in batches of %lld, %llu passes, %d rounds: median (least to most)\n",
              data.parts.size(), static_cast<long long>(data.global_batch_size),
              static_cast<unsigned long long>(data.passes), kRounds);
  for (const Contender* contender : {&one, &two, &node}) {
    print(contender->name, contender->cpu_ms, "ms of CPU time a sample");
    print("", contender->rate, "samples/s");
  }
  print("client of the node", client_ms, "ms of CPU time a sample");
  print("node / recipe on one thread", ratios(node.cpu_ms, one.cpu_ms, 1), "of the CPU time");
  print("node / recipe on two threads", ratios(node.cpu_ms, two.cpu_ms, 1), "of the CPU time");
  print("node / twice the recipe on one thread", ratios(node.rate, one.rate, 0.5), "of the rate");
  print("node / recipe on two threads", ratios(node.rate, two.rate, 1), "of the rate");
}

}  // namespace
}  // namespace isocost

int main(int argc, char** argv) {
  isocost::Dropper client;  // first: a process with threads must not fork
  isocost::Data data;
  if (argc > 3) data.global_batch_size = std::atoll(argv[3]);
  isocost::make_shards_of(argc > 1 ? argv[1] : "build/demo/made", argc > 2 ? argv[2] : ".jpg",
                          data);
  isocost::read_parts(data);
  isocost::compare(data);
  isocost::run(data, client);
  return 0;
}
