// Listens for clients, and gives each a thread.
#pragma once

#include <functional>
#include <string>

#include "experiments/serve/connection.h"

namespace lpmm {

class Server {
 public:
  // `host`: an address or a name of this machine; port 0: any that is free. Throws UsageError for a host that
  // is none, RunError where the port is taken.
  Server(const std::string& host, int port);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  int port() const { return port_; }
  bool is_on_loopback() const { return is_on_loopback_; }

  // Calls handle(request, connection) for the requests of all clients, of each on a thread of its own, until
  // an interrupt (InterruptGuard) asks for a stop; returns once all threads have ended. `stopping` is true
  // from the interrupt on. At most `clients` at a time; others are told so.
  using Handle = std::function<void(const HttpRequest&, Connection&)>;
  void run(const ClientLimits& limits, std::size_t clients, std::atomic<bool>& stopping,
           const Handle& handle);

 private:
  int socket_ = -1, port_ = 0;
  bool is_on_loopback_ = false;
};

}  // namespace lpmm
