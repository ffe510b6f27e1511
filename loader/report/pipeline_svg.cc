#include "loader/report/pipeline_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "loader/report/internal/svg.h"

namespace isocost {
namespace {

using report::Anchor;
using report::SvgWriter;
using report::TextStyle;

constexpr double kLeft = 110;
constexpr double kWidth = 1080;
constexpr double kRow = 18;
constexpr double kTitle = 30;
constexpr double kNote = 16;
constexpr double kGap = 14;
constexpr double kAxis = 34;
constexpr double kLegend = 34;
constexpr double kLegendEntry = 128;
constexpr double kMostTicks = 10;
constexpr double kSmallestLabel = 15;

// Encoder, then LLM: forward, backward, weights.
constexpr std::array<std::array<std::string_view, 3>, 2> kColours = {
    {{"#a6d9c4", "#3f9f7f", "#1f6a54"}, {"#b3cdee", "#4d7fc0", "#2c4f86"}}};

constexpr std::string_view kIdle = "#eeeeee";
constexpr std::string_view kReduction = "#e0a030";
constexpr TextStyle kSmall = {.size = 10, .colour = report::kQuietTextColour};
constexpr TextStyle kSmallCentred = {
    .anchor = Anchor::kMiddle, .size = 10, .colour = report::kQuietTextColour};
constexpr TextStyle kName = {.anchor = Anchor::kEnd};
constexpr TextStyle kHeading = {.size = 13, .bold = true};

std::string_view colour_of(bool encoder, PassKind kind) {
  return kColours.at(encoder ? 0 : 1).at(static_cast<std::size_t>(kind));
}

// The part of a step that a picture shows: the first stages of one LLM replica and of the encoder
// replica with the same number (modulo the number of encoder replicas).
struct View {
  std::vector<std::uint32_t> devices;
  std::uint32_t replica[2] = {0, 0};   // numbers of the LLM's and the encoder's
  std::uint32_t replicas[2] = {0, 0};  // numbers of replicas of LLM and encoder
  std::size_t left_out = 0;            // number of stages of the two that are not shown
  bool each_replica = false;           // whether every replica is one stage, and all are shown
};

View view_of(const PipelinePicture& picture, std::size_t rows) {
  const PipelineReport& report = picture.report;
  View view;
  for (const StageReport& stage : report.stages) {
    std::uint32_t& replicas = view.replicas[stage.encoder ? 1 : 0];
    replicas = std::max(replicas, stage.replica + 1);
  }
  // Ranks that hold the whole model get a row each.
  view.each_replica = report.stages.size() == view.replicas[0];
  view.replica[0] = picture.llm_replica.value_or(last_llm_replica(report));
  view.replica[1] = view.replicas[1] > 0 ? view.replica[0] % view.replicas[1] : 0;
  for (std::uint32_t d = 0; d < report.stages.size(); ++d) {
    const StageReport& stage = report.stages[d];
    if (!view.each_replica && stage.replica != view.replica[stage.encoder ? 1 : 0]) continue;
    if (view.devices.size() < rows) {
      view.devices.push_back(d);
    } else {
      ++view.left_out;
    }
  }
  return view;
}

// Returns text like "LLM replica 3 (of 0 to 7), encoder replica 1 (of 0 to 1); 10 more stages not
// drawn".
std::string note_of(const View& view) {
  std::string note;
  for (const bool encoder : {false, true}) {
    const std::uint32_t replicas = view.replicas[encoder ? 1 : 0];
    if (replicas == 0 || view.each_replica) continue;
    note += encoder ? ", encoder replica " : "LLM replica ";
    note += std::to_string(view.replica[encoder ? 1 : 0]) + " (of 0 to " +
            std::to_string(replicas - 1) + ")";
  }
  if (view.left_out > 0) {
    note += (note.empty() ? "" : "; ") +
            counted(view.left_out, view.each_replica ? "more rank" : "more stage") + " not drawn";
  }
  return note;
}

// Returns when the last replica finishes this stage.
double all_finish(const PipelineReport& report, const StageReport& stage) {
  double finish = 0;
  for (const StageReport& other : report.stages) {
    if (other.encoder == stage.encoder && other.stage == stage.stage) {
      finish = std::max(finish, other.finish_s);
    }
  }
  return finish;
}

std::string name_of(const View& view, const StageReport& stage) {
  if (view.each_replica) return "rank " + std::to_string(stage.replica);
  return (stage.encoder ? "encoder " : "LLM ") + std::to_string(stage.stage);
}

void draw_device(const PipelineReport& report, const View& view, std::uint32_t device, double top,
                 double scale, SvgWriter& svg) {
  const StageReport& stage = report.stages[device];
  svg.text({kLeft - 8, top + kRow - 5}, name_of(view, stage), kName);
  svg.box({kLeft, top, report.step_s * scale, kRow - 2}, kIdle);
  for (const PipelineEvent& event : report.events) {
    if (event.device != device) continue;
    const double x = kLeft + event.start_s * scale;
    const double width = (event.end_s - event.start_s) * scale;
    svg.box({x, top, std::max(0.0, width - 0.4), kRow - 2},
            colour_of(stage.encoder, event.pass.kind));
    if (width < kSmallestLabel) continue;
    const bool dark = event.pass.kind != PassKind::kForward;
    svg.text({x + width / 2, top + kRow - 6}, std::to_string(event.pass.slot),
             {.anchor = Anchor::kMiddle, .size = 9, .colour = dark ? "#ffffff" : "#333333"});
  }
  if (stage.reduce_s > 0) {
    svg.box({kLeft + all_finish(report, stage) * scale, top, stage.reduce_s * scale, kRow - 2},
            kReduction);
  }
}

// Returns 1, 2 or 5 times a power of ten, so that a span has at most kMostTicks of it.
double tick_of(double span) {
  const double least = span / kMostTicks;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

// Draws a line across the rows at each tick, and its time below them.
void draw_axis(double top, double bottom, double span, SvgWriter& svg) {
  const bool in_ms = span < 1;
  const double unit = in_ms ? 1e3 : 1;
  const double tick = tick_of(span);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(tick * unit))));
  for (int i = 0; i * tick <= span * (1 + 1e-9); ++i) {
    const double x = kLeft + kWidth * i * tick / span;
    svg.line({x, top}, {x, bottom + 4}, report::kLineColour, 0.5);
    svg.text({x, bottom + 16},
             fmt::format("{:.{}f} {}", i * tick * unit, decimals, in_ms ? "ms" : "s"),
             kSmallCentred);
  }
}

struct LegendEntry {
  std::string_view colour;
  std::string label;
};

// Returns one entry for each colour that the pictures use.
std::vector<LegendEntry> legend_of(const std::vector<PipelinePicture>& pictures) {
  bool runs[2][3] = {};  // [encoder][kind]
  bool reduces = false;
  for (const PipelinePicture& picture : pictures) {
    const auto& stages = picture.report.stages;
    for (const PipelineEvent& event : picture.report.events) {
      runs[stages[event.device].encoder ? 1 : 0][static_cast<std::size_t>(event.pass.kind)] = true;
    }
    reduces = reduces || std::any_of(stages.begin(), stages.end(),
                                     [](const StageReport& stage) { return stage.reduce_s > 0; });
  }
  constexpr std::array<std::string_view, 3> kKinds = {"forward", "backward", "weights"};
  std::vector<LegendEntry> entries;
  for (const bool encoder : {true, false}) {
    for (std::size_t k = 0; k < kKinds.size(); ++k) {
      if (!runs[encoder ? 1 : 0][k]) continue;
      entries.push_back({colour_of(encoder, static_cast<PassKind>(k)),
                         (encoder ? "encoder " : "LLM ") + std::string(kKinds.at(k))});
    }
  }
  if (reduces) entries.push_back({kReduction, "gradient reduction"});
  entries.push_back({kIdle, "idle"});
  return entries;
}

void draw_legend(const std::vector<LegendEntry>& entries, double top, SvgWriter& svg) {
  double x = kLeft;
  for (const LegendEntry& entry : entries) {
    svg.box({x, top, 12, 12}, entry.colour);
    svg.text({x + 17, top + 10}, entry.label);
    x += kLegendEntry;
  }
}

}  // namespace

std::uint32_t last_llm_replica(const PipelineReport& report) {
  const auto sooner = [](const StageReport& a, const StageReport& b) {
    return std::pair(!a.encoder, a.finish_s) < std::pair(!b.encoder, b.finish_s);
  };
  return std::max_element(report.stages.begin(), report.stages.end(), sooner)->replica;
}

std::string draw_pipelines(const std::vector<PipelinePicture>& pictures, std::size_t rows) {
  double longest = 0;
  for (const PipelinePicture& picture : pictures) {
    longest = std::max(longest, picture.report.step_s);
  }
  const double scale = longest > 0 ? kWidth / longest : 0;
  SvgWriter svg;
  double top = 6;
  for (const PipelinePicture& picture : pictures) {
    if (picture.report.stages.empty()) continue;
    svg.text({kLeft, top + 16}, picture.title, kHeading);
    top += kTitle - 6;
    const View view = view_of(picture, rows);
    svg.text({kLeft, top + kNote - 5}, note_of(view), kSmall);
    top += kNote;
    for (const std::uint32_t device : view.devices) {
      draw_device(picture.report, view, device, top, scale, svg);
      top += kRow;
    }
    if (scale > 0) {
      draw_axis(top - kRow * static_cast<double>(view.devices.size()), top, longest, svg);
    }
    top += kAxis + kGap;
  }
  const auto is_empty = [](const PipelinePicture& picture) {
    return picture.report.stages.empty();
  };
  if (std::all_of(pictures.begin(), pictures.end(), is_empty)) {
    svg.text({kLeft, top + 16}, "There is nothing to draw.");
  } else {
    draw_legend(legend_of(pictures), top, svg);
  }
  return svg.file(kLeft + kWidth + 30, top + kLegend);
}

}  // namespace isocost
