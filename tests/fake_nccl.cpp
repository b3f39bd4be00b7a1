// A library that stands in for NCCL: ranks are threads of one process, and memory is the host's. As with
// NCCL, no call waits for another rank; bytes move when a rank asks how its link is. tests/fake_nccl.h loads
// it.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/nccl_interface.h"

namespace nccl = lpmm::kernels::nccl;

namespace {

constexpr nccl::Result kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6;

// The ranks that have opened a link by one name.
struct Group {
  int ranks = 0;
  std::map<int, bool> is_open;                                      // false: it has ended
  std::map<std::pair<int, int>, std::deque<std::string>> underway;  // from, to
};

struct Operation {
  bool sends = false;
  char* at = nullptr;
  std::size_t bytes = 0;
  int rank = 0;
};

std::mutex mutex;  // of all that follows
std::map<std::string, std::shared_ptr<Group>> groups;
int names = 0, fails = 0;

// What a thread has called since it began a group.
struct Call {
  nccl::Link* link = nullptr;
  std::vector<Operation> operations;
};
thread_local Call call;

}  // namespace

struct lpmm::kernels::nccl::Link {
  std::shared_ptr<Group> group;
  int rank = 0;
  std::vector<Operation> operations;  // that are under way
  nccl::Result failed = nccl::kSuccess;

  nccl::Result advance() {
    if (failed != nccl::kSuccess) return failed;
    if (static_cast<int>(group->is_open.size()) < group->ranks) return nccl::kInProgress;
    // What has come is received before more is sent, one at a time: memory that is sent may not be written
    // yet.
    std::vector<Operation> left;
    bool has_sent = false;
    const auto comes_later = [&](const Operation& o) {
      return std::ranges::any_of(left, [&](const Operation& l) { return !l.sends && l.rank == o.rank; });
    };
    for (const bool sends : {false, true}) {
      for (const Operation& o : operations) {
        if (o.sends != sends) continue;
        auto& to = group->underway[{sends ? rank : o.rank, sends ? o.rank : rank}];
        if (sends && !std::exchange(has_sent, true)) {
          to.emplace_back(o.at, o.bytes);
        } else if (sends) {
          left.push_back(o);
        } else if (comes_later(o) || to.empty()) {
          if (to.empty() && !group->is_open[o.rank]) return failed = kRemoteError;
          left.push_back(o);
        } else {
          if (to.front().size() != o.bytes) return failed = kInvalidUsage;
          std::memcpy(o.at, to.front().data(), o.bytes);
          to.pop_front();
        }
      }
    }
    operations = std::move(left);
    return operations.empty() ? nccl::kSuccess : nccl::kInProgress;
  }
};

extern "C" {

// The next so many calls to open a link fail.
void lpmm_fake_nccl_fails(int count) {
  const std::scoped_lock lock(mutex);
  fails = count;
}

nccl::Result ncclGetVersion(int* version) {
  *version = 23456;
  return nccl::kSuccess;
}
nccl::Result ncclGetUniqueId(nccl::Id* id) {
  const std::scoped_lock lock(mutex);
  *id = {};
  const std::string name = "fake " + std::to_string(++names);
  std::memcpy(id->bytes, name.data(), name.size());
  return nccl::kSuccess;
}
nccl::Result ncclCommInitRankConfig(nccl::Link** link, int ranks, nccl::Id id, int rank,
                                    nccl::Config* config) {
  if (config->size < 20 || config->magic != 0xcafebeef || config->blocking != 0) return kInvalidArgument;
  const std::scoped_lock lock(mutex);
  if (fails > 0) {
    --fails;
    return kInvalidUsage;
  }
  auto& group = groups[std::string(id.bytes, sizeof id.bytes)];
  if (!group) group = std::make_shared<Group>();
  group->ranks = ranks;
  if (!group->is_open.emplace(rank, true).second) return kInvalidUsage;
  *link = new nccl::Link{group, rank, {}, {}};
  return nccl::kInProgress;
}
nccl::Result ncclCommGetAsyncError(nccl::Link* link, nccl::Result* state) {
  const std::scoped_lock lock(mutex);
  *state = link->advance();
  return nccl::kSuccess;
}
const char* ncclGetErrorString(nccl::Result result) {
  return result == kRemoteError ? "remote process exited or there was a network error" : "invalid usage";
}
nccl::Result ncclGroupStart() {
  call = {};
  return nccl::kSuccess;
}
nccl::Result ncclSend(const void* from, std::size_t bytes, int type, int rank, nccl::Link* link,
                      CUstream_st* /*stream*/) {
  if (type != nccl::kBytes || rank < 0 || rank >= link->group->ranks) return kInvalidArgument;
  call.link = link;
  call.operations.push_back({true, static_cast<char*>(const_cast<void*>(from)), bytes, rank});
  return nccl::kSuccess;
}
nccl::Result ncclRecv(void* to, std::size_t bytes, int type, int rank, nccl::Link* link,
                      CUstream_st* /*stream*/) {
  if (type != nccl::kBytes || rank < 0 || rank >= link->group->ranks) return kInvalidArgument;
  call.link = link;
  call.operations.push_back({false, static_cast<char*>(to), bytes, rank});
  return nccl::kSuccess;
}
nccl::Result ncclGroupEnd() {
  if (call.link == nullptr) return nccl::kSuccess;
  const std::scoped_lock lock(mutex);
  if (!call.link->operations.empty()) return kInvalidUsage;
  call.link->operations = std::move(call.operations);
  return nccl::kInProgress;
}
nccl::Result ncclCommAbort(nccl::Link* link) {
  const std::scoped_lock lock(mutex);
  link->group->is_open[link->rank] = false;
  delete link;
  return nccl::kSuccess;
}
}
