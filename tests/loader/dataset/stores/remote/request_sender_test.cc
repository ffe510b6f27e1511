#include "loader/dataset/stores/remote/request_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <stop_token>
#include <thread>
#include <vector>

#include "tests/loader/dataset/stores/remote/fault_server_fixture.h"
#include "tests/support/log_lines.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RequestSenderTest : public FaultServerFixture {
 protected:
  static Result<HttpRequest> get() { return HttpRequest{.url = url(), .name = "the object"}; }
  Result<HttpResponse> wait(RequestSender::MakeRequest make = get) {
    return sender_->wait_for(std::move(make), {});
  }
  void restart(const RequestSenderOptions& options) {
    sender_ = RequestSender::create(*client_, options);
  }
  // Sends requests, and returns the status of each response; 0: an error.
  std::vector<int> statuses_of(std::size_t count) {
    std::vector<std::future<int>> arriving;
    for (std::size_t i = 0; i < count; ++i) {
      const auto status = std::make_shared<std::promise<int>>();
      arriving.push_back(status->get_future());
      sender_->send(get, {}, [status](const Result<HttpResponse>& response) {
        status->set_value(response ? response->status : 0);
      });
    }
    std::vector<int> statuses;
    for (auto& status : arriving) statuses.push_back(status.get());
    return statuses;
  }

  std::unique_ptr<HttpClient> client_ = HttpClient::create().value();
  std::unique_ptr<RequestSender> sender_ = RequestSender::create(*client_);
};

double seconds_between_requests(const nlohmann::json& requests, std::size_t first) {
  return requests[first + 1]["time"].get<double>() - requests[first]["time"].get<double>();
}

TEST_F(RequestSenderTest, RepeatsWhatTheServerRefusesForNow) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    server().clear_log();
    set_rules({{{"fault", "status"}, {"status", status}, {"times", 2}}});
    const auto response = wait();
    ASSERT_TRUE(response) << response.error().message();
    EXPECT_EQ(response->status, 200) << status;
    EXPECT_EQ(requests().size(), 3U) << status;
  }
}

TEST_F(RequestSenderTest, RepeatsErrorsOfTheConnection) {
  set_rules({{{"fault", "reset"}, {"times", 2}}, {{"fault", "cut"}, {"after", 100}, {"times", 1}}});
  const auto response = wait();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, content());
  EXPECT_EQ(requests().size(), 4U);
}

TEST_F(RequestSenderTest, RepeatsNothingElse) {
  for (const int status : {400, 401, 403, 404, 412, 416, 501}) {
    server().clear_log();
    set_rules({{{"fault", "status"}, {"status", status}}});
    const auto response = wait();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, status);
    EXPECT_EQ(requests().size(), 1U) << status;
  }
}

TEST_F(RequestSenderTest, CountsWhatItDoes) {
  set_rules({{{"fault", "status"}, {"status", 503}, {"times", 1}},
             {{"fault", "status"}, {"status", 500}, {"times", 1}}});
  ASSERT_TRUE(wait());
  const RequestCounts counts = sender_->counts();
  EXPECT_EQ(counts.requests, 3);
  EXPECT_EQ(counts.retries, 2);
  EXPECT_EQ(counts.throttled, 1);
  EXPECT_EQ(counts.bytes, static_cast<std::int64_t>(kBytes + 2 * std::string("a fault\n").size()));
  EXPECT_EQ(counts.in_flight, 0);
  EXPECT_EQ(counts.allowed_in_flight, 8);
}

TEST_F(RequestSenderTest, WaitsAsLongAsTheServerAsks) {
  for (const std::string retry_after : {"1", "date+2"}) {
    server().clear_log();
    set_rules({{{"fault", "status"}, {"status", 503}, {"retry_after", retry_after}, {"times", 1}}});
    const auto response = wait();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_GE(seconds_between_requests(requests(), 0), 0.99) << retry_after;
  }
}

TEST_F(RequestSenderTest, GivesTheLastResponseWhenItsTimeIsOver) {
  restart({.give_up_after = milliseconds(300)});
  set_rules({{{"fault", "status"}, {"status", 503}, {"retry_after", "3600"}}});
  const auto response = wait();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
  // It is asked for the last time when the time is over, and not in an hour.
  EXPECT_EQ(requests().size(), 2U);
  EXPECT_GE(seconds_between_requests(requests(), 0), 0.25);
}

TEST_F(RequestSenderTest, GivesTheLastErrorWhenItsTimeIsOver) {
  restart({.give_up_after = milliseconds(300)});
  const auto response = wait([]() -> Result<HttpRequest> {
    return HttpRequest{.url = "http://127.0.0.1:1/", .name = "the object"};
  });
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(response.error().message(), HasSubstr("the object: no connection"));
  EXPECT_GE(sender_->counts().retries, 1);
}

TEST_F(RequestSenderTest, GivesUpEarlierWhereNothingHasEverAnswered) {
  const auto refused = []() -> Result<HttpRequest> {
    return HttpRequest{
        .url = "http://127.0.0.1:1/", .name = "the object", .server = "http://h (AWS_X)"};
  };
  const auto unknown = []() -> Result<HttpRequest> {
    return HttpRequest{.url = "http://nowhere.invalid/", .name = "the object"};
  };
  // With a give_up_after of a minute.
  restart({.give_up_unreachable_after = milliseconds(300)});
  const auto no_listener = wait(refused);
  ASSERT_FALSE(no_listener);
  EXPECT_EQ(no_listener.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(no_listener.error().message(),
              HasSubstr("the object: no connection to http://h (AWS_X): Failed to connect to "
                        "127.0.0.1"));
  EXPECT_THAT(no_listener.error().message(), HasSubstr("check the address"));
  EXPECT_GE(sender_->counts().retries, 1);
  const auto no_host = wait(unknown);
  ASSERT_FALSE(no_host);
  EXPECT_THAT(no_host.error().message(),
              HasSubstr("the object: the name of the server is not known now: Could not resolve "
                        "host: nowhere.invalid"));
}

TEST_F(RequestSenderTest, GivesAServerThatHasAnsweredItsWholeTime) {
  restart({.give_up_after = milliseconds(600), .give_up_unreachable_after = milliseconds(1)});
  set_rules({{{"fault", "status"}, {"status", 404}}});
  ASSERT_TRUE(wait());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(wait([]() -> Result<HttpRequest> {
    return HttpRequest{.url = "http://127.0.0.1:1/", .name = "the object"};
  }));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(600));
}

TEST_F(RequestSenderTest, MakesEachAttemptAnew) {
  set_rules({{{"fault", "status"}, {"status", 500}, {"times", 2}}});
  int made = 0;
  ASSERT_TRUE(wait([&made]() -> Result<HttpRequest> {
    return HttpRequest{.url = url("a.bin?" + std::to_string(++made)), .name = "the object"};
  }));
  EXPECT_EQ(requests()[0]["path"], "/a.bin?1");
  EXPECT_EQ(requests()[2]["path"], "/a.bin?3");
}

TEST_F(RequestSenderTest, GivesTheErrorOfMaking) {
  const auto response =
      wait([]() -> Result<HttpRequest> { return Error(ErrorCode::kIo, "no credentials"); });
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().message(), "no credentials");
  EXPECT_EQ(sender_->counts().requests, 0);
}

TEST_F(RequestSenderTest, RepeatsMakingWhatIsUnavailable) {
  int made = 0;
  const auto response = wait([&made]() -> Result<HttpRequest> {
    if (++made < 3) return Error(ErrorCode::kUnavailable, "no credentials now");
    return get();
  });
  ASSERT_TRUE(response);
  EXPECT_EQ(made, 3);
}

TEST_F(RequestSenderTest, MayBlockWhileMakingARequest) {
  std::promise<void> blocked;
  std::promise<void> go_on;
  std::promise<int> status;
  sender_->send(
      [&]() -> Result<HttpRequest> {
        blocked.set_value();
        go_on.get_future().wait();
        return get();
      },
      {}, [&](const Result<HttpResponse>& response) { status.set_value(response->status); });
  blocked.get_future().wait();
  // The client serves others meanwhile.
  EXPECT_TRUE(client_->wait_for(get().value(), {}));
  go_on.set_value();
  EXPECT_EQ(status.get_future().get(), 200);
}

TEST_F(RequestSenderTest, HasAtMostSoManyInFlight) {
  restart({.most_in_flight = 3});
  set_rules({{{"fault", "latency"}, {"ms", 20}}});
  EXPECT_EQ(statuses_of(30), std::vector<int>(30, 200));
  int most = 0;
  for (const auto& request : requests()) most = std::max(most, request["in_flight"].get<int>());
  EXPECT_LE(most, 3);
  EXPECT_GE(most, 2);
}

TEST_F(RequestSenderTest, HasMoreInFlightWhileMoreAreWanted) {
  set_rules({{{"fault", "latency"}, {"ms", 50}}});
  EXPECT_EQ(statuses_of(200), std::vector<int>(200, 200));
  EXPECT_GT(sender_->counts().allowed_in_flight, 32);
}

TEST_F(RequestSenderTest, HasFewerInFlightWhileTheServerAsksToWait) {
  set_rules(
      {{{"fault", "status"}, {"status", 429}, {"times", 16}}, {{"fault", "latency"}, {"ms", 5}}});
  EXPECT_EQ(statuses_of(60), std::vector<int>(60, 200));
  // Halved at least once, and grown by one a round since.
  EXPECT_LT(sender_->counts().allowed_in_flight, 16);
  EXPECT_EQ(sender_->counts().throttled, 16);
}

TEST_F(RequestSenderTest, SendsAllThroughFaultsOfOneRequestInFive) {
  set_rules({{{"fault", "status"}, {"status", 503}, {"share", 0.1}},
             {{"fault", "reset"}, {"share", 0.05}},
             {{"fault", "cut"}, {"after", 5000}, {"share", 0.05}}});
  EXPECT_EQ(statuses_of(300), std::vector<int>(300, 200));
  EXPECT_GT(sender_->counts().retries, 20);
}

TEST_F(RequestSenderTest, LogsTroubleOnce) {
  LogLines log;
  restart({.log = log.sink()});
  set_rules({{{"fault", "status"}, {"status", 503}, {"times", 10}}});
  EXPECT_EQ(statuses_of(5), std::vector<int>(5, 200));
  EXPECT_THAT(log.lines(),
              ElementsAre("the object: the server asks to send less (status 503); requests are "
                          "repeated with pauses, and fewer at once"));
}

TEST_F(RequestSenderTest, CountsProgressAsAFirstAttempt) {
  restart({.give_up_after = milliseconds(1)});
  set_rules({{{"fault", "cut"}, {"after", 70'000}, {"times", 3}}});
  const auto make = [] {
    auto request = get();
    request->on_broken = [](const HttpResponse&) { return true; };
    return request;
  };
  const auto response = wait(make);
  ASSERT_TRUE(response) << response.error().message();
  EXPECT_EQ(requests().size(), 4U);
  EXPECT_EQ(sender_->counts().bytes, static_cast<std::int64_t>(3 * 70'000 + kBytes));
}

TEST_F(RequestSenderTest, CancelsWhatIsQueuedInFlightOrPaused) {
  restart({.most_in_flight = 1});
  set_rules({{{"fault", "status"}, {"status", 503}, {"retry_after", "3600"}, {"times", 1}},
             {{"fault", "stall"}, {"after", 10}}});
  std::vector<std::stop_source> stops(3);
  std::vector<std::promise<ErrorCode>> ended(3);
  for (std::size_t i = 0; i < 3; ++i) {
    sender_->send(get, stops[i].get_token(), [&ended, i](const Result<HttpResponse>& response) {
      ended[i].set_value(response ? ErrorCode::kInternal : response.error().code());
    });
    // The first is paused, the second in flight, the third queued.
    while (requests().size() < std::min<std::size_t>(i + 1, 2)) std::this_thread::yield();
  }
  for (const std::size_t i : {2, 0, 1}) {
    stops[i].request_stop();
    EXPECT_EQ(ended[i].get_future().get(), ErrorCode::kCancelled) << i;
  }
}

// Stops come from several threads, while the sender looks which tasks are stopped.
TEST_F(RequestSenderTest, EndsEachOfManyThatAreStoppedAtOnce) {
  set_rules({{{"fault", "stall"}, {"after", -1}, {"seconds", 60}}});
  restart({.most_in_flight = 1});
  constexpr std::size_t kRequests = 20'000;
  constexpr std::size_t kThreads = 4;
  std::atomic<std::size_t> ended = 0;
  std::vector<std::stop_source> stops(kRequests);
  for (const std::stop_source& stop : stops) {
    sender_->send(get, stop.get_token(), [&](const Result<HttpResponse>& response) {
      EXPECT_TRUE(!response && response.error().code() == ErrorCode::kCancelled);
      ++ended;
    });
  }
  {
    std::vector<std::jthread> stopping(kThreads);
    for (std::size_t i = 0; i < kThreads; ++i) {
      stopping[i] = std::jthread([&, i] {
        for (std::size_t at = i; at < kRequests; at += kThreads) {
          stops[at].request_stop();
          std::this_thread::sleep_for(std::chrono::microseconds(1));
        }
      });
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (ended < kRequests && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(ended, kRequests);
}

TEST_F(RequestSenderTest, CancelsAllWhenItEnds) {
  restart({.most_in_flight = 1});
  set_rules({{{"fault", "status"}, {"status", 503}, {"retry_after", "3600"}, {"times", 1}},
             {{"fault", "stall"}, {"after", 10}}});
  std::atomic<int> cancelled = 0;
  for (int i = 0; i < 5; ++i) {
    sender_->send(get, {}, [&cancelled](const Result<HttpResponse>& response) {
      if (!response && response.error().code() == ErrorCode::kCancelled) ++cancelled;
    });
  }
  while (requests().size() < 2) std::this_thread::yield();
  sender_.reset();
  EXPECT_EQ(cancelled, 5);
}

TEST_F(RequestSenderTest, SendsNothingAfterAStop) {
  std::stop_source stop;
  stop.request_stop();
  const auto response = sender_->wait_for(get, stop.get_token());
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(requests().empty());
}

}  // namespace
}  // namespace isocost
