#include "kernels/cuda/gpu/cudnn.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/cuda/gpu/loaded.h"

namespace lpmm::kernels::cuda {
namespace {

constexpr std::size_t kTensors = 3;
// The library's name of a tensor.
constexpr std::int64_t id_of(ConvTensor tensor) {
  return 1 + static_cast<std::int64_t>(tensor);
}

// One of the library's descriptors. Failures are reported at the end, by finish.
class Descriptor {
 public:
  Descriptor(const Cudnn& library, cudnnBackendDescriptorType_t type) : library_(&library) {
    note(library.create_descriptor(type, &descriptor_));
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) library_->destroy_descriptor(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept
      : library_(other.library_),
        descriptor_(std::exchange(other.descriptor_, nullptr)),
        status_(other.status_) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::initializer_list<T> values) {
    if (status_ != CUDNN_STATUS_SUCCESS) return;
    note(library_->set_attribute(descriptor_, name, type, static_cast<std::int64_t>(values.size()),
                                 values.begin()));
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& of) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, {of.get()});
  }
  // Returns how many there are; at most `most` of them go to `values`. 0 where the library fails.
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                   void* values) const {
    std::int64_t count = 0;
    const cudnnStatus_t status = library_->get_attribute(descriptor_, name, type, most, &count, values);
    return status == CUDNN_STATUS_SUCCESS ? count : 0;
  }
  cudnnStatus_t finish() {
    if (status_ == CUDNN_STATUS_SUCCESS) note(library_->finalize(descriptor_));
    return status_;
  }
  bool is_finished() { return finish() == CUDNN_STATUS_SUCCESS; }

 private:
  void note(cudnnStatus_t status) { status_ = status; }

  const Cudnn* library_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

// A bf16 tensor with its channels innermost: pixels of images, or taps of outputs.
Descriptor tensor(const Cudnn& library, ConvTensor which, std::int64_t outer, std::int64_t height,
                  std::int64_t width, std::int64_t channels) {
  constexpr std::int64_t kAlignment = 16;
  Descriptor d(library, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {id_of(which)});
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_BFLOAT16});
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {kAlignment});
  // The library names dimensions as NCHW, however they lie.
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, {outer, channels, height, width});
  d.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64,
        {height * width * channels, std::int64_t{1}, width * channels, channels});
  d.finish();
  return d;
}

Descriptor window(const Cudnn& library, const ConvShape& s) {
  const std::int64_t pad = s.pad, stride = s.stride, dilation = 1, dimensions = 2;
  Descriptor d(library, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  d.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
  d.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, {CUDNN_CROSS_CORRELATION});
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, {dimensions});
  d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, {pad, pad});
  d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, {pad, pad});
  d.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, {dilation, dilation});
  d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, {stride, stride});
  d.finish();
  return d;
}

// The names of an operation and of its parts.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, weights, y, window, alpha, beta;
};
constexpr OperationNames kForward{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr OperationNames kInputGradient{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr OperationNames kWeightGradient{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
constexpr const OperationNames& names_of(ConvTensor result) {
  if (result == ConvTensor::kY) return kForward;
  return result == ConvTensor::kX ? kInputGradient : kWeightGradient;
}

Descriptor operation(const Cudnn& library, const ConvPass& pass) {
  const ConvShape& s = pass.shape;
  const OperationNames& names = names_of(pass.result);
  const Descriptor x = tensor(library, ConvTensor::kX, s.batch, s.height, s.width, s.in),
                   weights = tensor(library, ConvTensor::kWeights, s.out, s.kernel, s.kernel, s.in),
                   y = tensor(library, ConvTensor::kY, s.batch, s.out_height(), s.out_width(), s.out),
                   of_window = window(library, s);
  Descriptor d(library, names.type);
  d.set(names.x, x);
  d.set(names.weights, weights);
  d.set(names.y, y);
  d.set(names.window, of_window);
  d.set(names.alpha, CUDNN_TYPE_FLOAT, {1.0F});
  d.set(names.beta, CUDNN_TYPE_FLOAT, {pass.accumulate ? 1.0F : 0.0F});
  d.finish();
  return d;
}

// Proposals of engines and their settings, the one that the library thinks fastest first.
std::vector<Descriptor> proposals(const Cudnn& library, cudnnHandle_t handle, const ConvPass& pass) {
  const Descriptor of_pass = operation(library, pass);
  Descriptor graph(library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, {handle});
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, of_pass);
  if (!graph.is_finished()) return {};
  Descriptor search(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  search.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  search.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, {CUDNN_HEUR_MODE_A});
  if (!search.is_finished()) return {};
  const std::int64_t count =
      search.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<Descriptor> all;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    raw.push_back(all.emplace_back(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  const std::int64_t found =
      search.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raw.data());
  while (static_cast<std::int64_t>(all.size()) > found) all.pop_back();
  return all;
}

// True if an engine uses tensor cores, gives the same bits each time and sums in fp32.
bool is_wanted(const Cudnn& library, const Descriptor& proposal) {
  const Descriptor engine(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  if (proposal.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw) != 1) return false;
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes.data());
  const auto end = notes.begin() + std::min<std::int64_t>(count, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const auto is_noted = [&](cudnnBackendNumericalNote_t note) {
    return std::find(notes.begin(), end, note) != end;
  };
  return is_noted(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) && !is_noted(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) &&
         !is_noted(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) &&
         !is_noted(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
         !is_noted(CUDNN_NUMERICAL_NOTE_WINOGRAD) && !is_noted(CUDNN_NUMERICAL_NOTE_FFT);
}

}  // namespace

std::optional<Cudnn> load_cudnn() {
  const auto open = [](const std::string& name) {
    return dlopen((name + ".so." + std::to_string(CUDNN_MAJOR)).c_str(), RTLD_NOW | RTLD_LOCAL);
  };
  // If one of its parts is missing, the library ends the program.
  for (const char* part : {"graph", "heuristic", "engines_precompiled"}) {
    if (open(std::string("libcudnn_") + part) == nullptr) return {};
  }
  const std::string file = "libcudnn";
  void* const library = open(file);
  if (library == nullptr) return {};
  Cudnn c{};
  try {
    find(library, file, "cudnnCreate", c.create);
    find(library, file, "cudnnDestroy", c.destroy);
    find(library, file, "cudnnSetStream", c.set_stream);
    find(library, file, "cudnnGetVersion", c.version);
    find(library, file, "cudnnGetErrorString", c.status_text);
    find(library, file, "cudnnBackendCreateDescriptor", c.create_descriptor);
    find(library, file, "cudnnBackendDestroyDescriptor", c.destroy_descriptor);
    find(library, file, "cudnnBackendSetAttribute", c.set_attribute);
    find(library, file, "cudnnBackendGetAttribute", c.get_attribute);
    find(library, file, "cudnnBackendFinalize", c.finalize);
    find(library, file, "cudnnBackendExecute", c.execute);
  } catch (const std::runtime_error&) {
    return {};
  }
  return c;
}

std::string version_of(const Cudnn& library) {
  const std::size_t v = library.version();
  return "cuDNN " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

class CudnnConvolutions::Plan final : public LibraryConvolution {
 public:
  // Makes a plan of a proposal, which is kept, since the plan may look at it.
  Plan(const CudnnConvolutions& of, const ConvPass& pass, Descriptor proposal)
      : of_(of),
        result_(pass.result),
        workspace_bytes_(pass.workspace_bytes),
        proposal_(std::move(proposal)),
        plan_(of.library_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal_);
  }
  bool fits() {
    std::int64_t bytes = 0;
    return plan_.is_finished() &&
           plan_.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes) == 1 &&
           bytes <= workspace_bytes_;
  }
  void run(const void* first, const void* second, void* result, void* workspace) const override {
    std::array<void*, kTensors> at = {const_cast<void*>(first), const_cast<void*>(second), result};
    // Moves the result from behind the factors to its place among them.
    std::rotate(at.begin() + static_cast<std::ptrdiff_t>(result_), at.end() - 1, at.end());
    Descriptor pack(of_.library_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
             {id_of(ConvTensor::kX), id_of(ConvTensor::kWeights), id_of(ConvTensor::kY)});
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, {at[0], at[1], at[2]});
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, {workspace});
    cudnnStatus_t status = pack.finish();
    const std::lock_guard lock(of_.mutex_);
    if (status == CUDNN_STATUS_SUCCESS) status = of_.library_.execute(of_.handle_, plan_.get(), pack.get());
    if (status == CUDNN_STATUS_SUCCESS) return;
    throw std::runtime_error(std::string("cuDNN: convolution: ") + of_.library_.status_text(status));
  }

 private:
  const CudnnConvolutions& of_;
  ConvTensor result_;
  std::int64_t workspace_bytes_;
  Descriptor proposal_, plan_;
};

CudnnConvolutions::CudnnConvolutions(const Cudnn& library, cudnnHandle_t handle)
    : library_(library), handle_(handle) {}
CudnnConvolutions::~CudnnConvolutions() {
  plans_.clear();
  library_.destroy(handle_);
}

std::unique_ptr<CudnnConvolutions> CudnnConvolutions::start(const Cudnn& library, CUstream_st* stream) {
  cudnnHandle_t handle = nullptr;
  if (library.create(&handle) != CUDNN_STATUS_SUCCESS) return nullptr;
  std::unique_ptr<CudnnConvolutions> all(new CudnnConvolutions(library, handle));
  return library.set_stream(handle, stream) == CUDNN_STATUS_SUCCESS ? std::move(all) : nullptr;
}

const LibraryConvolution* CudnnConvolutions::find(const ConvPass& pass) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = plans_.try_emplace(pass);
  if (is_new) at->second = plan_for(pass);
  return at->second.get();
}

std::unique_ptr<CudnnConvolutions::Plan> CudnnConvolutions::plan_for(const ConvPass& pass) const {
  for (Descriptor& proposal : proposals(library_, handle_, pass)) {
    if (!is_wanted(library_, proposal)) continue;
    auto plan = std::make_unique<Plan>(*this, pass, std::move(proposal));
    if (plan->fits()) return plan;
  }
  return nullptr;
}

}  // namespace lpmm::kernels::cuda
