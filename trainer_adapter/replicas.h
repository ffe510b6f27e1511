#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>

#include "base/result.h"
#include "trainer_adapter/client.h"

namespace isocost {

/// A group of processes that need the same microbatches, such as the ranks of a tensor- or
/// context-parallel group.
struct ReplicaGroup {
  std::size_t rank = 0;  ///< Rank of this process within the group.
  /// Copies `bytes` of the group's rank 0, which must not write to them, into those of every other
  /// member: a collective call (MPI_Bcast, c10d's broadcast) with a time-out of its own. Called on
  /// the thread that calls the client.
  std::function<Status(std::span<std::byte> bytes)> broadcast;
};

/// Joins the node as one member of such a group. Rank 0 receives microbatches from the node and
/// broadcasts them, so they cross the wire once. All members must make the same calls of
/// `connect_replica` and `next`. An error of rank 0 is returned to all members. An error elsewhere
/// (a broadcast, memory) leaves the others to the broadcast's time-out. After an error `next` fails
/// permanently: join again from a saved state. Reports and profiles of rank 0 are sent; those of
/// other members are dropped. On other members a stop token does not end a wait, and `wait` returns
/// at once. Options and errors: those of Client, and of `broadcast`.
Result<std::unique_ptr<Client>> connect_replica(const ClientOptions& options, ReplicaGroup group,
                                                const std::stop_token& stop = {});

}  // namespace isocost
