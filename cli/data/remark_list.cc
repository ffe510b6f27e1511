#include "cli/data/remark_list.h"

namespace isocost::cli {

nlohmann::ordered_json remarks_json(const std::vector<Remark>& remarks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Remark& remark : remarks) {
    nlohmann::ordered_json entry = {{"kind", remark.kind}, {"name", remark.name}};
    if (!remark.detail.empty()) entry["detail"] = remark.detail;
    entry["count"] = remark.count;
    if (remark.of > 0) entry["of"] = remark.of;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace isocost::cli
