#include "loader/plan/epoch_order.h"

#include "loader/plan/permutation.h"

namespace isocost {

void EpochOrder::append(std::vector<SampleId>& ids, SampleId first, std::uint64_t epoch,
                        std::uint64_t begin, std::uint64_t count) const {
  switch (shuffle_) {
    case ShufflePolicy::kOff:
      for (std::uint64_t i = begin; i < begin + count; ++i) ids.push_back(first + i);
      return;
    case ShufflePolicy::kGlobal: {
      const Permutation order(seed_, epoch, size_);
      for (std::uint64_t i = begin; i < begin + count; ++i) ids.push_back(first + order.at(i));
      return;
    }
    case ShufflePolicy::kBlocks:
      blocks_->append(ids, first, seed_, epoch, begin, count);
      return;
  }
}

}  // namespace isocost
