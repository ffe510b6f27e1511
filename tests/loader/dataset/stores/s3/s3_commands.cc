// Does with a bucket what standard input says, one JSON array a line, and writes a result for each:
// ["stamp", KEY], ["list", PREFIX, RECURSIVE], ["read", KEY, BEGIN, END]. The first argument is the
// bucket; all else is in the environment. moto_test.py runs it.
#include <cstdint>
#include <future>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/base64.h"
#include "loader/dataset/stores/s3/s3_store.h"

namespace {

using nlohmann::json;

json as_json(const isocost::ObjectStamp& stamp) {
  return {{"bytes", stamp.bytes}, {"etag", stamp.etag}, {"modified_s", stamp.modified_s}};
}

isocost::Result<json> read(isocost::ObjectStore& store, const std::string& key, std::int64_t begin,
                           std::int64_t end) {
  ISOCOST_ASSIGN(const isocost::ObjectStamp stamp, store.stamp(key, {}));
  std::promise<isocost::Result<std::string>> read;
  store.read(key, stamp, {.begin = begin, .end = end}, {},
             [&](isocost::Result<std::string> bytes) { read.set_value(std::move(bytes)); });
  ISOCOST_ASSIGN(const std::string bytes, read.get_future().get());
  return json(isocost::encode_base64(bytes));
}

isocost::Result<json> run(isocost::ObjectStore& store, const json& command) {
  const std::string what = command.at(0);
  const std::string key = command.at(1);
  if (what == "stamp") {
    ISOCOST_ASSIGN(const isocost::ObjectStamp stamp, store.stamp(key, {}));
    return as_json(stamp);
  }
  if (what == "read") return read(store, key, command.at(2), command.at(3));
  ISOCOST_ASSIGN(const auto objects, store.list(key, command.at(2), {}));
  json listed = json::array();
  for (const isocost::ListedObject& object : objects) {
    listed.push_back({object.key, as_json(object.stamp)});
  }
  return listed;
}

json outcome(const isocost::Result<json>& result) {
  if (result) return {{"value", *result}};
  return {{"code", error_code_name(result.error().code())}, {"error", result.error().message()}};
}

isocost::Status run_all(const std::string& bucket) {
  ISOCOST_ASSIGN(const auto client, isocost::HttpClient::create());
  isocost::RequestSenderOptions sending;
  sending.give_up_after = std::chrono::seconds(5);
  ISOCOST_ASSIGN(const auto store, isocost::create_s3_store(bucket, {}, *client, sending));
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << outcome(run(*store, json::parse(line))) << std::endl;
  }
  return {};
}

}  // namespace

int main(int /*count*/, char** arguments) { return isocost::exit_code(run_all(arguments[1])); }
