#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>

#include "base/result.h"
#include "trainer_adapter/client.h"

namespace isocost {

/// Processes that need the same microbatches, as those of a tensor- or context-parallel group do.
struct ReplicaGroup {
  std::size_t rank = 0;  ///< Of this process in the group.
  /// Fills `bytes` with what they are in the group's rank 0, which must not write to them: a
  /// collective call (MPI_Bcast, c10d's broadcast) with a time-out of its own, made by the thread
  /// that calls the client.
  std::function<Status(std::span<std::byte> bytes)> broadcast;
};

/// Joins the node as one member of such a group: rank 0 takes microbatches from the node, and hands
/// them to the others, byte for byte; they cross the wire once. `connect_replica` and `next` are to
/// be called by all members alike. What fails for rank 0 fails for all, with its reason; what fails
/// elsewhere (a broadcast, memory) leaves the others to the broadcast's time-out. After a failure
/// `next` fails for good: join again, from a saved state. Reports and profiles count where rank 0
/// sends them, and are dropped elsewhere. A member that is not rank 0 cannot be stopped while it
/// waits, and its `wait` returns at once. Options and errors: those of Client, and of `broadcast`.
Result<std::unique_ptr<Client>> connect_replica(const ClientOptions& options, ReplicaGroup group,
                                                const std::stop_token& stop = {});

}  // namespace isocost
