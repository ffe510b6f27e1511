// `isocost layout fingerprint` and `isocost layout receiver`: what a process of a layout tells its
// node.

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>

#include "balancer/layout/layout_receiver.h"
#include "cli/common/exit_status.h"
#include "cli/plan/commands.h"

namespace isocost::cli {
namespace {

struct FingerprintArguments {
  std::string file;

  void add_to(CLI::App& command) {
    command.add_option("FILE", file, "A layout, as isocost plan writes it")->required();
  }
};

struct ReceiverArguments {
  std::string file;
  std::int64_t rank = 0;

  void add_to(CLI::App& command) {
    command.add_option("FILE", file, "A layout, as isocost plan writes it")->required();
    command.add_option("RANK", rank, "Rank of the process in the whole job")->required();
  }
};

Result<int> print_fingerprint(const FingerprintArguments& arguments) {
  ISOCOST_ASSIGN(const std::uint64_t fingerprint, layout_fingerprint(arguments.file));
  std::printf("%" PRIu64 "\n", fingerprint);
  return kDone;
}

Result<int> print_receiver(const ReceiverArguments& arguments) {
  ISOCOST_ASSIGN(const LayoutReceiver receiver, layout_receiver(arguments.file, arguments.rank));
  std::printf("%" PRId32 " %" PRId32 "\n", receiver.rank, receiver.world_size);
  return kDone;
}

}  // namespace

void add_layout(CLI::App& app, Run& run) {
  CLI::App* layout =
      app.add_subcommand("layout", "Read a layout: 'isocost layout fingerprint', 'receiver'.");
  layout->require_subcommand(1);
  add_command<FingerprintArguments>(
      *layout, run,
      {.name = "fingerprint",
       .description = "Print the number by which a node knows the layout of its trainers.",
       .footer = "Example:\n"
                 "  isocost layout fingerprint layout.json\n"
                 "A C++ trainer gives it as options.layout (docs/layout_trainers.md)."},
      print_fingerprint);
  add_command<ReceiverArguments>(
      *layout, run,
      {.name = "receiver",
       .description = "Print the receiver of a rank, and the number of receivers.",
       .footer =
           "Example:\n"
           "  isocost layout receiver layout.json 3\n"
           "A C++ trainer gives them as options.rank and options.world_size. Ranks that differ\n"
           "only in their tensor index share a receiver (docs/layout.md)."},
      print_receiver);
}

}  // namespace isocost::cli
