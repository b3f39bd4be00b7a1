// A server of a few lines on loopback.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

namespace lpmm {

// A socket of a port of its own. Nobody listens there yet: a connection is refused.
class Port {
 public:
  Port() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, any, size) != 0 || ::getsockname(socket_, any, &size) != 0) std::abort();
    url_ = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
  }
  ~Port() { ::close(socket_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  const std::string& url() const { return url_; }
  int socket() const { return socket_; }

 private:
  int socket_;
  std::string url_;
};

// The server's answer for a path; `then` runs before the connection is closed.
struct Reply {
  std::string bytes;
  std::function<void(int socket)> then = {};
  std::string body = {};  // in place of `bytes`; it sends the range that is asked for
};

// The head for one answer per connection: a client that took the next one over the same would lose it.
inline std::string head_of(std::size_t length, const char* status = "200 OK", const std::string& more = "") {
  return fmt::format("HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n", status, length,
                     more);
}

inline Reply good(const std::string& body) {
  return {head_of(body.size()) + body};
}

inline Reply with_parts(const std::string& body) {
  return {head_of(body.size()) + body, {}, body};
}

// The answer to a request by a server that gives parts; to one without a range, the whole.
inline std::string answer_of(const Reply& reply, const std::string& request) {
  const std::size_t range = request.find("Range: bytes=");
  if (reply.body.empty() || range == std::string::npos) return reply.bytes;
  const std::size_t first = std::strtoul(request.c_str() + range + 13, nullptr, 10);
  const std::string size = std::to_string(reply.body.size());
  if (first >= reply.body.size())
    return head_of(0, "416 Range Not Satisfiable", "Content-Range: bytes */" + size + "\r\n");
  const std::string rest = reply.body.substr(first);
  return head_of(rest.size(), "206 Partial Content",
                 fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, reply.body.size() - 1, size)) +
         rest;
}

inline Reply redirect(const std::string& to) {
  return {head_of(0, "302 Found", "Location: " + to + "\r\n")};
}

inline void wait_for_hangup(int socket) {
  char byte = 0;
  while (::recv(socket, &byte, 1, 0) > 0) {
  }
}

// Answers one connection after the other, until it goes.
class Server {
 public:
  explicit Server(std::map<std::string, Reply> replies) : replies_(std::move(replies)) {
    if (::listen(port_.socket(), 8) != 0) std::abort();
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    ::shutdown(port_.socket(), SHUT_RDWR);  // accept() returns
    thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  const std::string& url() const { return port_.url(); }
  int requests() const { return requests_; }

 private:
  void serve() {
    for (;;) {
      const int socket = ::accept4(port_.socket(), nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      answer(socket);
      ::close(socket);
    }
  }
  void answer(int socket) {
    std::string request;
    char byte = 0;
    while (!request.ends_with("\r\n\r\n") && ::recv(socket, &byte, 1, 0) == 1) request += byte;
    const std::size_t start = request.find(' ') + 1;
    const auto found = replies_.find(request.substr(start, request.find(' ', start) - start));
    ++requests_;
    const Reply reply = found == replies_.end() ? Reply{head_of(0, "404 Not Found")} : found->second;
    const std::string bytes = answer_of(reply, request);
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ::ssize_t n = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n < 0) return;
      sent += static_cast<std::size_t>(n);
    }
    if (reply.then) reply.then(socket);
  }

  Port port_;
  std::map<std::string, Reply> replies_;
  std::atomic<int> requests_ = 0;
  std::thread thread_;
};

}  // namespace lpmm
