#include "tests/support/fault_server.h"

#include <curl/curl.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>

namespace isocost {
namespace {

constexpr int kMostTries = 3000;  // 30 s for the interpreter to start on a busy machine

std::size_t append(const char* bytes, std::size_t size, std::size_t count, void* to) {
  static_cast<std::string*>(to)->append(bytes, size * count);
  return size * count;
}

}  // namespace

Result<FaultServer> FaultServer::start(const std::filesystem::path& directory,
                                       const std::filesystem::path& scratch,
                                       const std::vector<std::string>& arguments) {
  const std::filesystem::path port_file = scratch / "fault_server.port";
  const std::filesystem::path output = scratch / "fault_server.output";
  std::filesystem::remove(port_file);
  std::vector<std::string> command{
      "python3",     ISOCOST_SOURCE_DIR "/tests/support/fault_server.py",
      "--directory", directory.string(),
      "--port-file", port_file.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  ISOCOST_ASSIGN(ChildProcess process, ChildProcess::start(std::move(command), output));
  for (int tries = 0; tries < kMostTries && process.runs(); ++tries) {
    int port = 0;
    if (std::ifstream(port_file) >> port) return FaultServer(std::move(process), port);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return Error(ErrorCode::kIo, "fault_server.py does not start: see " + output.string());
}

std::string FaultServer::address() const {
  return "http://127.0.0.1:" + std::to_string(port_) + "/";
}

std::string FaultServer::control(const char* method, const char* what,
                                 const std::string& body) const {
  const std::unique_ptr<CURL, void (*)(CURL*)> easy(curl_easy_init(), curl_easy_cleanup);
  const std::string url = address() + "_faults/" + what;
  std::string response;
  curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
  curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_CUSTOMREQUEST, method);
  if (!body.empty()) curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &append);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &response);
  if (const CURLcode code = curl_easy_perform(easy.get()); code != CURLE_OK) {
    throw std::runtime_error(url + ": " + curl_easy_strerror(code));
  }
  return response;
}

void FaultServer::set_rules(const nlohmann::json& rules) const {
  control("PUT", "rules", rules.dump());
}

nlohmann::json FaultServer::requests() const {
  return nlohmann::json::parse(control("GET", "log", ""));
}

void FaultServer::clear_log() const { control("DELETE", "log", ""); }

}  // namespace isocost
