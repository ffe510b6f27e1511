#include "decode/recipe.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/checked.h"
#include "base/fingerprint.h"
#include "base/load.h"
#include "base/result.h"
#include "base/sample_part.h"
#include "decode/prepare/model_files.h"
#include "decode/prepare/recipe_family.h"
#include "decode/prepare/sample_plan.h"
#include "decode/prepare/sample_tensors.h"
#include "decode/recipes/families.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

tl::unexpected<PartError> failed(Error error, std::size_t part) {
  return tl::make_unexpected(PartError{std::move(error), part});
}

// Plans a sample. An error names the part at fault, or part 0.
tl::expected<SamplePlan, PartError> plan(const SampleShape& shape, const RecipeFamily& family) {
  if (shape.parts.empty()) {
    return failed({ErrorCode::kInvalidArgument, "a sample needs at least one part"}, 0);
  }
  SamplePlan plan;
  plan.parts.reserve(shape.parts.size());
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    auto part = family.plan_part(shape, i);
    if (!part) return failed(std::move(part).error(), i);
    auto added = plan.add(*std::move(part));
    if (!added) return failed(std::move(added).error(), i);
  }
  auto whole = family.plan_sample(shape, plan);
  if (!whole) return failed(std::move(whole).error(), 0);
  return plan;
}

Result<SamplePlan> plan_of(const SampleShape& shape, const RecipeFamily& family) {
  auto planned = plan(shape, family);
  if (!planned) return std::move(planned).error().error;
  return *std::move(planned);
}

SamplePart describe(const RecipeFamily& family, const PartShape& shape, const PartPlan& plan) {
  SamplePart part;
  part.modality = shape.modality;
  part.rows = static_cast<std::uint32_t>(plan.grid.rows);
  part.columns = static_cast<std::uint32_t>(plan.grid.columns);
  part.frames = static_cast<std::uint32_t>(plan.images + plan.mel_frames());
  if (shape.modality == Modality::kVideo) {
    part.timestamps_s = family.timestamps_s(shape, plan);
    part.frames = static_cast<std::uint32_t>(part.timestamps_s.size());
  }
  return part;
}

// Converts an error of a model's directory to kInvalidArgument, because the caller's configuration
// names the directory: no peer has another version, and no sample is broken.
Error as_configuration(const Error& error) {
  const bool is_content =
      error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kCorrupt;
  return {is_content ? ErrorCode::kInvalidArgument : error.code(), error.message(), error.where()};
}

Result<Family> of_model(const ModelRecipeOptions& options) {
  ISOCOST_ASSIGN(ModelFiles files, read_model_files(options.directory));
  files.order = options.resize_order;
  files.exactness = options.exactness;
  files.alpha = options.alpha;
  files.truncated = options.truncated;
  files.image_size = options.image_size;
  return read_family(files);
}

}  // namespace

Result<Recipe> Recipe::create(const RecipeOptions& options) {
  if (const auto* native28 = std::get_if<Native28Options>(&options)) {
    ISOCOST_TRY(native28->validate());
    ISOCOST_ASSIGN(Family family, make_native28(*native28));
    return Recipe(std::move(family));
  }
  auto family = of_model(std::get<ModelRecipeOptions>(options));
  if (!family) return as_configuration(family.error());
  return Recipe(*std::move(family));
}

Result<Recipe> Recipe::parse(std::string_view description) {
  const auto json = nlohmann::json::parse(description, nullptr, /*allow_exceptions=*/false);
  const auto name = json.is_object() ? json.find("family") : json.end();
  if (name == json.end() || !name->is_string()) {
    return Error(ErrorCode::kCorrupt, "not the description of a recipe");
  }
  const FamilyEntry* entry = find_family(name->get<std::string>());
  if (entry == nullptr) {
    return Error(ErrorCode::kCorrupt, "the description of a recipe of no known family");
  }
  ISOCOST_ASSIGN(Family family, entry->parse(description));
  return Recipe(std::move(family));
}

Result<Load> Recipe::load(const SampleShape& shape) const {
  ISOCOST_ASSIGN(const SamplePlan sample, plan_of(shape, *family_));
  return sample.load();
}

Result<std::vector<Load>> Recipe::part_loads(const SampleShape& shape) const {
  ISOCOST_ASSIGN(const SamplePlan sample, plan_of(shape, *family_));
  std::vector<Load> loads;
  loads.reserve(sample.parts.size());
  for (const PartPlan& part : sample.parts) loads.push_back(part.load());
  return loads;
}

Result<std::vector<SamplePart>> Recipe::parts(const SampleShape& shape) const {
  ISOCOST_ASSIGN(const SamplePlan sample, plan_of(shape, *family_));
  std::vector<SamplePart> parts;
  parts.reserve(sample.parts.size());
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    parts.push_back(describe(*family_, shape.parts[i], sample.parts[i]));
  }
  return parts;
}

Result<SamplePart> Recipe::part(const PartShape& shape) const {
  ISOCOST_ASSIGN(const PartPlan plan, family_->plan_part({.parts = {shape}}, 0));
  return describe(*family_, shape, plan);
}

Result<std::int64_t> Recipe::placeholders(const PartShape& shape) const {
  ISOCOST_ASSIGN(const PartPlan plan, family_->plan_part({.parts = {shape}}, 0));
  return plan.placeholders;
}

Result<std::vector<TensorPlan>> Recipe::tensor_plans(const SampleShape& shape) const {
  ISOCOST_ASSIGN(const SamplePlan sample, plan_of(shape, *family_));
  return sample.tensors();
}

std::optional<DummySample> Recipe::dummy(Modality modality, BufferPool& pool) const {
  const std::optional<DummyMedium> medium = family_->dummy(modality);
  if (!medium) return std::nullopt;
  SamplePlan sample;
  if (!sample.add(medium->plan)) return std::nullopt;
  sample.rope = medium->rope;
  const PartPlan& part = sample.parts.front();
  SampleTensors to(sample, pool);
  if (part.media > 0) to.describe(medium->shape, part);
  for (std::int64_t i = 0; i < part.images; ++i) {
    std::ranges::fill(to.next_image(part.grid, part.depth), std::byte{0});
  }
  if (!part.audio.window_frames.empty()) std::ranges::fill(to.next_audio(part.audio), 0.0F);
  to.append_medium(medium->token, part.tokens, part);
  auto tensors = to.finish();
  if (!tensors) return std::nullopt;
  DummySample dummy{sample.load(), {}, *std::move(tensors)};
  dummy.part.modality = modality;
  dummy.part.rows = static_cast<std::uint32_t>(part.grid.rows);
  dummy.part.columns = static_cast<std::uint32_t>(part.grid.columns);
  dummy.part.frames = static_cast<std::uint32_t>(part.images + part.mel_frames());
  return dummy;
}

Modality Recipe::encoder_call(Modality modality) const { return family_->encoder_call(modality); }

std::string Recipe::text_settings() const { return family_->text_settings(); }

Result<std::int64_t> Recipe::working_set_bytes(const SampleShape& shape) const {
  ISOCOST_ASSIGN(const SamplePlan sample, plan_of(shape, *family_));
  std::int64_t scratch = 0;  // one part at a time is decoded
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
    if (shape.parts[i].encoded_bytes < 0 || shape.parts[i].encoded_bytes > kMostBytes) {
      return Error(ErrorCode::kInvalidArgument,
                   "part " + std::to_string(i) + " without a size that can be");
    }
    scratch = std::max(scratch, family_->working_set_bytes(shape.parts[i], sample.parts[i]));
  }
  const std::int64_t tensors = sample.tensor_bytes();
  constexpr std::int64_t kEach =
      std::int64_t{12} * 128;  // twelve tensors, each with some slack of the pool
  const auto sum = checked_sum(tensors + tensors / 8 + kEach, scratch);
  if (!sum) return Error(ErrorCode::kResourceExhausted, "the sample is too large");
  return *sum;
}

tl::expected<std::vector<NamedTensor>, PartError> Recipe::tensors(std::span<const PartBytes> parts,
                                                                  BufferPool& pool,
                                                                  const DecodeLimit& limit) const {
  SampleShape shape;
  for (const PartBytes& part : parts) shape.parts.push_back(*part.shape);
  auto planned = plan(shape, *family_);
  if (!planned) return tl::make_unexpected(std::move(planned).error());
  SampleTensors sample(*planned, pool);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Status going_on = limit.check(limit.used(), 0);
    if (!going_on) return failed(going_on.error(), i);
    auto added = family_->add(parts[i], *planned, i, sample, limit);
    if (!added) return failed(std::move(added).error(), i);
  }
  auto tensors = sample.finish();
  if (!tensors) return failed(std::move(tensors).error(), 0);
  return *std::move(tensors);
}

std::string Recipe::description() const { return family_->description(); }

std::uint64_t Recipe::fingerprint() const { return Fingerprint::of(family_->description()); }

}  // namespace isocost
