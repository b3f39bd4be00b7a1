// One client of an HTTP server: its requests, and what is sent to it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lpmm {

inline constexpr int kTooLarge = 413;  // the status of a request whose rest is not read

// An error that a client gets in place of an answer, as OpenAI's service words it.
class ApiError : public std::runtime_error {
 public:
  ApiError(int status, const std::string& message, std::string parameter = {}, std::string code = {})
      : std::runtime_error(message),
        status_(status),
        parameter_(std::move(parameter)),
        code_(std::move(code)) {}
  int status() const { return status_; }
  // {"error": {"message", "type", "param", "code"}}
  std::string json() const;

 private:
  int status_;
  std::string parameter_, code_;
};

struct ClientLimits {
  std::uint32_t header_bytes = 16 << 10;
  std::uint64_t body_bytes = 4 << 20;
  // From one request, or the connection, to the first byte of the next; from there to its end; and from the
  // end of an answer until the client has taken it.
  std::chrono::milliseconds patience{20000};
};

struct HttpRequest {
  std::string method, path, content_type, authorization, origin, body;
};

// A client's connection, used by one thread.
class Connection {
 public:
  // Takes over the socket, which does not block. `stopping` becomes true where nobody is waited for any more.
  Connection(int socket, const ClientLimits& limits, const std::atomic<bool>& stopping);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Returns nothing if the client went away, was silent for too long, or the server stops. Throws ApiError
  // for bytes that are no request, or too large or too slow; no other one can be read then.
  std::optional<HttpRequest> read();
  // Returns true if the client went away.
  bool is_gone();

  // Adds to what is to be sent; flush() sends it. `headers` are lines that end with \r\n.
  void answer(int status, std::string_view body, std::string_view headers = {});
  // An answer of several events (text/event-stream). Sends what the client takes at once.
  void begin_events();
  void event(std::string_view data);
  void end_events();
  bool has_begun() const { return has_begun_; }
  // Sends what the client takes at once; false where it is gone.
  bool send_some();
  // Returns true if the client took everything within its patience; the connection is over otherwise.
  bool flush();
  // Throws away what the client still sends, for a while: many read an answer only when they have sent their
  // request, and bytes that nobody read would make the system drop the answer. Nothing can be sent then.
  void drain(std::chrono::milliseconds most = std::chrono::seconds{2});
  // No request follows.
  void close_after() { keeps_ = false; }
  bool keeps() const { return keeps_; }

 private:
  bool wait(short events, std::chrono::steady_clock::time_point until) const;
  std::size_t receive();
  void piece(std::string_view data);

  int socket_;
  const ClientLimits& limits_;
  const std::atomic<bool>& stopping_;
  std::string received_, unsent_;
  bool keeps_ = true, is_new_ = true, is_gone_ = false, has_begun_ = false;
};

}  // namespace lpmm
