// Fuzzes addresses, and the answers of a server. Answers come from a socket of this process, which stands as
// proxy for every address, so that a redirect leads nowhere else.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <mutex>
#include <thread>

#include "experiments/download/http.h"
#include "lpmm/base/progress.h"
#include "lpmm/base/text.h"
#include "tests/fuzz/input.h"

namespace {

// Sends the same answer to every connection, once it has asked.
class Server {
 public:
  Server() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    lpmm::fuzz::must(bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     listen(socket_, 16) == 0 &&
                     getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const std::string proxy = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    for (const char* name : {"http_proxy", "https_proxy", "all_proxy"}) setenv(name, proxy.c_str(), 1);
    for (const char* name : {"no_proxy", "NO_PROXY"}) unsetenv(name);
    std::thread([this] { serve(); }).detach();
  }
  void answer(lpmm::fuzz::Bytes bytes) {
    const std::lock_guard lock(mutex_);
    answer_ = lpmm::fuzz::text(bytes);
  }

 private:
  [[noreturn]] void serve() {
    for (;;) {
      const int connection = accept(socket_, nullptr, nullptr);
      if (connection < 0) continue;
      char asked[4096];  // all of it
      if (recv(connection, asked, sizeof asked, 0) > 0) {
        const std::lock_guard lock(mutex_);
        send(connection, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      }
      close(connection);
    }
  }

  int socket_;
  std::mutex mutex_;
  std::string answer_;
};

}  // namespace

LPMM_FUZZ_TARGET(bytes) {
  static auto* const server = new Server;  // outlives its thread
  static lpmm::fuzz::MemoryFile file;
  static lpmm::Progress progress(true);
  const std::string text(lpmm::fuzz::text(bytes));
  lpmm::without_password(text);
  server->answer(bytes);
  lpmm::File part(file.path(), lpmm::File::Mode::kAppend);
  part.truncate(0);
  lpmm::fetch("http://data.test/file",
              {"file", 5, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}, file.path(),
              part, 1, progress);
}
