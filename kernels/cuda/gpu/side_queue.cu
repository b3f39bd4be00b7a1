#include "kernels/cuda/gpu/side_queue.h"

#include "kernels/cuda/gpu/gpu.h"
#include "kernels/cuda/launch.h"

namespace lpmm::kernels::cuda {
namespace {

class GpuSideQueue final : public SideQueue {
 public:
  GpuSideQueue(int number, cudaStream_t kernels) : number_(number), kernels_(kernels) {
    // What is sent goes first: its kernels are few, and others wait for them.
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities of streams");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "stream of a link");
  }
  ~GpuSideQueue() override { cudaStreamDestroy(stream_); }

  CUstream_st* stream() override { return stream_; }
  DeviceLink::Mark mark() override {
    const int before = use_gpu(number_);
    cudaEvent_t event = nullptr;
    cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    DeviceLink::Mark mark(event, [](cudaEvent_t e) {
      if (e != nullptr) cudaEventDestroy(e);
    });
    if (error == cudaSuccess) error = cudaEventRecord(event, kernels_);
    use_gpu(before);
    check(error, "event of a link");
    return mark;
  }
  void wait_for(const DeviceLink::Mark& mark) override {
    const auto event = static_cast<cudaEvent_t>(const_cast<void*>(mark.get()));
    check(cudaStreamWaitEvent(stream_, event, 0), "wait of a link");
  }
  bool is_done() override {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaErrorNotReady) return false;
    check(state, "exchange of a link");
    return true;
  }
  void run(const std::function<void()>& call) override {
    const int before = use_gpu(number_);
    call();
    use_gpu(before);
  }

 private:
  int number_;
  cudaStream_t kernels_, stream_ = nullptr;
};

}  // namespace

std::unique_ptr<SideQueue> open_side_queue(int number, cudaStream_t kernels) {
  return std::make_unique<GpuSideQueue>(number, kernels);
}

}  // namespace lpmm::kernels::cuda
