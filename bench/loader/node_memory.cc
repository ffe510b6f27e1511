// Does a node's peak memory stay under --memory plus 300 MB, whatever the input?
//
//     build/release/bench/node_memory [DIR]
//
// Starts `isocost serve` on the data in DIR, with several budgets. Without DIR the data are large
// pictures that are made here, and the demo's shards if they exist. One client takes everything;
// then the process's peak resident memory (VmHWM) is compared with the budget. Prints a row for
// each run. The exit status is 1 if a node went over its budget.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "tests/support/media.h"
#include "trainer_adapter/client.h"

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAllowedMb = 300;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "node_memory: %s\n", what.c_str());
  std::exit(1);
}

// A node process whose standard output is read for its endpoint.
class NodeProcess {
 public:
  NodeProcess(const fs::path& program, const fs::path& data, std::int64_t memory_mb) {
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) give_up("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_ends[1], STDOUT_FILENO);
      const std::string memory = std::to_string(memory_mb) + "MB";
      execl(program.c_str(), program.c_str(), "serve", "--data", data.c_str(), "--ranks", "1",
            "--global-batch-size", "32", "--microbatches", "2", "--bind", "tcp://127.0.0.1:*",
            "--memory", memory.c_str(), "--bad-samples-file", "", nullptr);
      _exit(127);
    }
    close(pipe_ends[1]);
    output_ = fdopen(pipe_ends[0], "r");
    char line[512];
    if (fgets(line, sizeof(line), output_) == nullptr) give_up("the node printed nothing");
    const std::string text(line);
    endpoint_ = text.substr(text.rfind(' ') + 1);
    endpoint_.pop_back();
  }
  ~NodeProcess() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
    fclose(output_);
  }
  NodeProcess(const NodeProcess&) = delete;
  NodeProcess& operator=(const NodeProcess&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  std::int64_t peak_mb() const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string word; status >> word;) {
      std::int64_t kib = 0;
      if (word == "VmHWM:" && status >> kib) return kib * 1024 / 1'000'000;
    }
    return -1;
  }

 private:
  pid_t pid_ = -1;
  FILE* output_ = nullptr;
  std::string endpoint_;
};

// Takes all microbatches. Returns the number of samples and the node's peak memory in MB, which is
// read while the node runs.
std::pair<std::size_t, std::int64_t> drain(const NodeProcess& node) {
  isocost::ClientOptions options;
  options.endpoint = node.endpoint();
  auto client = isocost::Client::connect(options);
  if (!client) give_up(client.error().message());
  std::set<std::uint64_t> seen;
  std::int64_t peak = 0;
  for (;;) {
    auto next = (*client)->next({});
    if (!next) give_up(next.error().message());
    peak = std::max(peak, node.peak_mb());
    if (!next->has_value()) return {seen.size(), peak};
    for (const auto& sample : (*next)->header.samples) seen.insert(sample.id);
  }
}

// Sixty pictures, the largest of 43 megapixels.
void make_heavy_shards(const fs::path& directory) {
  const fs::path files = directory / "files";
  fs::create_directories(files);
  for (int i = 0; i < 60; ++i) {
    const int width = 1000 + 120 * i;
    const auto bytes = i % 2 == 0 ? isocost::test::make_jpeg(width, width * 2 / 3, 1)
                                  : isocost::test::make_png(width, width * 2 / 3, 1);
    std::ofstream out(files / (std::to_string(i) + (i % 2 == 0 ? ".jpg" : ".png")),
                      std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }
  const auto made = isocost::make_shards(files, directory / "shards", {});
  if (!made) give_up(made.error().message());
}

bool measure(const std::string& name, const fs::path& program, const fs::path& data) {
  const auto dataset = isocost::Dataset::open(data, {});
  if (!dataset) give_up(dataset.error().message());
  bool good = true;
  for (const std::int64_t memory_mb : {400, 1000, 2000}) {
    const NodeProcess node(program, data, memory_mb);
    const auto [samples, peak_mb] = drain(node);
    const bool within = peak_mb <= memory_mb + kAllowedMb;
    good = good && within;
    std::printf("%-8s --memory %5lld MB   peak %5lld MB   %zu of %llu samples%s\n", name.c_str(),
                static_cast<long long>(memory_mb), static_cast<long long>(peak_mb), samples,
                static_cast<unsigned long long>((*dataset)->size()), within ? "" : "   OVER");
    std::fflush(stdout);
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path program =
      fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "isocost";
  if (argc > 1) return measure("given", program, argv[1]) ? 0 : 1;
  const auto scratch = isocost::ScratchDirectory::create("isocost-node-memory");
  if (!scratch) give_up(scratch.error().message());
  make_heavy_shards(scratch->path());
  bool good = measure("pictures", program, *scratch / "shards");
  if (fs::exists("build/demo/shards")) good = measure("demo", program, "build/demo/shards") && good;
  return good ? 0 : 1;
}
