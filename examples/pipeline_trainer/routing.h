#pragma once

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "transport/messages.h"

namespace isocost {

/// Rows of encoder output, by module; undefined where a microbatch has none. A row is one LLM
/// token.
using EncoderRows = std::array<torch::Tensor, kModules>;

/// A sample's rows in a message.
struct RowRange {
  Module module = Module::kVision;
  std::int64_t first = 0;  ///< In this side's packed rows.
  std::int64_t count = 0;
};

/// All rows that one encoder microbatch has for one LLM microbatch: one message forth, and one back
/// with their gradients.
struct Exchange {
  std::uint32_t replica = 0;     ///< Of the other side ...
  std::uint32_t microbatch = 0;  ///< ... and its microbatch.
  std::vector<RowRange> ranges;  ///< In the message's order: both sides have the same.
  std::int64_t rows = 0;
};

enum class Side : std::uint8_t { kEncoder, kLlm };

/// Reads a microbatch's routing table. Errors: kCorrupt where a route cuts a token of the model:
/// units come in groups of 4 patches or 2 audio positions.
Result<std::vector<Exchange>> exchanges_of(const MicrobatchHeader& header, Side side);

/// [rows, width]: the ranges of an exchange, one after another.
torch::Tensor gather(const Exchange& exchange, const EncoderRows& rows);
/// The inverse.
void scatter(const Exchange& exchange, const torch::Tensor& message, EncoderRows& rows);

/// Zeros for all rows that the exchanges have a place for.
EncoderRows empty_rows(const std::vector<Exchange>& exchanges, std::int64_t width,
                       torch::Dtype dtype);

}  // namespace isocost
