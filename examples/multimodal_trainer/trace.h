#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "examples/multimodal_trainer/train_step.h"

namespace isocost {

struct StepTimes {
  double start_s = 0;  ///< By the steady clock, which all processes of a host share.
  double end_s = 0;    ///< Time when the weights are updated.
  double data_wait_s = 0;
  double compute_s = 0;
  double cpu_s = 0;  ///< CPU time of the computing thread within compute_s.
  double wait_for_peers_s = 0;
  double reduce_s = 0;
  double loss = 0;  ///< Loss of the global batch.
};

/// Writes what a rank did and when, as JSON lines that examples/demo reads.
class Trace {
 public:
  Trace(const std::string& file, std::int32_t rank) : file_(file), rank_(rank) {}

  bool good() const { return file_.good(); }
  void microbatch(const MicrobatchHeader& header, const MicrobatchResult& result, double start_s,
                  double data_wait_s, double compute_s);
  void step(const Position& position, const StepTimes& times);

 private:
  std::ofstream file_;
  std::int32_t rank_;
};

}  // namespace isocost
