#include "loader/report/html_page.h"

#include "loader/report/internal/svg.h"

namespace isocost {
namespace {

constexpr std::string_view kBeforeTitle =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>";

constexpr std::string_view kAfterTitle = R"(</title><style>
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1040px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em; margin-bottom: 0 } h2 { font-size: 1.1em; margin: 1.6em 0 .4em }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 1em 0 }
.tile { background: #f3f5f7; border-radius: 6px; padding: 10px 16px; min-width: 150px }
.tile b { display: block; font-size: 1.5em } .tile span, p, figcaption { color: #555 }
.plots { display: flex; flex-wrap: wrap; gap: 24px } figure { margin: 0 }
figcaption { font-size: .9em; max-width: 480px }
table { border-collapse: collapse; width: 100% } td, th { text-align: right; padding: 3px 8px; border-bottom: 1px solid #e4e7ea }
td { white-space: nowrap } .text { white-space: normal }
td:first-child, th:first-child, .text { text-align: left } .text { overflow-wrap: anywhere }
</style></head><body>
)";

}  // namespace

std::string html_head(std::string_view title) {
  return std::string(kBeforeTitle) + html_text(title) + std::string(kAfterTitle);
}

std::string html_end() { return "</body></html>\n"; }

std::string html_tile(std::string_view value, std::string_view text) {
  return "<div class=\"tile\"><b>" + html_text(value) + "</b><span>" + html_text(text) +
         "</span></div>";
}

std::string html_row(const std::vector<std::string>& cells, const char* tag, std::size_t texts) {
  std::string out = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += std::string("<") + tag + (i < texts ? " class=\"text\">" : ">") + html_text(cells[i]) +
           "</" + tag + ">";
  }
  return out + "</tr>\n";
}

std::string html_text(std::string_view text) { return report::escaped(text); }

}  // namespace isocost
