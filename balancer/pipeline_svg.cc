#include "balancer/pipeline_svg.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace isocost {
namespace {

constexpr double kLeft = 110;
constexpr double kWidth = 1080;
constexpr double kRow = 18;
constexpr double kTitle = 30;
constexpr double kGap = 14;
constexpr double kLegend = 34;
constexpr double kSmallestLabel = 15;

// Encoder, then LLM: forward, backward, weights.
constexpr std::array<std::array<std::string_view, 3>, 2> kColours = {
    {{"#a6d9c4", "#3f9f7f", "#1f6a54"}, {"#b3cdee", "#4d7fc0", "#2c4f86"}}};

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

// Devices to show: the encoder replica with the number of the last LLM replica (or the last one
// there is), then that LLM replica.
std::vector<std::uint32_t> shown_devices(const PipelineReport& report, std::size_t rows) {
  const auto last = std::max_element(
      report.stages.begin(), report.stages.end(), [](const StageReport& a, const StageReport& b) {
        return std::pair(!a.encoder, a.finish_s) < std::pair(!b.encoder, b.finish_s);
      });
  std::uint32_t encoders = 0;
  for (const StageReport& stage : report.stages) {
    if (stage.encoder) encoders = std::max(encoders, stage.replica + 1);
  }
  std::vector<std::uint32_t> devices;
  for (std::uint32_t d = 0; d < report.stages.size() && devices.size() < rows; ++d) {
    const StageReport& stage = report.stages[d];
    const std::uint32_t wanted = stage.encoder ? last->replica % encoders : last->replica;
    if (stage.replica == wanted) devices.push_back(d);
  }
  return devices;
}

std::string draw_device(const PipelineReport& report, std::uint32_t device, double top,
                        double scale) {
  const StageReport& stage = report.stages[device];
  const std::string name = (stage.encoder ? "encoder " : "LLM ") + std::to_string(stage.stage);
  std::string out = text_at(kLeft - 8, top + kRow - 5, "end", name);
  out += box(kLeft, top, report.step_s * scale, kRow - 2, "#eeeeee");
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
  return out;
}

std::string draw_legend(double top) {
  constexpr std::array<std::string_view, 3> kKinds = {"forward", "backward", "weights"};
  std::string out;
  double x = kLeft;
  for (const bool encoder : {true, false}) {
    for (std::size_t k = 0; k < kKinds.size(); ++k) {
      out += box(x, top, 12, 12, colour_of(encoder, static_cast<PassKind>(k)));
      const std::string label = (encoder ? "encoder " : "LLM ") + std::string(kKinds.at(k));
      out += text_at(x + 17, top + 10, "start", label);
      x += 130;
    }
  }
  out += box(x, top, 12, 12, "#eeeeee");
  return out + text_at(x + 17, top + 10, "start", "idle");
}

}  // namespace

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
    for (const std::uint32_t device : shown_devices(picture.report, rows)) {
      body += draw_device(picture.report, device, top, scale);
      top += kRow;
    }
    top += kGap;
  }
  body += draw_legend(top);
  const std::string width = number(kLeft + kWidth + 20);
  const std::string height = number(top + kLegend);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height +
         "\" viewBox=\"0 0 " + width + " " + height +
         "\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n" +
         box(0, 0, kLeft + kWidth + 20, top + kLegend, "#ffffff") + body + "</svg>\n";
}

}  // namespace isocost
