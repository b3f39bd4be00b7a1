#include "experiments/download/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "experiments/download/digest.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/version.h"

namespace lpmm {
namespace {

using Clock = std::chrono::steady_clock;

// Receives a file, and counts what has come so far.
struct Receiver {
  const std::string& address;  // as messages show it
  const DataFile& expected;
  Progress& progress;
  File& part;
  std::optional<Sha256> digest = Sha256();
  Clock::time_point start = Clock::now();
  std::int64_t bytes = 0;  // length of the file so far
  std::int64_t came = 0;   // over the network
  std::exception_ptr error = {};

  // Goes on with what lies at `path`.
  void go_on(const std::string& path) {
    const File before(path, File::Mode::kRead);
    const auto size = static_cast<std::int64_t>(before.size());
    if (size > expected.bytes) return start_over();
    std::vector<std::byte> piece(1 << 20);
    while (bytes < size) {
      InterruptGuard::check();
      const auto run =
          std::span(piece).first(std::min<std::size_t>(piece.size(), static_cast<std::size_t>(size - bytes)));
      before.read(static_cast<std::uint64_t>(bytes), run);
      digest->add(run);
      bytes += std::ssize(run);
    }
    if (bytes > 0) {
      progress.say(fmt::format("{}: goes on at {} of {}", expected.name, format_bytes(bytes),
                               format_bytes(expected.bytes)));
    }
  }
  void start_over() {
    part.truncate(0);
    digest.emplace();
    bytes = 0;
  }
  void take(std::span<const std::byte> piece) {
    bytes += std::ssize(piece);
    came += std::ssize(piece);
    if (bytes > expected.bytes) refuse(fmt::format("{} bytes", expected.bytes), "more");
    part.write(piece);
    digest->add(piece);
    if (progress.due()) show();
  }
  void show() const {
    const auto done = static_cast<double>(bytes);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    progress.show(fmt::format(
        "{}  {} of {}, {:.0f} %, {}/s", expected.name, format_bytes(bytes), format_bytes(expected.bytes),
        100 * done / static_cast<double>(expected.bytes),
        format_bytes(static_cast<std::int64_t>(static_cast<double>(came) / std::max(seconds, 1e-3)))));
  }
  bool is_whole() { return bytes == expected.bytes && digest->hex() == expected.sha256; }
  void finish() {
    if (bytes != expected.bytes) {
      refuse(fmt::format("{} bytes", expected.bytes), fmt::format("{}", bytes));
    }
    const std::string found = digest->hex();
    if (found != expected.sha256) refuse("SHA-256 " + expected.sha256, found);
  }
  [[noreturn]] void refuse(const std::string& wanted, const std::string& found) const {
    throw RunError(
        fmt::format("{}: not the known {}: expected {}, found {}", address, expected.name, wanted, found));
  }
};

std::size_t receive(char* data, std::size_t, std::size_t count, void* to) {
  auto& receiver = *static_cast<Receiver*>(to);
  try {
    receiver.take(std::as_bytes(std::span(data, count)));
    return count;
  } catch (...) {
    receiver.error = std::current_exception();  // may not pass through C
    return CURL_WRITEFUNC_ERROR;
  }
}

int stop_asked(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return InterruptGuard::asked() ? 1 : 0;
}

using Curl = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

Curl connection(const std::string& address, long patience, Receiver& receiver) {
  Curl curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) throw RunError("libcurl does not start");
  const auto set = [&](CURLoption option, auto value) {
    const CURLcode code = curl_easy_setopt(curl.get(), option, value);
    if (code != CURLE_OK) throw RunError(fmt::format("libcurl: {}", curl_easy_strerror(code)));
  };
  set(CURLOPT_URL, address.c_str());
  set(CURLOPT_USERAGENT, "lpmm/" LPMM_VERSION);
  set(CURLOPT_PROTOCOLS_STR, "http,https");  // redirects included
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_QUICK_EXIT, 1L);  // stops waiting for a name's address once nobody wants it
  set(CURLOPT_CONNECTTIMEOUT, patience);
  set(CURLOPT_LOW_SPEED_TIME, patience);
  set(CURLOPT_LOW_SPEED_LIMIT, 100L);  // bytes per second
  set(CURLOPT_WRITEFUNCTION, receive);
  set(CURLOPT_WRITEDATA, &receiver);
  set(CURLOPT_XFERINFOFUNCTION, stop_asked);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_RESUME_FROM_LARGE, curl_off_t{receiver.bytes});
  return curl;
}

// False where the server does not give the part that is asked for.
bool transfer(const std::string& address, long patience, Receiver& receiver) {
  char why[CURL_ERROR_SIZE] = "";  // libcurl writes to it as long as it lives
  const bool is_part = receiver.bytes > 0;
  const Curl curl = connection(address, patience, receiver);
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, why);
  const CURLcode code = curl_easy_perform(curl.get());
  if (receiver.error) std::rethrow_exception(receiver.error);
  InterruptGuard::check();
  if (code == CURLE_OK) return true;
  constexpr long kNoSuchRange = 416;
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (is_part && (code == CURLE_RANGE_ERROR || status == kNoSuchRange)) return false;
  throw Unreachable(fmt::format("{}: {}", receiver.address, why[0] != '\0' ? why : curl_easy_strerror(code)));
}

}  // namespace

std::int64_t fetch(const std::string& address, const DataFile& expected, const std::string& path, File& part,
                   long patience, Progress& progress) {
  const std::string shown = without_password(address);
  Receiver receiver{shown, expected, progress, part};
  receiver.go_on(path);
  if (receiver.bytes > 0) {
    const bool came = receiver.bytes == expected.bytes || transfer(address, patience, receiver);
    if (came && receiver.is_whole()) {
      part.sync();
      return receiver.came;
    }
    receiver.start_over();  // the bytes there are not the beginning of this file
  }
  transfer(address, patience, receiver);
  receiver.finish();
  part.sync();
  return receiver.came;
}

}  // namespace lpmm
