#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "kernels/cpu/peer_address.h"
#include "kernels/cpu_packed.h"

namespace lpmm::kernels::cpu {
namespace {

// Memory of a process that the system copies from (process_vm_readv).
class ProcessMemory final : public PeerMemory {
 public:
  explicit ProcessMemory(const PeerAddress& at) : at_(at) {}
  const std::byte* address() const override { return at_.memory; }
  bool is_mapped() const override { return false; }

  void read(std::span<const Part> parts) const override {
    std::array<iovec, kAtOnce> from{}, to{};
    while (!parts.empty()) {
      const std::size_t count = std::min(parts.size(), kAtOnce);
      std::int64_t bytes = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const auto size = static_cast<std::size_t>(parts[i].bytes);
        from[i] = {const_cast<std::byte*>(parts[i].from), size};  // as iovec has it; it is read alone
        to[i] = {parts[i].to, size};
        bytes += parts[i].bytes;
      }
      copy_from(std::span(from).first(count), std::span(to).first(count), bytes);
      parts = parts.subspan(count);
    }
  }

 private:
  static constexpr std::size_t kAtOnce = 256;

  // The system may copy fewer bytes than it is asked for.
  void copy_from(std::span<iovec> from, std::span<iovec> to, std::int64_t bytes) const {
    while (bytes > 0) {
      const ssize_t got = process_vm_readv(static_cast<pid_t>(at_.process), to.data(), to.size(), from.data(),
                                           from.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw std::system_error(got < 0 ? errno : EFAULT, std::generic_category());
      bytes -= got;
      from = after(from, static_cast<std::size_t>(got));
      to = after(to, static_cast<std::size_t>(got));
    }
  }
  static std::span<iovec> after(std::span<iovec> all, std::size_t bytes) {
    while (!all.empty() && bytes >= all.front().iov_len) {
      bytes -= all.front().iov_len;
      all = all.subspan(1);
    }
    if (bytes > 0) {
      all.front().iov_base = static_cast<std::byte*>(all.front().iov_base) + bytes;
      all.front().iov_len -= bytes;
    }
    return all;
  }

  PeerAddress at_;
};

}  // namespace

// Whole pages, which the system gives zeroed and takes back at once; what is never touched is never resident.
std::byte* allocate(std::int64_t bytes) {
  void* memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}
void release(std::byte* memory, std::int64_t bytes) noexcept {
  munmap(memory, static_cast<std::size_t>(bytes));
}
void copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
void fill_with_zeros(void* to, std::int64_t bytes) {
  if (bytes > 0) std::memset(to, 0, static_cast<std::size_t>(bytes));
}

// Where processes may read only their descendants (Yama), those of this one's parent may read it from now on.
std::string peer_name(const std::byte* memory) {
  (void)prctl(PR_SET_PTRACER, getppid(), 0, 0, 0);  // fails where there is no such rule
  return name_of(PeerAddress::of(memory));
}
std::unique_ptr<PeerMemory> open_peer(std::string_view name) {
  const std::optional<PeerAddress> at = address_of(name);
  return at ? std::make_unique<ProcessMemory>(*at) : nullptr;
}

}  // namespace lpmm::kernels::cpu
