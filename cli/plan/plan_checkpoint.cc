#include "cli/plan/plan_checkpoint.h"

#include <filesystem>
#include <ios>
#include <nlohmann/json.hpp>

#include "base/output_file.h"
#include "cli/common/exit_status.h"

namespace isocost::cli {
namespace {

Result<LayoutScore> parse_score(const nlohmann::json& json) {
  LayoutScore score;
  ISOCOST_ASSIGN(score.layout, Layout::parse(json.at("layout").dump()));
  json.at("step_s").get_to(score.step_s);
  json.at("idle_fraction").get_to(score.idle_fraction);
  json.at("work_s").get_to(score.work_s);
  json.at("reduce_s").get_to(score.reduce_s);
  json.at("memory_bytes").get_to(score.memory_bytes);
  json.at("fits").get_to(score.fits);
  return score;
}

std::string line_of(const LayoutRecord& record) {
  const nlohmann::ordered_json line = {{"key", record.key}, {"score", score_json(record.score)}};
  return line.dump() + "\n";
}

}  // namespace

nlohmann::ordered_json score_json(const LayoutScore& score) {
  return {{"layout", nlohmann::ordered_json::parse(score.layout.to_json())},
          {"step_s", score.step_s},
          {"idle_fraction", score.idle_fraction},
          {"work_s", score.work_s},
          {"reduce_s", score.reduce_s},
          {"memory_bytes", score.memory_bytes},
          {"fits", score.fits}};
}

Result<PlanCheckpoint> PlanCheckpoint::open(const std::string& path, const std::string& inputs) {
  PlanCheckpoint checkpoint;
  if (path.empty()) return checkpoint;
  if (std::filesystem::exists(path)) ISOCOST_TRY(as_usage_error(checkpoint.read(path, inputs)));
  // The file is replaced in one piece, which drops an unfinished last line and never loses a score.
  std::string text = nlohmann::json{{"inputs", inputs}}.dump() + "\n";
  for (const auto& [key, score] : checkpoint.known_) text += line_of({key, score});
  ISOCOST_TRY(replace_file(path, text));
  checkpoint.file_.open(path, std::ios::app);
  if (!checkpoint.file_) return Error(ErrorCode::kIo, "cannot write " + path);
  return checkpoint;
}

std::optional<LayoutScore> PlanCheckpoint::recall(std::string_view key) const {
  const auto found = known_.find(std::string(key));
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void PlanCheckpoint::write(const LayoutRecord& record) {
  if (!file_.is_open()) return;
  file_ << line_of(record) << std::flush;
}

Status PlanCheckpoint::read(const std::string& path, const std::string& inputs) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return {};  // an empty file holds no scores yet
  const auto head = nlohmann::json::parse(line, nullptr, false);
  if (!head.is_object() || !head.contains("inputs") || head["inputs"] != inputs) {
    return Error(ErrorCode::kInvalidArgument,
                 path +
                     " belongs to a search with other inputs; remove it or name another file with "
                     "--resume");
  }
  for (std::size_t number = 2; std::getline(file, line); ++number) {
    if (file.eof()) break;  // the line is unfinished, since it has no end
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const Error corrupt(ErrorCode::kCorrupt, path + ": line " + std::to_string(number) +
                                                 " is not a score; remove that line");
    try {
      const auto score = parse_score(json.at("score"));
      if (!score) return corrupt;
      known_[json.at("key").get<std::string>()] = *score;
    } catch (const nlohmann::json::exception&) {
      return corrupt;
    }
  }
  return {};
}

}  // namespace isocost::cli
