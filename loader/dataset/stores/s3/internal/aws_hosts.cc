#include "loader/dataset/stores/s3/internal/aws_hosts.h"

#include <algorithm>
#include <array>

namespace isocost {
namespace {

struct Partition {
  std::string_view regions;  ///< How its regions' names begin.
  std::string_view domain;
};

// From botocore's partitions.json. The first whose regions fit counts; the last fits all.
constexpr std::array kPartitions{
    Partition{"cn-", "amazonaws.com.cn"},    Partition{"eusc-", "amazonaws.eu"},
    Partition{"us-iso-", "c2s.ic.gov"},      Partition{"us-isob-", "sc2s.sgov.gov"},
    Partition{"eu-isoe-", "cloud.adc-e.uk"}, Partition{"us-isof-", "csp.hci.ic.gov"},
    Partition{"", "amazonaws.com"},
};

const Partition& partition_of(std::string_view region) {
  return *std::ranges::find_if(kPartitions, [&](const Partition& partition) {
    return region.starts_with(partition.regions);
  });
}

}  // namespace

bool is_region(std::string_view text) {
  return !text.empty() && text.size() <= 63 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::string_view aws_domain(std::string_view region) { return partition_of(region).domain; }

}  // namespace isocost
