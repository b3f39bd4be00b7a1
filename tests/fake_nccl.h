// A stand-in for NCCL (tests/fake_nccl.cpp), and devices of the host that are linked by it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "kernels/cuda/guarded.h"
#include "kernels/cuda/nccl.h"

namespace lpmm {

// From now on it is the one that this process finds, by its name.
inline void* fake_nccl() {
  static void* const library = dlopen(LPMM_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return library;
}
// The next so many links are not opened.
inline void fail_links(int count) {
  reinterpret_cast<void (*)(int)>(dlsym(fake_nccl(), "lpmm_fake_nccl_fails"))(count);
}

// All that is queued is done at once. Marks are for the thread that queues, which is the one that opens the
// link: a mark that another one makes would be of work that is not to be waited for.
class NoQueue final : public kernels::SideQueue {
 public:
  CUstream_st* stream() override { return nullptr; }
  DeviceLink::Mark mark() override {
    EXPECT_EQ(std::this_thread::get_id(), opened_by_);
    return std::make_shared<const int>(0);
  }
  void wait_for(const DeviceLink::Mark& mark) override { EXPECT_NE(mark, nullptr); }
  bool is_done() override { return true; }
  void run(const std::function<void()>& call) override {
    const kernels::cuda_emulated::Unguarded now;
    call();
  }

 private:
  const std::thread::id opened_by_ = std::this_thread::get_id();
};

template <class Base>
class Linked : public Base {
 public:
  Linked() : Base(1) { fake_nccl(); }
  std::string link_name() override { return kernels::nccl_name(); }
  std::unique_ptr<DeviceLink> open_link(std::string_view name, int rank, int ranks) override {
    return kernels::open_nccl(name, rank, ranks, std::make_unique<NoQueue>());
  }
};

}  // namespace lpmm
