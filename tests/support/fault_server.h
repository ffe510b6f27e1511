#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/support/child_process.h"

namespace isocost {

/// Runs fault_server.py, which says what its rules and its log hold.
class FaultServer {
 public:
  /// Starts the server over a directory of files, and waits until it listens. `scratch` receives
  /// its output. Errors: kIo.
  static Result<FaultServer> start(const std::filesystem::path& directory,
                                   const std::filesystem::path& scratch,
                                   const std::vector<std::string>& arguments = {});

  int port() const { return port_; }
  /// Returns "http://127.0.0.1:PORT/".
  std::string address() const;

  /// Replaces the rules.
  void set_rules(const nlohmann::json& rules) const;
  /// Returns the requests that have come.
  nlohmann::json requests() const;
  void clear_log() const;

 private:
  FaultServer(ChildProcess process, int port) : process_(std::move(process)), port_(port) {}
  std::string control(const char* method, const char* what, const std::string& body) const;

  ChildProcess process_;
  int port_;
};

}  // namespace isocost
