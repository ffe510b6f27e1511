#pragma once

#include <cstdint>
#include <memory>

#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/tokens/token_file.h"
#include "loader/dataset/tokens/turn_cut.h"

namespace isocost {

/// Opens the tokens of a sample, up to its cut; `cut` is null if it is whole. The source keeps the
/// file mapped. Errors: kCorrupt if the tokens have no such cut.
Result<std::unique_ptr<ByteSource>> open_tokens(std::shared_ptr<const TokenFile> file,
                                                std::uint64_t sample, const TurnCut* cut);

}  // namespace isocost
