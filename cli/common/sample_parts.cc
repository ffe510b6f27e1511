#include "cli/common/sample_parts.h"

#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/utf8.h"

namespace isocost::cli {

std::string size_text(const PartShape& shape) {
  constexpr double kMicroseconds = 1e6;
  char text[64] = "";
  switch (shape.modality) {
    case Modality::kText:
      break;
    case Modality::kImage:
      std::snprintf(text, sizeof text, "%dx%d", shape.width, shape.height);
      break;
    case Modality::kVideo:
      std::snprintf(text, sizeof text, "%dx%d, %.1f s", shape.width, shape.height,
                    static_cast<double>(shape.duration_us) / kMicroseconds);
      break;
    case Modality::kAudio:
      if (shape.sample_rate <= 0) break;
      std::snprintf(text, sizeof text, "%.1f s",
                    static_cast<double>(shape.frames) / shape.sample_rate);
      break;
  }
  return text;
}

std::string made_text(const PartExplanation& part) {
  const SamplePart& made = part.made;
  const std::string grid =
      std::to_string(made.columns) + "x" + std::to_string(made.rows) + " patches";
  switch (made.modality) {
    case Modality::kText:
      return counted(part.load.label_tokens, "label token");
    case Modality::kImage:
      return made.frames > 1 ? counted(made.frames, "tile") + " of " + grid : grid;
    case Modality::kVideo:
      return counted(made.frames, "frame") + " of " + grid;
    case Modality::kAudio:
      return counted(made.frames, "log-mel frame");
  }
  return {};
}

namespace {

void print_row(const std::string& name, const std::string& size, const std::string& made,
               std::int64_t tokens) {
  std::printf("%-16s %-18s %-28s %9lld\n", name.c_str(), size.c_str(), made.c_str(),
              static_cast<long long>(tokens));
}

}  // namespace

std::int64_t SampleExplanation::other_tokens() const {
  std::int64_t tokens = load[CostModule::kLlm].units;
  for (const PartExplanation& part : parts) tokens -= part.load[CostModule::kLlm].units;
  return tokens;
}

Result<SampleExplanation> explain_sample(const Recipe& recipe, const Dataset& dataset,
                                         SampleId id) {
  SampleExplanation sample{.key = printable_utf8(dataset.key(id)),
                           .shard = std::string(dataset.shard(id)),
                           .load = {},
                           .parts = {}};
  ISOCOST_ASSIGN(const SampleShape shape, dataset.checked_shape(id));
  ISOCOST_ASSIGN(sample.load, recipe.load(shape));
  ISOCOST_ASSIGN(const std::vector<SamplePart> made, recipe.parts(shape));
  ISOCOST_ASSIGN(const std::vector<Load> loads, recipe.part_loads(shape));
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    sample.parts.push_back({.name = dataset.part_name(id, i),
                            .shape = shape.parts[i],
                            .made = made[i],
                            .load = loads[i]});
  }
  return sample;
}

nlohmann::ordered_json to_json(const SampleExplanation& sample) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const PartExplanation& part : sample.parts) {
    nlohmann::ordered_json json = {{"name", part.name},
                                   {"modality", modality_name(part.shape.modality)},
                                   {"tokens", part.load[CostModule::kLlm].units},
                                   {"label_tokens", part.load.label_tokens}};
    if (part.shape.width > 0) {
      json["width"] = part.shape.width;
      json["height"] = part.shape.height;
      json["rows"] = part.made.rows;
      json["columns"] = part.made.columns;
    }
    if (part.shape.modality != Modality::kText) json["frames"] = part.made.frames;
    for (const CostModule module : {CostModule::kVision, CostModule::kAudio}) {
      const ModuleLoad& own = part.load[module];
      if (own.units == 0) continue;
      json[std::string(module_name(module))] = {{"sequences", own.sequences}, {"units", own.units}};
    }
    parts.push_back(std::move(json));
  }
  return {{"key", sample.key},
          {"shard", sample.shard},
          {"tokens", sample.load[CostModule::kLlm].units},
          {"label_tokens", sample.load.label_tokens},
          {"other_tokens", sample.other_tokens()},
          {"parts", parts}};
}

void print_parts(const SampleExplanation& sample) {
  std::printf("sample %s/%s\n%-16s %-18s %-28s %9s\n", sample.shard.c_str(), sample.key.c_str(),
              "part", "size", "becomes", "tokens");
  for (const PartExplanation& part : sample.parts) {
    print_row(part.name, size_text(part.shape), made_text(part), part.load[CostModule::kLlm].units);
  }
  if (sample.other_tokens() > 0) print_row("begin and end", "", "", sample.other_tokens());
  print_row("sample", "", counted(sample.load.label_tokens, "label token"),
            sample.load[CostModule::kLlm].units);
  std::printf("\n");
}

}  // namespace isocost::cli
