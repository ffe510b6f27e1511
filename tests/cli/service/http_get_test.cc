#include "cli/service/http_get.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "loader/metrics/endpoint.h"

namespace isocost::cli {
namespace {

std::unique_ptr<MetricsEndpoint> serve(std::function<std::string()> text) {
  auto endpoint = MetricsEndpoint::create({"127.0.0.1", 0, true},
                                          {{"/status.json", "text/plain", std::move(text)}});
  EXPECT_TRUE(endpoint.has_value()) << endpoint.error().message();
  return *std::move(endpoint);
}

std::unique_ptr<MetricsEndpoint> serve(std::size_t bytes) {
  return serve([bytes] { return std::string(bytes, '#'); });
}

ErrorCode failure(const std::string& url, const HttpLimits& limits, const std::stop_token& stop) {
  const auto got = http_get(url, limits, stop);
  EXPECT_FALSE(got.has_value());
  return got ? ErrorCode::kInternal : got.error().code();
}

TEST(HttpGet, BodiesAreBounded) {
  const auto endpoint = serve(1000);
  HttpLimits limits;
  limits.max_bytes = 1000;
  EXPECT_EQ(http_get(endpoint->url(), limits, {}).value(), std::string(1000, '#'));
  limits.max_bytes = 999;
  EXPECT_EQ(failure(endpoint->url(), limits, {}), ErrorCode::kResourceExhausted);
}

TEST(HttpGet, AnotherStatusThan200IsRefused) {
  const auto endpoint = serve(1);
  EXPECT_EQ(failure(endpoint->url() + "/more", {}, {}), ErrorCode::kUnsupported);
}

TEST(HttpGet, TimesOutIfTheServerDoesNotAnswer) {
  std::promise<void> done;
  const std::shared_future<void> is_done = done.get_future();
  const auto endpoint = serve([is_done] {
    is_done.wait();
    return std::string();
  });
  HttpLimits limits;
  limits.timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(failure(endpoint->url(), limits, {}), ErrorCode::kDeadlineExceeded);
  done.set_value();
}

TEST(HttpGet, StopsWhenAskedTo) {
  const auto endpoint = serve(1);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(failure(endpoint->url(), {}, stop.get_token()), ErrorCode::kCancelled);
}

TEST(StatusUrl, IsCompleted) {
  EXPECT_EQ(status_url("9464").value(), "http://127.0.0.1:9464/status.json");
  EXPECT_EQ(status_url("loader3:9464").value(), "http://loader3:9464/status.json");
  EXPECT_EQ(status_url("[::1]:9464").value(), "http://[::1]:9464/status.json");
  EXPECT_EQ(status_url("http://127.0.0.1:9464/").value(), "http://127.0.0.1:9464/status.json");
  EXPECT_EQ(status_url("http://a:1/metrics").value(), "http://a:1/status.json");
  EXPECT_EQ(status_url("https://host/its/metrics").value(), "https://host/its/status.json");
  EXPECT_EQ(status_url("https://host/its/status").value(), "https://host/its/status");
}

TEST(StatusUrl, RefusesOtherSchemesAndEmptyText) {
  for (const char* text : {"", "http://", "ftp://host", "file:///etc/passwd", "http://a b"}) {
    const auto url = status_url(text);
    ASSERT_FALSE(url.has_value()) << text << " -> " << *url;
    EXPECT_EQ(url.error().code(), ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace isocost::cli
