// Processes of different users share no memory: neither end believes the other. Exits with 77 if
// it may not become another user.

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "base/memory_budget.h"
#include "base/units.h"
#include "tests/support/reserve_from.h"
#include "transport/shared_memory/block_receiver.h"
#include "transport/shared_memory/block_sender.h"
#include "transport/wire/wire.h"

namespace {

constexpr uid_t kNobody = 65534;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "other_user_test: %s\n", what);
  std::exit(1);
}

// Shows a token without asking who listens; the socket stays open.
bool attach_blindly(const isocost::SharedMemoryOffer& offer) {
  const int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(&address.sun_path[1], offer.socket.data(),
              std::min(offer.socket.size(), sizeof(address.sun_path) - 1));
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + offer.socket.size());
  const auto packet = encode(isocost::AttachMemory{offer.token});
  return connect(client, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
         send(client, packet.data(), packet.size(), MSG_NOSIGNAL) == std::ssize(packet);
}

// Returns 0 if all is as it should be.
int be_another_user(const isocost::SharedMemoryOffer& offer) {
  if (setuid(kNobody) != 0) return 1;
  if (isocost::BlockReceiver::attach(offer).has_value()) return 2;
  return attach_blindly(offer) ? 0 : 3;
}

}  // namespace

int main() {
  if (geteuid() != 0) {
    std::puts("other_user_test: only root may become another user");
    return 77;
  }
  isocost::MemoryBudget budget(isocost::kMiB);
  const auto name_of = [](std::int32_t rank) { return std::to_string(rank); };
  const auto sender = isocost::BlockSender::create(reserve_from(budget), name_of, {}).value();
  const isocost::SharedMemoryOffer offer = sender->offer(0, 1);
  const pid_t child = fork();
  if (child == 0) _exit(be_another_user(offer));
  int status = -1;
  expect(waitpid(child, &status, 0) == child && WIFEXITED(status), "the other user's process");
  expect(WEXITSTATUS(status) != 2, "a client accepts a node of another user");
  expect(WEXITSTATUS(status) == 0, "the other user cannot reach the socket");
  sender->serve();
  isocost::MicrobatchHeader header;
  header.samples = {{1, 1.0F, 1}};
  header.tensors = {{"vision.patches", isocost::DType::kUInt8, {1, 8}}};
  header.rows = {1};
  expect(!sender->begin(0, header, 1).has_value(), "a node accepts a client of another user");
  const auto own = isocost::BlockReceiver::attach(offer);
  sender->serve();
  expect(sender->begin(0, header, 1).has_value(), "the token is used up");
  return 0;
}
