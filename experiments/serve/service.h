// A model as a service, in OpenAI's API: GET /v1/models, POST /v1/completions, POST /v1/chat/completions.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "experiments/serve/connection.h"
#include "experiments/serve/request.h"

namespace lpmm {

struct ServiceLimits {
  std::size_t waiting = 32;            // requests that wait while another one is answered
  std::chrono::seconds patience{600};  // from a request's arrival to the end of its answer
};

// Requests are answered one after the other, in the order of their arrival.
class Turns {
 public:
  // Returns once it is this caller's turn. Throws ApiError where `most` others wait already.
  // `goes_on` is asked meanwhile; what it throws gives the place up.
  void take(std::size_t most, const std::function<void()>& goes_on);
  void leave();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::uint64_t> waiting_;  // the first one has its turn
  std::uint64_t next_ = 0;
};

class Service {
 public:
  // `token`: what clients must bring; empty: nothing.
  Service(const Served& served, const ServiceLimits& limits, std::string token,
          const std::atomic<bool>& stopping)
      : served_(served), limits_(limits), token_(std::move(token)), stopping_(stopping) {}
  // Answers a request; any number of threads may call it. Throws ApiError.
  void handle(const HttpRequest& request, Connection& connection);

 private:
  void check(const HttpRequest& request) const;
  void answer(const TextRequest& request, Connection& connection, const std::function<void()>& goes_on);

  const Served& served_;
  const ServiceLimits limits_;
  const std::string token_;
  const std::atomic<bool>& stopping_;
  std::atomic<std::uint64_t> answers_ = 0;
  Turns turns_;
};

}  // namespace lpmm
