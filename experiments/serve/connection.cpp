#include "experiments/serve/connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

namespace lpmm {
namespace {

namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;
using Parser = http::request_parser<http::string_body>;

// Limits the bytes of a request that lie unread: a header, or the lines between chunks.
constexpr std::size_t kMostUnread = 64 << 10;
// Limits how much of a refused request is thrown away.
constexpr std::size_t kMostDropped = 64 << 20;

std::string text_of(const Parser& parser, http::field name) {
  const auto value = parser.get()[name];
  return {value.data(), value.size()};
}

[[noreturn]] void refuse_bytes(const boost::system::error_code& error, const ClientLimits& limits) {
  if (error == http::error::header_limit) {
    throw ApiError(431, fmt::format("the request's header has more than {} bytes", limits.header_bytes));
  }
  if (error == http::error::body_limit) {
    throw ApiError(kTooLarge, fmt::format("the request's body has more than {} bytes", limits.body_bytes));
  }
  throw ApiError(400, fmt::format("this is no HTTP request: {}", error.message()));
}

HttpRequest request_of(Parser& parser) {
  auto& message = parser.get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.path = std::string(message.target());
  request.path.resize(std::min(request.path.find('?'), request.path.size()));
  request.content_type = text_of(parser, http::field::content_type);
  request.authorization = text_of(parser, http::field::authorization);
  request.origin = text_of(parser, http::field::origin);
  request.body = std::move(message.body());
  return request;
}

}  // namespace

std::string ApiError::json() const {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  const nlohmann::ordered_json error = {{"message", what()},
                                        {"type", status_ < 500 ? "invalid_request_error" : "server_error"},
                                        {"param", text_or_null(parameter_)},
                                        {"code", text_or_null(code_)}};
  return nlohmann::ordered_json{{"error", error}}.dump(-1, ' ', false,
                                                       nlohmann::json::error_handler_t::replace);
}

Connection::Connection(int socket, const ClientLimits& limits, const std::atomic<bool>& stopping)
    : socket_(socket), limits_(limits), stopping_(stopping) {}

Connection::~Connection() {
  drain(std::chrono::milliseconds{0});
  close(socket_);
}

bool Connection::wait(short events, Clock::time_point until) const {
  constexpr std::chrono::milliseconds kSlice{100};  // in which a stop is noticed
  while (!stopping_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) return false;
    pollfd one{socket_, events, 0};
    if (poll(&one, 1, static_cast<int>(std::min(left, kSlice).count()) + 1) > 0) return true;
  }
  return false;
}

std::size_t Connection::receive() {
  std::array<char, 16384> bytes{};
  const ssize_t got = recv(socket_, bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (got <= 0) {
    is_gone_ = true;
    return 0;
  }
  received_.append(bytes.data(), static_cast<std::size_t>(got));
  return static_cast<std::size_t>(got);
}

std::optional<HttpRequest> Connection::read() {
  has_begun_ = false;
  const auto idle_until = Clock::now() + limits_.patience;
  while (received_.empty() && !is_gone_) {
    if (!wait(POLLIN, idle_until)) return std::nullopt;
    receive();
  }
  if (is_gone_) return std::nullopt;
  Parser parser;
  parser.header_limit(limits_.header_bytes);
  parser.body_limit(limits_.body_bytes);
  parser.eager(true);
  const auto until = Clock::now() + limits_.patience;
  bool is_told_to_go_on = false;
  for (;;) {
    boost::system::error_code error;
    const std::size_t used = parser.put(boost::asio::buffer(received_), error);
    received_.erase(0, used);
    if (error && error != http::error::need_more) refuse_bytes(error, limits_);
    if (parser.is_done()) break;
    if (parser.is_header_done() && !is_told_to_go_on &&
        text_of(parser, http::field::expect) == "100-continue") {
      is_told_to_go_on = true;
      unsent_ += "HTTP/1.1 100 Continue\r\n\r\n";
      send_some();
    }
    if (!error && used > 0) continue;
    if (received_.size() > kMostUnread) throw ApiError(431, "the request has lines that are too long");
    if (!wait(POLLIN, until)) {
      if (stopping_) return std::nullopt;
      throw ApiError(408, fmt::format("the request was not there after {} ms", limits_.patience.count()));
    }
    receive();
    if (is_gone_) return std::nullopt;
  }
  keeps_ = parser.keep_alive();
  is_new_ = parser.get().version() >= 11;
  return request_of(parser);
}

bool Connection::is_gone() {
  if (is_gone_) return true;
  pollfd one{socket_, POLLRDHUP, 0};
  is_gone_ = poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  return is_gone_;
}

void Connection::answer(int status, std::string_view body, std::string_view headers) {
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  unsent_ += fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}Connection: {}\r\n\r\n",
      status, std::string_view(reason.data(), reason.size()), body.size(), headers,
      keeps_ ? "keep-alive" : "close");
  unsent_ += body;
}

void Connection::piece(std::string_view data) {
  // HTTP/1.0 knows no chunks: the end of the connection is the end there.
  unsent_ += is_new_ ? fmt::format("{:x}\r\n{}\r\n", data.size(), data) : std::string(data);
  send_some();
}

void Connection::begin_events() {
  has_begun_ = true;
  if (!is_new_) keeps_ = false;
  unsent_ += fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n{}"
      "Connection: {}\r\n\r\n",
      is_new_ ? "Transfer-Encoding: chunked\r\n" : "", keeps_ ? "keep-alive" : "close");
}

void Connection::event(std::string_view data) {
  piece(fmt::format("data: {}\n\n", data));
}

void Connection::end_events() {
  if (is_new_) unsent_ += "0\r\n\r\n";
}

bool Connection::send_some() {
  while (!unsent_.empty() && !is_gone_) {
    const ssize_t sent = send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (sent < 0) is_gone_ = true;
    unsent_.erase(0, sent < 0 ? unsent_.size() : static_cast<std::size_t>(sent));
  }
  return !is_gone_;
}

bool Connection::flush() {
  const auto until = Clock::now() + limits_.patience;
  while (send_some() && !unsent_.empty()) {
    if (!wait(POLLOUT, until)) is_gone_ = true;
  }
  return !is_gone_;
}

void Connection::drain(std::chrono::milliseconds most) {
  shutdown(socket_, SHUT_WR);
  const auto until = Clock::now() + std::min(limits_.patience, most);
  for (std::size_t dropped = 0; dropped < kMostDropped && !is_gone_; received_.clear()) {
    const std::size_t got = receive();
    if (got == 0 && !wait(POLLIN, until)) return;
    dropped += got;
  }
}

}  // namespace lpmm
