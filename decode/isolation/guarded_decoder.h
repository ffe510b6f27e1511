#pragma once

#include <memory>

#include "decode/isolation/isolated_decoder.h"
#include "decode/sample_decoder.h"

namespace isocost {

/// Decodes on the calling thread, except for samples with a part that needs_worker: these are
/// decoded in worker processes, as by make_isolated_decoder. The first worker starts by
/// `start_for`, or when the first such sample comes. Errors of its calls: also kUnavailable if
/// no worker starts, which names the program.
std::unique_ptr<SampleDecoder> make_guarded_decoder(const Recipe& recipe,
                                                    const IsolationOptions& options);

}  // namespace isocost
