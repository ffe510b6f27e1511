#include "balancer/layout/layout_receiver.h"

#include <cstddef>
#include <string>

#include "balancer/layout/layout.h"
#include "balancer/layout/place.h"

namespace isocost {

Result<std::uint64_t> layout_fingerprint(const std::filesystem::path& file) {
  ISOCOST_ASSIGN(const Layout layout, Layout::load(file));
  return layout.fingerprint();
}

Result<LayoutReceiver> layout_receiver(const std::filesystem::path& file, std::int64_t rank) {
  ISOCOST_ASSIGN(const Layout layout, Layout::load(file));
  if (rank < 0) {
    return Error(ErrorCode::kInvalidArgument, "rank is " + std::to_string(rank) + "; 0 to " +
                                                  std::to_string(layout.ranks() - 1) + " are in " +
                                                  file.string());
  }
  ISOCOST_ASSIGN(const Place place, place_of(layout, static_cast<std::size_t>(rank)));
  ISOCOST_ASSIGN(const std::size_t receiver, receiver_of(layout, place));
  return LayoutReceiver{.layout = layout.fingerprint(),
                        .rank = static_cast<std::int32_t>(receiver),
                        .world_size = static_cast<std::int32_t>(receivers(layout))};
}

}  // namespace isocost
