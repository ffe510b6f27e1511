// Prints what the process of a rank tells its node: the layout, its receiver, and their number.
#include <isocost/client.h>
#include <isocost/layout.h>

#include <cstdio>
#include <cstdlib>

namespace {

isocost::Status print(const char* file, const char* rank) {
  ISOCOST_ASSIGN(const auto receiver, isocost::layout_receiver(file, std::atoi(rank)));
  const isocost::ClientOptions options{
      .rank = receiver.rank, .world_size = receiver.world_size, .layout = receiver.layout};
  std::printf("%llu %d %d\n", static_cast<unsigned long long>(options.layout), options.rank,
              options.world_size);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return isocost::exit_code(print(argv[1], argv[2]));
}
