#pragma once

#include <utility>
#include <vector>

#include "costmodel/profile.h"

namespace isocost {

/// Adds the members of a measured module in a profile file, without its architecture, to an object
/// of keys and values: JSON, or a dictionary of Python. Only this file names the keys, and it needs
/// no library. `Values` names the types `Object` and `List`, and has `append(List&, Object)`.
template <typename Values>
class MeasuredModule {
 public:
  using Object = typename Values::Object;
  using List = typename Values::List;

  static void add(const std::vector<ProfilePoint>& points, const std::vector<ProfileCut>& cuts,
                  const ModuleLoad& out_of_memory, Object& object) {
    object["points"] = points_of(points);
    if (!cuts.empty()) object["cuts"] = cuts_of(cuts);
    if (!(out_of_memory == ModuleLoad{})) object["out_of_memory"] = load_of(out_of_memory);
  }

 private:
  static Object load_of(const ModuleLoad& load) {
    Object object = Values::object();
    object["sequences"] = load.sequences;
    object["units"] = load.units;
    object["units_squared"] = load.units_squared;
    return object;
  }

  static List points_of(const std::vector<ProfilePoint>& points) {
    List list = Values::list();
    for (const ProfilePoint& point : points) {
      Object object = load_of(point.load);
      object["forward_s"] = point.forward_s;
      object["backward_s"] = point.backward_s;
      object["spread"] = point.spread;
      object["peak_bytes"] = point.peak_bytes;
      Values::append(list, std::move(object));
    }
    return list;
  }

  static List cuts_of(const std::vector<ProfileCut>& cuts) {
    List list = Values::list();
    for (const ProfileCut& cut : cuts) {
      Object object = Values::object();
      object["tensor"] = cut.tensor;
      if (cut.layers > 0) object["layers"] = cut.layers;
      object["points"] = points_of(cut.points);
      Values::append(list, std::move(object));
    }
    return list;
  }
};

}  // namespace isocost
