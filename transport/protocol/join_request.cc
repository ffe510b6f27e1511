#include "transport/protocol/join_request.h"

#include "base/counted.h"

namespace isocost {

std::string client_name(const Hello& hello) {
  return hello.rank == kNoRank ? "a client" : "rank " + std::to_string(hello.rank);
}

std::optional<Refusal> check_rank(const Hello& hello, std::int32_t ranks) {
  const std::string client = client_name(hello);
  if (hello.rank < kNoRank || hello.rank >= ranks) {
    return Refusal{
        ErrorCode::kInvalidArgument,
        client + " is out of range: this node serves " +
            (ranks == 1 ? "rank 0 alone" : "ranks 0 to " + std::to_string(ranks - 1)) +
            ". Set world_size to the number of ranks on every rank, and the node's --ranks, where "
            "given, to the same"};
  }
  if (hello.world_size != 0 && hello.world_size != ranks) {
    return Refusal{ErrorCode::kInvalidArgument, client + " expects a world size of " +
                                                    std::to_string(hello.world_size) +
                                                    ", the node serves " + counted(ranks, "rank")};
  }
  return std::nullopt;
}

}  // namespace isocost
