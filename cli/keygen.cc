#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/exit_status.h"
#include "transport/keys.h"

namespace isocost::cli {
namespace {

Result<int> keygen(const std::string& name) {
  ISOCOST_ASSIGN(const KeyPair keys, generate_keys());
  ISOCOST_TRY(write_keys(keys, name));
  std::printf("%s.secret (keep it)\n%s.public (give it to peers)\n", name.c_str(), name.c_str());
  return kDone;
}

}  // namespace

void add_keygen(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("keygen", "Make a CURVE key pair for a node or a trainer.");
  auto name = std::make_shared<std::string>();
  command->add_option("NAME", *name, "Writes NAME.secret and NAME.public")->required();
  command->footer(
      "Example:\n  isocost keygen node\n"
      "  isocost serve --data data/shards --bind tcp://0.0.0.0:5800 --curve-key node.secret\n"
      "Give node.public to the trainers. To admit only some of them, list their public keys in a\n"
      "file for --curve-clients.");
  command->callback([name, &run] { run = [name] { return keygen(*name); }; });
}

}  // namespace isocost::cli
