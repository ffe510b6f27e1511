#include "cli/plan/plan_html.h"

#include <fmt/format.h>

#include "cli/common/gib.h"
#include "loader/report/html_page.h"

namespace isocost::cli {
namespace {

std::string layouts_table(const PlanReport& report, const JobModel& job) {
  const std::vector<LayoutScore>& best = report.found.best;
  const double usable = LayoutSearchOptions{}.usable_memory * gib(job.cluster.gpu_memory);
  std::string out = "<h2>The best layouts</h2><table>" +
                    html_row({"", "layout (tensor × pipeline × data)", "why it is slower",
                              "step (seconds)", "idle", "free GiB"},
                             "th", 3);
  for (std::size_t i = 0; i < best.size(); ++i) {
    const LayoutScore& score = best[i];
    out += html_row(
        {std::to_string(i + 1), score.layout.to_string(),
         i == 0 ? "" : why_slower(best.front(), score), fmt::format("{:#.4g}", score.step_s),
         fmt::format("{:.1f} %", 100 * score.idle_fraction),
         fmt::format("{:.1f}", usable - gib(score.memory_bytes))},
        "td", 3);
  }
  return out + "</table>\n";
}

std::string seconds_text(const PlanReport& report) {
  std::string text;
  for (const auto& [what, seconds] : report.took) {
    text += (text.empty() ? "" : ", ") + what + fmt::format(" {:.1f} s", seconds);
  }
  return text;
}

}  // namespace

std::string plan_html(const PlanReport& report, const JobModel& job) {
  const LayoutScore& best = report.found.best.front();
  return html_head("Layout plan") + "<h1>Layout plan</h1><p>" +
         html_text(
             fmt::format("{} GPUs. Simulated; seconds are predicted by the model profile: {}. "
                         "It took: {}.",
                         best.layout.ranks(), job.profile.source, seconds_text(report))) +
         "</p>\n" +
         savings_html(report.savings, report.needs,
                      "The same batches in the best layout, divided by each policy, and a job that "
                      "trains all week. Idle includes the time in which a pipeline fills and "
                      "drains.") +
         layouts_table(report, job) + html_end();
}

}  // namespace isocost::cli
