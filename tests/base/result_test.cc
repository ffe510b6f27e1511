#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace isocost {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Error(ErrorCode::kInvalidArgument, std::to_string(value) + " is odd");
  return value / 2;
}

Result<int> quarter(int value) {
  ISOCOST_ASSIGN(const int once, half(value));
  return half(once);
}

Status check(int value) {
  ISOCOST_TRY_CONTEXT(quarter(value), "check");
  return {};
}

TEST(Result, PassesValuesAndErrorsUp) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message(), "3 is odd");
  EXPECT_TRUE(check(4).has_value());
  EXPECT_EQ(check(5).error().to_string(), "invalid_argument: check: 5 is odd");
}

// Calls `use`, which asks for a value that is not there, and returns the code of what it throws.
template <typename Use>
ErrorCode thrown(const Use& use) {
  try {
    use();
  } catch (const Exception& exception) {
    EXPECT_STREQ(exception.what(), "no node listens: start one");
    EXPECT_EQ(exception.error().message(), exception.what());
    return exception.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kInternal;
}

TEST(Result, AValueThatIsNotThereThrowsTheError) {
  const Error error(ErrorCode::kDraining, "no node listens: start one");
  Result<std::string> text = error;
  const Result<std::string> constant = error;
  const auto fresh = [&error]() -> Result<std::string> { return error; };
  EXPECT_EQ(thrown([&] { static_cast<void>(*text); }), ErrorCode::kDraining);
  EXPECT_EQ(thrown([&] { static_cast<void>(text->size()); }), ErrorCode::kDraining);
  EXPECT_EQ(thrown([&] { static_cast<void>(text.value()); }), ErrorCode::kDraining);
  EXPECT_EQ(thrown([&] { static_cast<void>(*constant); }), ErrorCode::kDraining);
  EXPECT_EQ(thrown([&] { static_cast<void>(constant->size()); }), ErrorCode::kDraining);
  EXPECT_EQ(thrown([&] { static_cast<void>(constant.value()); }), ErrorCode::kDraining);
  EXPECT_EQ(thrown([&] { static_cast<void>(*fresh()); }), ErrorCode::kDraining);
  EXPECT_EQ(thrown([&] { static_cast<void>(fresh()->size()); }), ErrorCode::kDraining);
  EXPECT_EQ(thrown([&] { static_cast<void>(fresh().value()); }), ErrorCode::kDraining);
}

TEST(Result, AStatusThatIsAnErrorThrowsIt) {
  const Error error(ErrorCode::kDraining, "no node listens: start one");
  const Status status = error;
  EXPECT_EQ(thrown([&] { status.value(); }), ErrorCode::kDraining);
  EXPECT_EQ(thrown([&] { *status; }), ErrorCode::kDraining);
  EXPECT_EQ(thrown([&] { Status(error).value(); }), ErrorCode::kDraining);
  EXPECT_EQ(thrown([&] { *Status(error); }), ErrorCode::kDraining);
  EXPECT_NO_THROW(Status().value());
}

// Code that does not check has no way in: no base class, and no conversion to anything but bool.
TEST(Result, HasNoConversionAroundTheCheck) {
  static_assert(!std::is_convertible_v<Result<int>, tl::expected<int, Error>>);
  static_assert(!std::is_base_of_v<tl::expected<int, Error>, Result<int>>);
  static_assert(!std::is_convertible_v<Result<int>, int>);
  static_assert(!std::is_convertible_v<Result<int>, bool>);
  static_assert(!std::is_constructible_v<Result<bool>, Result<std::string>>);
  static_assert(std::is_base_of_v<std::runtime_error, Exception>);
}

TEST(Result, IsMovedOutAndConvertedLikeItsValue) {
  Result<std::unique_ptr<int>> number = std::make_unique<int>(4);
  const std::unique_ptr<int> taken = *std::move(number);
  EXPECT_EQ(*taken, 4);
  const Result<std::optional<int>> wrapped = half(4);
  EXPECT_EQ(wrapped.value(), std::optional(2));
  const Result<std::optional<int>> failed = half(3);
  EXPECT_EQ(failed.error().message(), "3 is odd");
  EXPECT_EQ(half(3).value_or(7), 7);
  EXPECT_EQ(half(4).value_or(7), 2);
}

TEST(ExitCode, IsZeroOrPrintsTheMessage) {
  EXPECT_EQ(exit_code({}), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(exit_code(Error(ErrorCode::kNotFound, "no shards: make some")), 1);
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(printed.ends_with(": no shards: make some\n")) << printed;
}

TEST(Error, KnowsWhereItWasRaised) {
  EXPECT_NE(std::string(half(1).error().where().file_name()).find("result_test.cc"),
            std::string::npos);
}

TEST(ErrorCode, HasAName) {
  EXPECT_EQ(error_code_name(ErrorCode::kInternal), "internal");
  EXPECT_EQ(error_code_name(ErrorCode::kOutOfMemory), "out_of_memory");
  EXPECT_EQ(error_code_name(ErrorCode::kDraining), "draining");
}

}  // namespace
}  // namespace isocost
