#include "loader/dataset/data_source.h"

#include <utility>

#include "loader/dataset/names/data_text.h"

namespace isocost {

DataSources DataSources::of_text(std::string text, ReadingOptions reading) {
  DataSources data{shown_data(text), {}};
  data.sources.push_back(
      {.name = "", .data = std::move(text), .base = {}, .reading = std::move(reading)});
  return data;
}

}  // namespace isocost
