#include "loader/node/internal/announcer.h"

#include <string>

namespace isocost {

void Announcer::announce(LogLevel level, std::string_view text) {
  log(log_, level, text);
  const MutexLock lock(mutex_);  // the server, which only queues the line, stays meanwhile
  if (server_ != nullptr) server_->notify_all({std::string(text)});
}

void Announcer::set_server(Server* server) {
  const MutexLock lock(mutex_);
  server_ = server;
}

Announcer::Audience::Audience(Announcer& announcer, Server& server) : announcer_(announcer) {
  announcer_.set_server(&server);
}

Announcer::Audience::~Audience() { announcer_.set_server(nullptr); }

}  // namespace isocost
