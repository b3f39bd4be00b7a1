#include "experiments/download/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>

#include "experiments/download/digest.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

using Clock = std::chrono::steady_clock;

// What one transfer has brought so far.
struct Receiver {
  const std::string& address;  // as messages show it
  const DataFile& expected;
  Progress& progress;
  File file;
  Sha256 digest = {};
  Clock::time_point start = Clock::now();
  std::int64_t bytes = 0;
  std::exception_ptr error = {};

  void take(std::span<const std::byte> piece) {
    bytes += static_cast<std::int64_t>(piece.size());
    if (bytes > expected.bytes) refuse(fmt::format("{} bytes", expected.bytes), "more");
    file.write(piece);
    digest.add(piece);
    if (progress.due()) show();
  }
  void show() const {
    const auto done = static_cast<double>(bytes);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    progress.show(fmt::format("{}  {} of {}, {:.0f} %, {}/s", expected.name, format_bytes(bytes),
                              format_bytes(expected.bytes), 100 * done / static_cast<double>(expected.bytes),
                              format_bytes(static_cast<std::int64_t>(done / std::max(seconds, 1e-3)))));
  }
  void finish() {
    if (bytes != expected.bytes) {
      refuse(fmt::format("{} bytes", expected.bytes), fmt::format("{}", bytes));
    }
    const std::string found = digest.hex();
    if (found != expected.sha256) refuse("SHA-256 " + expected.sha256, found);
    file.sync();
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

}  // namespace

void fetch(const std::string& address, const DataFile& expected, const std::string& path, long patience,
           Progress& progress) {
  const std::string shown = without_password(address);
  Receiver receiver{shown, expected, progress, File(path, File::Mode::kCreate)};
  char why[CURL_ERROR_SIZE] = "";  // libcurl writes to it as long as it lives
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) throw RunError("libcurl does not start");
  const auto set = [&](CURLoption option, auto value) {
    const CURLcode code = curl_easy_setopt(curl.get(), option, value);
    if (code != CURLE_OK) throw RunError(fmt::format("libcurl: {}", curl_easy_strerror(code)));
  };
  set(CURLOPT_ERRORBUFFER, why);
  set(CURLOPT_URL, address.c_str());
  set(CURLOPT_USERAGENT, "lpmm/" LPMM_VERSION);
  set(CURLOPT_PROTOCOLS_STR, "http,https");  // of redirects too
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_QUICK_EXIT, 1L);  // does not wait for a name's address where nobody wants it any more
  set(CURLOPT_CONNECTTIMEOUT, patience);
  set(CURLOPT_LOW_SPEED_TIME, patience);
  set(CURLOPT_LOW_SPEED_LIMIT, 100L);  // bytes a second
  set(CURLOPT_WRITEFUNCTION, receive);
  set(CURLOPT_WRITEDATA, &receiver);
  set(CURLOPT_XFERINFOFUNCTION, stop_asked);
  set(CURLOPT_NOPROGRESS, 0L);
  const CURLcode code = curl_easy_perform(curl.get());
  if (receiver.error) std::rethrow_exception(receiver.error);
  InterruptGuard::check();
  if (code != CURLE_OK) {
    throw Unreachable(fmt::format("{}: {}", shown, why[0] != '\0' ? why : curl_easy_strerror(code)));
  }
  receiver.finish();
}

}  // namespace lpmm
