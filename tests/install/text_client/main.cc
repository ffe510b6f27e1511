// Takes one epoch from a loader node and prints how many samples and label tokens it held.
#include <cstdio>

#include "trainer_adapter/client.h"

int main(int argc, char** argv) {
  isocost::ClientOptions options;
  if (argc > 1) options.endpoint = argv[1];
  auto client = isocost::Client::connect(options);
  if (!client) {
    std::fprintf(stderr, "text_client: %s\n", client.error().to_string().c_str());
    return 1;
  }
  std::size_t samples = 0;
  std::int64_t tokens = 0;
  while (true) {
    const auto microbatch = (*client)->next({});
    if (!microbatch) {
      std::fprintf(stderr, "text_client: %s\n", microbatch.error().to_string().c_str());
      return 1;
    }
    if (!*microbatch) break;  // the end of the epoch
    samples += (*microbatch)->header.samples.size();
    tokens += (*microbatch)->find("llm.input_ids")->elements();
  }
  (*client)->close();
  std::printf("%zu samples, %lld tokens\n", samples, static_cast<long long>(tokens));
  return 0;
}
