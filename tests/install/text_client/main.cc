// Takes one epoch from a loader node and prints how many samples and label tokens it held.
#include <isocost/client.h>

#include <cstdio>

namespace {

isocost::Status take_epoch(const isocost::ClientOptions& options) {
  ISOCOST_ASSIGN(const auto client, isocost::Client::connect(options));
  std::size_t samples = 0;
  std::int64_t tokens = 0;
  while (true) {
    ISOCOST_ASSIGN(const auto microbatch, client->next());
    if (!microbatch) break;  // the end of the epoch
    samples += microbatch->header.samples.size();
    tokens += (*microbatch)["input_ids"].elements();
  }
  client->close();
  std::printf("%zu samples, %lld tokens\n", samples, static_cast<long long>(tokens));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  isocost::ClientOptions options;
  if (argc > 1) options.endpoint = argv[1];
  return isocost::exit_code(take_epoch(options));
}
