#pragma once

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Rows of encoder output, by module; undefined where a microbatch has none. A row is one LLM
/// token.
using EncoderRows = std::array<torch::Tensor, kModules>;

/// A sample's rows in a message.
struct RowRange {
  CostModule module = CostModule::kVision;
  std::int64_t first = 0;  ///< Index in this side's packed rows.
  std::int64_t count = 0;
};

/// All rows that one LLM microbatch reads from one encoder microbatch. They travel in one message
/// forward, and their gradients in one message backward.
struct Exchange {
  std::uint32_t replica = 0;     ///< Replica of the other side.
  std::uint32_t microbatch = 0;  ///< Microbatch of that replica.
  std::vector<RowRange> ranges;  ///< In the order of the message, the same on both sides.
  std::int64_t rows = 0;
};

enum class Side : std::uint8_t { kEncoder, kLlm };

/// Returns the messages of a microbatch's routing table. Errors: kCorrupt for a route that splits a
/// token of the model, which is made of 4 patches or 2 audio positions.
Result<std::vector<Exchange>> exchanges_of(const MicrobatchHeader& header, Side side);

/// Returns the ranges of an exchange, one after another: [rows, width].
torch::Tensor gather(const Exchange& exchange, const EncoderRows& rows);
/// The inverse of `gather`: copies the message to its ranges in `rows`.
void scatter(const Exchange& exchange, const torch::Tensor& message, EncoderRows& rows);

/// Returns zeros for all rows that occur in the exchanges.
EncoderRows empty_rows(const std::vector<Exchange>& exchanges, std::int64_t width,
                       torch::Dtype dtype);

}  // namespace isocost
