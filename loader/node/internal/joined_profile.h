#pragma once

#include <array>
#include <span>

#include "base/load.h"
#include "base/result.h"
#include "costmodel/layer_profile.h"
#include "costmodel/profile.h"
#include "loader/plan/served_layout.h"

namespace isocost {

/// A receiver's part of a new model profile.
struct ProfilePart {
  const Receiver* receiver = nullptr;
  LayerProfile layers;
};

/// Joins the parts of all receivers of a layout with several stages to a model profile: the seconds
/// of layers become those of the whole module on one rank, as reported seconds do. Replicas of a
/// stage count by their median, and stages by their layers. Modules that nobody measured keep
/// their profile of `present`; those of `needed` must be measured. Seconds outside of the layers,
/// architectures and memory are those of `present`. Pure. Errors: kInvalidArgument, naming the
/// trainers and what to do, if a part lacks a module of its stage or has one of another stage, or
/// if the parts disagree on loads, on backward passes or, by more than a factor of three, on
/// seconds.
Result<CostProfile> join_parts(const CostProfile& present, std::span<const ProfilePart> parts,
                               const std::array<bool, kModules>& needed);

}  // namespace isocost
