#include "lpmm/ranks/ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace lpmm {
namespace {

class Alone final : public Ranks {
 public:
  Alone() : Ranks(0, 1) {}
  void swap_at(const RankPlace&, std::span<const std::span<const std::byte>>,
               std::span<const std::span<std::byte>>) override {}
  void set_timeout(double) override {}
  double timeout() const override { return 0; }
};

// A socket that is closed once.
class Socket {
 public:
  explicit Socket(int number = -1) : number_(number) {}
  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Socket() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

class LinkedRanks final : public Ranks {
 public:
  LinkedRanks(int rank, std::vector<Socket> peers, double timeout)
      : Ranks(rank, static_cast<int>(peers.size())), peers_(std::move(peers)), timeout_(timeout) {}

  void swap_at(const RankPlace& place, std::span<const std::span<const std::byte>> send,
               std::span<const std::span<std::byte>> receive) override {
    if (!lost_.empty()) throw RankLost(lost_);  // what comes may be the rest of something else
    std::vector<std::span<const std::byte>> out(send.begin(), send.end());
    std::vector<std::span<std::byte>> in(receive.begin(), receive.end());
    out[static_cast<std::size_t>(rank())] = {};
    in[static_cast<std::size_t>(rank())] = {};
    auto heard = Clock::now();
    for (std::vector<pollfd> waiting; !(waiting = waiting_for(out, in)).empty();) {
      const double silent = std::chrono::duration<double>(Clock::now() - heard).count();
      const int left = static_cast<int>(std::clamp(1000 * (timeout_ - silent), 0.0, 1e9));
      const int ready = poll(waiting.data(), waiting.size(), left);
      if (ready < 0 && errno == EINTR) continue;  // a signal: whoever asked for a stop is heard later
      if (ready <= 0) {
        lose(first_open(out, in), fmt::format("has not been heard of for {:g} s", timeout_), place);
      }
      for (const pollfd& p : waiting) {
        if (p.revents != 0 && move(p, out, in, place)) heard = Clock::now();
      }
    }
  }

  void set_timeout(double seconds) override { timeout_ = seconds; }
  double timeout() const override { return timeout_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Out = std::vector<std::span<const std::byte>>;
  using In = std::vector<std::span<std::byte>>;

  std::vector<pollfd> waiting_for(const Out& out, const In& in) const {
    std::vector<pollfd> waiting;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const int events = (out[i].empty() ? 0 : POLLOUT) | (in[i].empty() ? 0 : POLLIN);
      if (events != 0) waiting.push_back({peers_[i].number(), static_cast<short>(events), 0});
    }
    return waiting;
  }
  std::size_t first_open(const Out& out, const In& in) const {
    std::size_t i = 0;
    while (i + 1 < peers_.size() && in[i].empty()) ++i;
    if (!in[i].empty()) return i;
    for (i = 0; i + 1 < peers_.size() && out[i].empty();) ++i;
    return i;
  }
  // Moves what a socket has or takes now. False: nothing, this time.
  bool move(const pollfd& p, Out& out, In& in, const RankPlace& place) {
    std::size_t peer = 0;
    while (peers_[peer].number() != p.fd) ++peer;
    bool moved = false;
    if (!in[peer].empty() && (p.revents & ~POLLOUT) != 0) {
      const ssize_t count = recv(p.fd, in[peer].data(), in[peer].size(), MSG_DONTWAIT);
      if (count == 0) lose(peer, "has ended", place);
      moved = take(count, peer, in[peer], place);
    }
    if (!out[peer].empty() && (p.revents & ~POLLIN) != 0) {
      const ssize_t count = send_now(p.fd, out[peer]);
      if (count > 0) sent_ += count;
      moved = take(count, peer, out[peer], place) || moved;
    }
    return moved;
  }
  static ssize_t send_now(int socket, std::span<const std::byte> bytes) {
    return send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  template <class Span>
  bool take(ssize_t count, std::size_t peer, Span& left, const RankPlace& place) {
    if (count < 0 && errno != EAGAIN && errno != EINTR) lose(peer, "has ended", place);
    if (count <= 0) return false;
    left = left.subspan(static_cast<std::size_t>(count));
    return true;
  }
  [[noreturn]] void lose(std::size_t peer, const std::string& what, const RankPlace& place) {
    lost_ = fmt::format("rank {} {}, {}", peer, what, to_string(place));
    throw RankLost(lost_);
  }

  std::vector<Socket> peers_;  // that of this rank is none
  double timeout_;
  std::string lost_;  // why a rank was lost
};

}  // namespace

std::string to_string(const RankPlace& place) {
  return fmt::format("in step {} ({})", place.step, place.phase);
}

std::string Ranks::name_of(int rank) const {
  return fmt::format("rank {}", rank);
}

std::vector<std::string> Ranks::gather(std::string_view mine) {
  const auto n = static_cast<std::size_t>(size_);
  std::vector<std::string> parts(n);
  parts[static_cast<std::size_t>(rank_)] = mine;
  if (n == 1) return parts;
  const auto length = static_cast<std::uint64_t>(mine.size());
  std::vector<std::uint64_t> lengths(n, length);
  std::vector<std::span<const std::byte>> send(n, std::as_bytes(std::span(&length, 1)));
  std::vector<std::span<std::byte>> receive;
  for (std::uint64_t& of_rank : lengths) receive.push_back(std::as_writable_bytes(std::span(&of_rank, 1)));
  swap(send, receive);
  for (std::size_t i = 0; i < n; ++i) {
    send[i] = std::as_bytes(std::span(mine));
    parts[i].resize(lengths[i]);
    receive[i] = std::as_writable_bytes(std::span(parts[i]));
  }
  swap(send, receive);
  return parts;
}

bool Ranks::any(bool mine) {
  const std::vector<char> each = all(static_cast<char>(mine));
  return std::any_of(each.begin(), each.end(), [](char one) { return one != 0; });
}

void Ranks::meet_at(const RankPlace& place) {
  const auto n = static_cast<std::size_t>(size_);
  const std::byte mine{};
  std::vector<std::byte> theirs(n);
  std::vector<std::span<std::byte>> receive;
  for (std::byte& one : theirs) receive.emplace_back(&one, 1);
  swap_at(place, std::vector<std::span<const std::byte>>(n, {&mine, 1}), receive);
}

void Ranks::wait_at(const RankPlace& place, const std::function<bool()>& is_done) const {
  constexpr int kYields = 100;  // it may be done soon
  const auto began = std::chrono::steady_clock::now();
  for (int idle = 0; !is_done(); ++idle) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() > timeout()) {
      throw RankLost(
          fmt::format("another rank has not been heard of for {:g} s, {}", timeout(), to_string(place)));
    }
    idle < kYields ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Ranks& alone() {
  static Alone ranks;
  return ranks;
}

std::vector<std::unique_ptr<Ranks>> linked_ranks(int count, double timeout_seconds) {
  const auto n = static_cast<std::size_t>(count);
  std::vector<std::vector<Socket>> sockets(n);
  for (auto& of_rank : sockets) of_rank.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      std::array<int, 2> pair = {};
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
        throw RunError(
            fmt::format("no sockets between {} ranks: {}; use fewer, or raise the limit on open files "
                        "(ulimit -n)",
                        count, std::strerror(errno)));
      }
      sockets[i][j] = Socket(pair[0]);
      sockets[j][i] = Socket(pair[1]);
    }
  }
  std::vector<std::unique_ptr<Ranks>> ranks;
  for (std::size_t i = 0; i < n; ++i) {
    ranks.push_back(
        std::make_unique<LinkedRanks>(static_cast<int>(i), std::move(sockets[i]), timeout_seconds));
  }
  return ranks;
}

}  // namespace lpmm
