#include "base/thread_name.h"
#include "cli/service/commands.h"
#include "decode/isolation/isolated_decoder.h"

namespace isocost::cli {
namespace {

struct NoArguments {
  void add_to(CLI::App& command) { command.group(""); }  // hidden from --help
};

Result<int> decode_worker(const NoArguments&) {
  name_thread("isocost-decode");  // names the process, which is started through a link
  const int status = run_decode_worker();
  if (status == 0) return status;
  return Error(ErrorCode::kInvalidArgument,
               "decode-worker is started by isocost serve and isocost check, not by hand");
}

}  // namespace

void add_decode_worker(CLI::App& app, Run& run) {
  add_command<NoArguments>(app, run,
                           {.name = "decode-worker",
                            .description = "Decode samples for the process that started this one.",
                            .footer = ""},
                           decode_worker);
}

}  // namespace isocost::cli
