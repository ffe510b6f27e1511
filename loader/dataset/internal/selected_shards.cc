#include "loader/dataset/internal/selected_shards.h"

#include <iterator>
#include <utility>

namespace isocost {
namespace {

template <typename T>
void append_to(std::vector<T>& all, std::vector<T>&& more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

void SelectedShards::resize(std::size_t shards) {
  rows.resize(shards);
  selections.resize(shards);
  bad.resize(shards);
  held.resize(shards);
}

void SelectedShards::append(SelectedShards&& more) {
  append_to(rows, std::move(more.rows));
  append_to(selections, std::move(more.selections));
  append_to(bad, std::move(more.bad));
  append_to(held, std::move(more.held));
}

}  // namespace isocost
