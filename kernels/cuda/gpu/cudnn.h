// Convolutions by cuDNN, which need not be there.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "kernels/cuda/library_convolution.h"

#if defined(LPMM_HAS_CUDNN)
#include <cudnn_graph.h>
#endif

struct CUstream_st;

namespace lpmm::kernels::cuda {

#if defined(LPMM_HAS_CUDNN)
// The functions used of the library.
struct Cudnn {
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) status_text;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};
// Nothing where the library is not found or lacks something.
std::optional<Cudnn> load_cudnn();
std::string version_of(const Cudnn& library);  // "cuDNN 9.19.0"

class CudnnConvolutions {
 public:
  // Null where the library does not start: it is as if it were not there.
  static std::unique_ptr<CudnnConvolutions> start(const Cudnn& library, CUstream_st* stream);
  ~CudnnConvolutions();
  CudnnConvolutions(const CudnnConvolutions&) = delete;
  CudnnConvolutions& operator=(const CudnnConvolutions&) = delete;

  // One pass has one plan, the same in every run on one kind of device: the first of the library's proposals
  // that gives the same bits each time, adds in fp32 and fits the workspace. Null where there is none.
  const LibraryConvolution* find(const ConvPass& pass);

 private:
  class Plan;
  CudnnConvolutions(const Cudnn& library, cudnnHandle_t handle);
  std::unique_ptr<Plan> plan_for(const ConvPass& pass) const;

  Cudnn library_;
  mutable std::mutex mutex_;  // of the handle and the plans
  cudnnHandle_t handle_;
  std::map<ConvPass, std::unique_ptr<Plan>> plans_;  // null: searched, and there is none
};
#else
// Built without the library's header.
struct Cudnn {};
inline std::optional<Cudnn> load_cudnn() {
  return {};
}
inline std::string version_of(const Cudnn&) {
  return {};
}
struct CudnnConvolutions {
  static std::unique_ptr<CudnnConvolutions> start(const Cudnn&, CUstream_st*) { return {}; }
  const LibraryConvolution* find(const ConvPass&) { return nullptr; }
};
#endif

}  // namespace lpmm::kernels::cuda
