// Whatever a node seems to answer: a table of plain ASCII and a JSON document, or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/top_view.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace isocost::cli;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto scrape = read_scrape(text);
  if (!scrape) return 0;
  const auto half = read_scrape(text.substr(0, size / 2));
  const Scrape before = half ? *half : Scrape{};
  const TopView view{"http://127.0.0.1:9464/metrics", *scrape, before};
  for (const char c : top_table(view, 4)) {
    if (c != '\n' && (c < ' ' || c > '~')) std::abort();
  }
  if (!nlohmann::json::accept(top_json(view))) std::abort();
  return 0;
}
