#include <cstdio>
#include <string>

#include "base/output_file.h"
#include "cli/common/exit_status.h"
#include "cli/service/commands.h"
#include "transport/zmq/keys.h"

namespace isocost::cli {
namespace {

struct KeygenArguments {
  std::string name;

  void add_to(CLI::App& command) {
    command.add_option("NAME", name, "Writes NAME.secret and NAME.public")->required();
  }
};

Result<int> keygen(const KeygenArguments& arguments) {
  const std::string& name = arguments.name;
  ISOCOST_TRY(check_output_file("NAME", name + ".secret"));
  ISOCOST_ASSIGN(const KeyPair keys, generate_keys());
  ISOCOST_TRY(write_keys(keys, name));
  std::printf("%s.secret (keep it)\n%s.public (give it to peers)\n", name.c_str(), name.c_str());
  return kDone;
}

constexpr const char* kKeygenFooter =
    "Example:\n  isocost keygen node\n"
    "  isocost serve --data data/shards --bind tcp://0.0.0.0:5800 --curve-key node.secret\n"
    "Give node.public to the trainers. To admit only some of them, list their public keys in a\n"
    "file for --curve-clients.";

}  // namespace

void add_keygen(CLI::App& app, Run& run) {
  add_command<KeygenArguments>(app, run,
                               {.name = "keygen",
                                .description = "Make a CURVE key pair for a node or a trainer.",
                                .footer = kKeygenFooter},
                               keygen);
}

}  // namespace isocost::cli
