#include "experiments/serve/server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <system_error>
#include <thread>

#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/text.h"

namespace lpmm {
namespace {

constexpr int kSlice = 100;  // milliseconds in which a stop is noticed

struct Client {
  std::atomic<bool> has_ended = false;
  std::thread thread;
};

void tell_error(Connection& connection, const ApiError& error) {
  if (connection.has_begun()) {  // too late for a status
    connection.event(error.json());
    connection.end_events();
    connection.close_after();
  } else {
    connection.answer(error.status(), error.json());
  }
}

void serve_client(Connection& connection, const std::atomic<bool>& stopping, const Server::Handle& handle) {
  while (connection.keeps() && !stopping) {
    std::optional<HttpRequest> request;
    try {
      request = connection.read();
    } catch (const ApiError& error) {
      connection.close_after();
      tell_error(connection, error);
      if (connection.flush() && error.status() == kTooLarge) connection.drain();
      return;
    }
    if (!request) return;
    try {
      handle(*request, connection);
    } catch (const ApiError& error) {
      tell_error(connection, error);
    } catch (const std::exception& error) {
      tell(fmt::format("lpmm: a request failed: {}\n", error.what()));
      tell_error(connection, ApiError(500, error.what()));
    }
    if (!connection.flush()) return;
  }
}

void turn_away(int socket, const ClientLimits& limits, const std::atomic<bool>& stopping) {
  Connection connection(socket, limits, stopping);
  connection.close_after();
  connection.answer(503, ApiError(503, "too many clients are connected; try again later").json());
  connection.send_some();
}

}  // namespace

Server::Server(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0) {
    throw UsageError(fmt::format("--host {}: {}", host, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> held(found, freeaddrinfo);
  socket_ = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket_ < 0 || bind(socket_, found->ai_addr, found->ai_addrlen) != 0 || listen(socket_, 64) != 0) {
    const int error = errno;
    if (socket_ >= 0) close(socket_);
    if (error == EADDRINUSE) {
      throw RunError(fmt::format(
          "port {} of {} is in use by another program; take another one by --port, or 0 for any that is free",
          port, host));
    }
    throw RunError(fmt::format("cannot listen on port {} of {}: {}", port, host, std::strerror(error)));
  }
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &size);
  if (own.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(own);
    port_ = ntohs(address.sin6_port);
    is_on_loopback_ = IN6_IS_ADDR_LOOPBACK(&address.sin6_addr) != 0;
  } else {
    const auto& address = reinterpret_cast<const sockaddr_in&>(own);
    port_ = ntohs(address.sin_port);
    is_on_loopback_ = ntohl(address.sin_addr.s_addr) >> 24 == 127;
  }
}

Server::~Server() {
  close(socket_);
}

void Server::run(const ClientLimits& limits, std::size_t most, std::atomic<bool>& stopping,
                 const Handle& handle) {
  std::list<Client> clients;
  const auto end = [&](bool all) {
    for (auto at = clients.begin(); at != clients.end();) {
      if (!all && !at->has_ended) {
        ++at;
        continue;
      }
      at->thread.join();
      at = clients.erase(at);
    }
  };
  while (!InterruptGuard::asked()) {
    end(false);
    pollfd one{socket_, POLLIN, 0};
    if (poll(&one, 1, kSlice) <= 0) continue;
    const int socket = accept4(socket_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) {
      if (errno == EMFILE || errno == ENFILE) poll(nullptr, 0, kSlice);  // until a client has gone
      continue;
    }
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (clients.size() >= most) {
      turn_away(socket, limits, stopping);
      continue;
    }
    Client& client = clients.emplace_back();
    const auto serve = [&client, &limits, &stopping, &handle, socket] {
      try {
        Connection connection(socket, limits, stopping);
        serve_client(connection, stopping, handle);
      } catch (const std::exception& error) {
        tell(fmt::format("lpmm: a client was left: {}\n", error.what()));
      }
      client.has_ended = true;
    };
    try {
      client.thread = std::thread(serve);
    } catch (const std::system_error&) {  // there are too many threads
      clients.pop_back();
      turn_away(socket, limits, stopping);
    }
  }
  stopping = true;
  end(true);
}

}  // namespace lpmm
