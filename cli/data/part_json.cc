#include "cli/data/part_json.h"

namespace isocost::cli {

nlohmann::ordered_json part_json(const std::string& name, const PartShape& shape) {
  nlohmann::ordered_json json = {{"name", name},
                                 {"modality", modality_name(shape.modality)},
                                 {"format", format_name(shape.format)},
                                 {"bytes", shape.encoded_bytes}};
  switch (shape.modality) {
    case Modality::kText:
      json["text_bytes"] = shape.text_bytes;
      break;
    case Modality::kImage:
      json["width"] = shape.width;
      json["height"] = shape.height;
      break;
    case Modality::kVideo:
      json["width"] = shape.width;
      json["height"] = shape.height;
      json["frames"] = shape.frames;
      json["seconds"] = static_cast<double>(shape.duration_us) / 1e6;
      break;
    case Modality::kAudio:
      json["sample_rate"] = shape.sample_rate;
      json["samples"] = shape.frames;
      break;
  }
  return json;
}

}  // namespace isocost::cli
