#include "loader/report/pipeline_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace isocost {
namespace {

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
constexpr std::string_view kSmall = "font-size=\"10\" fill=\"#555\"";

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text,
                    std::string_view style = "") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" +
         std::string(anchor) + "\" " + std::string(style) + ">" + escaped(text) + "</text>\n";
}

std::string box(double x, double y, double width, double height, std::string_view colour) {
  return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) +
         "\" height=\"" + number(height) + "\" fill=\"" + std::string(colour) + "\"/>\n";
}

std::string_view colour_of(bool encoder, PassKind kind) {
  return kColours.at(encoder ? 0 : 1).at(static_cast<std::size_t>(kind));
}

/// What a picture shows of a step: an LLM replica, the encoder replica of the same
/// number (modulo how many there are), and of their stages the first `rows`.
struct View {
  std::vector<std::uint32_t> devices;
  std::uint32_t replica[2] = {0, 0};   // of the LLM, of the encoder
  std::uint32_t replicas[2] = {0, 0};  // how many there are
  std::size_t left_out = 0;            // stages of the two
  bool each_replica = false;           // of one stage
};

View view_of(const PipelinePicture& picture, std::size_t rows) {
  const PipelineReport& report = picture.report;
  View view;
  for (const StageReport& stage : report.stages) {
    std::uint32_t& replicas = view.replicas[stage.encoder ? 1 : 0];
    replicas = std::max(replicas, stage.replica + 1);
  }
  // Ranks that hold the whole model are worth a row each.
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

// "LLM replica 3 (of 0 to 7), encoder replica 1 (of 0 to 1); 10 more stages are not drawn"
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
    note += (note.empty() ? "" : "; ") + std::to_string(view.left_out) + " more " +
            (view.each_replica ? "ranks" : "stages") + " are not drawn";
  }
  return note;
}

// When all replicas have finished a stage.
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

std::string draw_device(const PipelineReport& report, const View& view, std::uint32_t device,
                        double top, double scale) {
  const StageReport& stage = report.stages[device];
  const std::string name = name_of(view, stage);
  std::string out = text_at(kLeft - 8, top + kRow - 5, "end", name);
  out += box(kLeft, top, report.step_s * scale, kRow - 2, kIdle);
  for (const PipelineEvent& event : report.events) {
    if (event.device != device) continue;
    const double x = kLeft + event.start_s * scale;
    const double width = (event.end_s - event.start_s) * scale;
    out += box(x, top, std::max(0.0, width - 0.4), kRow - 2,
               colour_of(stage.encoder, event.pass.kind));
    if (width < kSmallestLabel) continue;
    const bool dark = event.pass.kind != PassKind::kForward;
    out += text_at(x + width / 2, top + kRow - 6, "middle", std::to_string(event.pass.slot),
                   dark ? "fill=\"#fff\" font-size=\"9\"" : "fill=\"#333\" font-size=\"9\"");
  }
  if (stage.reduce_s > 0) {
    out += box(kLeft + all_finish(report, stage) * scale, top, stage.reduce_s * scale, kRow - 2,
               kReduction);
  }
  return out;
}

// 1, 2 or 5 times a power of ten, so that a span has kMostTicks of it at most.
double tick_of(double span) {
  const double least = span / kMostTicks;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

// Lines behind the rows, and times below them.
std::string draw_axis(double top, double bottom, double span) {
  const bool in_ms = span < 1;
  const double unit = in_ms ? 1e3 : 1;
  const double tick = tick_of(span);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(tick * unit))));
  std::string out;
  for (int i = 0; i * tick <= span * (1 + 1e-9); ++i) {
    const double x = kLeft + kWidth * i * tick / span;
    out += "<line x1=\"" + number(x) + "\" y1=\"" + number(top) + "\" x2=\"" + number(x) +
           "\" y2=\"" + number(bottom + 4) + "\" stroke=\"#999\" stroke-width=\"0.5\"/>\n";
    std::array<char, 48> label{};
    std::snprintf(label.data(), label.size(), "%.*f %s", decimals, i * tick * unit,
                  in_ms ? "ms" : "s");
    out += text_at(x, bottom + 16, "middle", label.data(), kSmall);
  }
  return out;
}

struct LegendEntry {
  std::string_view colour;
  std::string label;
};

// What stands in the pictures, and nothing else.
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

std::string draw_legend(const std::vector<LegendEntry>& entries, double top) {
  std::string out;
  double x = kLeft;
  for (const LegendEntry& entry : entries) {
    out += box(x, top, 12, 12, entry.colour);
    out += text_at(x + 17, top + 10, "start", entry.label);
    x += kLegendEntry;
  }
  return out;
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
  std::string body;
  double top = 6;
  for (const PipelinePicture& picture : pictures) {
    if (picture.report.stages.empty()) continue;
    body +=
        text_at(kLeft, top + 16, "start", picture.title, "font-size=\"13\" font-weight=\"bold\"");
    top += kTitle - 6;
    const View view = view_of(picture, rows);
    body += text_at(kLeft, top + kNote - 5, "start", note_of(view), kSmall);
    top += kNote;
    for (const std::uint32_t device : view.devices) {
      body += draw_device(picture.report, view, device, top, scale);
      top += kRow;
    }
    if (scale > 0) {
      body += draw_axis(top - kRow * static_cast<double>(view.devices.size()), top, longest);
    }
    top += kAxis + kGap;
  }
  body += draw_legend(legend_of(pictures), top);
  const std::string width = number(kLeft + kWidth + 30);
  const std::string height = number(top + kLegend);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height +
         "\" viewBox=\"0 0 " + width + " " + height +
         "\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n" +
         box(0, 0, kLeft + kWidth + 30, top + kLegend, "#ffffff") + body + "</svg>\n";
}

}  // namespace isocost
