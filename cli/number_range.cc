#include "cli/number_range.h"

#include <cstdlib>
#include <sstream>
#include <string>

namespace isocost::cli {

CLI::Validator number_range(double least, double most) {
  std::ostringstream range;
  range << "number from " << least << " to " << most;
  return {[least, most, text = range.str()](const std::string& given) -> std::string {
            char* end = nullptr;
            const double number = std::strtod(given.c_str(), &end);
            const bool whole = end != given.c_str() && *end == '\0';
            if (whole && number >= least && number <= most) return {};
            return "'" + given + "' is no " + text;
          },
          ""};
}

}  // namespace isocost::cli
