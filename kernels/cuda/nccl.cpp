#include "kernels/cuda/nccl.h"

#include <dlfcn.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/nccl_interface.h"

namespace lpmm::kernels {
namespace {

using nccl::Library;

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// Null where it is not found, or is too old.
const Library* loaded() {
  static const std::optional<Library> library = []() -> std::optional<Library> {
    void* const file = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) return {};
    Library l{};
    int version = 0;
    const bool has_all =
        find(file, "ncclGetVersion", l.version) && find(file, "ncclGetUniqueId", l.unique_id) &&
        find(file, "ncclCommInitRankConfig", l.open) && find(file, "ncclCommAbort", l.abort) &&
        find(file, "ncclCommGetAsyncError", l.state) && find(file, "ncclGetErrorString", l.text) &&
        find(file, "ncclGroupStart", l.begin_group) && find(file, "ncclGroupEnd", l.end_group) &&
        find(file, "ncclSend", l.send) && find(file, "ncclRecv", l.receive);
    if (!has_all || l.version(&version) != nccl::kSuccess || version < nccl::kLeastVersion) return {};
    return l;
  }();
  return library ? &*library : nullptr;
}

class NcclLink final : public DeviceLink {
 public:
  NcclLink(const Library& library, const nccl::Id& id, int rank, int ranks, std::unique_ptr<SideQueue> queue)
      : library_(library), queue_(std::move(queue)) {
    nccl::Config config;
    nccl::Result opened = nccl::kSuccess;
    queue_->run([&] { opened = library_.open(&link_, ranks, id, rank, &config); });
    check(opened);
  }
  // Nothing is under way when all have what they were sent; what is, after a failure, ends here.
  ~NcclLink() override {
    if (link_ != nullptr) queue_->run([&] { library_.abort(link_); });
  }

  Mark mark() override { return queue_->mark(); }

  void begin(const Mark& after, std::span<const Part> send, std::span<const Part> receive) override {
    queue_->wait_for(after ? after : queue_->mark());
    CUstream_st* const stream = queue_->stream();
    nccl::Result first = nccl::kSuccess;  // that is not well
    const auto note = [&](nccl::Result result) {
      if (is_well(first)) first = result;
    };
    queue_->run([&] {
      note(library_.begin_group());
      for (const Part& p : send) {
        if (p.bytes > 0) note(library_.send(p.at, size(p), nccl::kBytes, p.rank, link_, stream));
      }
      for (const Part& p : receive) {
        if (p.bytes > 0) note(library_.receive(p.at, size(p), nccl::kBytes, p.rank, link_, stream));
      }
      note(library_.end_group());
    });
    check(first);
  }

  bool is_done() override {
    nccl::Result state = nccl::kSuccess;
    nccl::Result asked = nccl::kSuccess;
    queue_->run([&] { asked = library_.state(link_, &state); });
    check(asked);
    check(state);
    if (state == nccl::kInProgress) return false;  // it opens, or is being queued
    return queue_->is_done();
  }

 private:
  static std::size_t size(const Part& part) { return static_cast<std::size_t>(part.bytes); }
  static bool is_well(nccl::Result result) { return result == nccl::kSuccess || result == nccl::kInProgress; }
  void check(nccl::Result result) const {
    if (is_well(result)) return;
    throw std::runtime_error(std::string("NCCL: ") + library_.text(result) + " (NCCL_DEBUG=WARN says more)");
  }

  const Library& library_;
  const std::unique_ptr<SideQueue> queue_;
  nccl::Link* link_ = nullptr;
};

}  // namespace

std::string nccl_name() {
  const Library* const library = loaded();
  nccl::Id id{};
  if (library == nullptr || library->unique_id(&id) != nccl::kSuccess) return {};
  return {id.bytes, sizeof id.bytes};
}

std::unique_ptr<DeviceLink> open_nccl(std::string_view name, int rank, int ranks,
                                      std::unique_ptr<SideQueue> queue) {
  const Library* const library = loaded();
  nccl::Id id{};
  if (library == nullptr || name.size() != sizeof id.bytes) return nullptr;
  std::memcpy(id.bytes, name.data(), name.size());
  try {
    return std::make_unique<NcclLink>(*library, id, rank, ranks, std::move(queue));
  } catch (const std::runtime_error&) {
    return nullptr;
  }
}

std::string nccl_version() {
  const Library* const library = loaded();
  int version = 0;
  if (library == nullptr || library->version(&version) != nccl::kSuccess) return {};
  return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace lpmm::kernels
