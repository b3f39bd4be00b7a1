// Tests what is asked of cuDNN for each convolution, against a library of our own that does what its manual
// says: descriptors are used once they are finalized, tensors lie as their strides tell. Needs CUDA and the
// header of cuDNN.
#if defined(LPMM_HAS_CUDA) && defined(LPMM_HAS_CUDNN)
#include "kernels/cuda/gpu/cudnn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/gpu/gpu.h"
#include "tests/kernels/activations.h"

namespace lpmm::kernels::cuda {
namespace {

using Notes = std::vector<cudnnBackendNumericalNote_t>;
struct Engine {
  Notes notes;
  std::int64_t workspace = 0;
  bool is_broken = false;  // its plan does not finalize
};
const Notes kGood = {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, CUDNN_NUMERICAL_NOTE_TENSOR_CORE};

// The library: what it proposes, and what it was asked.
struct Library {
  std::vector<Engine> engines;
  int alive = 0, searches = 0, handles = 0;
  std::vector<std::size_t> ran;  // engines
  bool fails = false;
} library;

struct Node {
  explicit Node(cudnnBackendDescriptorType_t of) : type(of) {}
  cudnnBackendDescriptorType_t type;
  bool is_final = false;
  std::size_t engine = 0;
  std::map<int, std::vector<std::byte>> values;
  std::map<int, std::shared_ptr<Node>> nodes;
};
using Handle = std::shared_ptr<Node>;
Node& node(cudnnBackendDescriptor_t d) {
  return **static_cast<Handle*>(d);
}
template <class T>
std::vector<T> all(const Node& of, int name) {
  const std::vector<std::byte>& bytes = of.values.at(name);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
      return 4;
    default:
      return 8;
  }
}

cudnnStatus_t set_attribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, std::int64_t count, const void* from) {
  Node& to = node(d);
  if (to.is_final) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const Handle& part = *static_cast<Handle*>(*static_cast<const cudnnBackendDescriptor_t*>(from));
    if (!part->is_final || count != 1) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    to.nodes[name] = part;
    return CUDNN_STATUS_SUCCESS;
  }
  const auto* const bytes = static_cast<const std::byte*>(from);
  to.values[name] = {bytes, bytes + static_cast<std::size_t>(count) * bytes_of(type)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get_attribute(cudnnBackendDescriptor_t const d, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t, std::int64_t most, std::int64_t* count, void* to) {
  const Node& from = node(d);
  if (!from.is_final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  const Engine& engine = library.engines[std::min(from.engine, library.engines.size() - 1)];
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = static_cast<std::int64_t>(library.engines.size());
    library.searches += to == nullptr ? 1 : 0;
    for (std::int64_t i = 0; to != nullptr && i < std::min(most, *count); ++i) {
      Node& proposal = node(static_cast<cudnnBackendDescriptor_t*>(to)[i]);
      if (proposal.type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
      proposal.engine = static_cast<std::size_t>(i);
      proposal.nodes = from.nodes;
      proposal.is_final = true;
    }
  } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    Node& of = node(*static_cast<cudnnBackendDescriptor_t*>(to));
    if (of.type != CUDNN_BACKEND_ENGINE_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
    of.engine = from.engine;
    of.is_final = true;
    *count = 1;
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    *count = static_cast<std::int64_t>(engine.notes.size());
    std::copy(engine.notes.begin(), engine.notes.end(), static_cast<cudnnBackendNumericalNote_t*>(to));
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *static_cast<std::int64_t*>(to) = engine.workspace;
    *count = 1;
  } else {
    return CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize(cudnnBackendDescriptor_t d) {
  Node& of = node(d);
  if (of.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    of.engine = of.nodes.at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->engine;
    if (library.engines[of.engine].is_broken) return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (of.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
      all<int>(of, CUDNN_ATTR_ENGINEHEUR_MODE).at(0) != CUDNN_HEUR_MODE_A) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  of.is_final = true;
  return CUDNN_STATUS_SUCCESS;
}

// A tensor of bf16 where it lies.
struct Tensor {
  std::vector<std::int64_t> size, stride;  // in the order NCHW
  std::uint16_t* data;
  Tensor(const Node& of, const Node& pack) {
    const auto ids = all<std::int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto pointers = all<void*>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const std::int64_t id = all<std::int64_t>(of, CUDNN_ATTR_TENSOR_UNIQUE_ID).at(0),
                       alignment = all<std::int64_t>(of, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT).at(0);
    const auto at = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), id) - ids.begin());
    data = static_cast<std::uint16_t*>(pointers.at(at));
    size = all<std::int64_t>(of, CUDNN_ATTR_TENSOR_DIMENSIONS);
    stride = all<std::int64_t>(of, CUDNN_ATTR_TENSOR_STRIDES);
    if (all<int>(of, CUDNN_ATTR_TENSOR_DATA_TYPE).at(0) != CUDNN_DATA_BFLOAT16 ||
        reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(alignment) != 0) {
      throw std::logic_error("a type, or an alignment");
    }
  }
  std::uint16_t& at(std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t x) const {
    return data[n * stride[0] + c * stride[1] + y * stride[2] + x * stride[3]];
  }
  template <class Body>
  void each(const Body& body) const {
    for (std::int64_t n = 0; n < size[0]; ++n) {
      for (std::int64_t c = 0; c < size[1]; ++c) {
        for (std::int64_t y = 0; y < size[2]; ++y) {
          for (std::int64_t x = 0; x < size[3]; ++x) body(n, c, y, x);
        }
      }
    }
  }
};

// An operation and the names of its parts.
struct Names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, weights, y, window, alpha, beta;
};
// The names of what is computed, in the order of ConvTensor.
constexpr Names kNames[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA}};

void convolve(const Node& operation, const Node& pack) {
  const auto found = std::find_if(std::begin(kNames), std::end(kNames),
                                  [&](const Names& n) { return n.type == operation.type; });
  ASSERT_NE(found, std::end(kNames));
  const Names& names = *found;
  const auto result = found - std::begin(kNames);
  const auto part = [&](int name) -> const Node& { return *operation.nodes.at(name); };
  const auto factor = [&](int name) { return all<float>(operation, name).at(0); };
  const Tensor x(part(names.x), pack), w(part(names.weights), pack), y(part(names.y), pack);
  const float alpha = factor(names.alpha), beta = factor(names.beta);
  const Node& window = part(names.window);
  const auto pad = all<std::int64_t>(window, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
             stride = all<std::int64_t>(window, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  EXPECT_EQ(pad, all<std::int64_t>(window, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS));
  EXPECT_EQ(all<std::int64_t>(window, CUDNN_ATTR_CONVOLUTION_DILATIONS), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(all<std::int64_t>(window, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS).at(0), 2);
  EXPECT_EQ(all<int>(window, CUDNN_ATTR_CONVOLUTION_COMP_TYPE).at(0), CUDNN_DATA_FLOAT);
  EXPECT_EQ(all<int>(window, CUDNN_ATTR_CONVOLUTION_CONV_MODE).at(0), CUDNN_CROSS_CORRELATION);
  std::unordered_map<std::uint16_t*, double> sums;
  y.each([&](auto n, auto out, auto oy, auto ox) {
    w.each([&](auto of, auto in, auto ky, auto kx) {
      const std::int64_t iy = oy * stride[0] + ky - pad[0], ix = ox * stride[1] + kx - pad[1];
      if (of != out || iy < 0 || iy >= x.size[2] || ix < 0 || ix >= x.size[3]) return;
      std::uint16_t* const at[] = {&x.at(n, in, iy, ix), &w.at(out, in, ky, kx), &y.at(n, out, oy, ox)};
      double product = 1;
      for (int i = 0; i < 3; ++i) product *= i == result ? 1.0 : double{bf16_to_float(*at[i])};
      sums[at[result]] += product;
    });
  });
  const Tensor* const tensors[] = {&x, &w, &y};
  const Tensor& to = *tensors[result];
  to.each([&](auto n, auto c, auto row, auto column) {
    std::uint16_t& value = to.at(n, c, row, column);
    const double before = beta == 0 ? 0.0 : beta * bf16_to_float(value);
    value = float_to_bf16(static_cast<float>(alpha * sums[&value] + before));
  });
}

cudnnStatus_t execute(cudnnHandle_t, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  if (library.fails) return CUDNN_STATUS_EXECUTION_FAILED;
  library.ran.push_back(node(plan).engine);
  auto* const workspace = all<std::byte*>(node(pack), CUDNN_ATTR_VARIANT_PACK_WORKSPACE).at(0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(workspace) % LibraryConvolution::kWorkspaceAlignment, 0U);
  const auto used = static_cast<std::size_t>(library.engines[node(plan).engine].workspace);
  std::fill_n(workspace, used, std::byte{0xA5});
  const Node& proposal = *node(plan).nodes.at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Node& graph = *proposal.nodes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  convolve(*graph.nodes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS), node(pack));
  return CUDNN_STATUS_SUCCESS;
}

Cudnn own_library(std::vector<Engine> engines) {
  library = {};
  library.engines = std::move(engines);
  Cudnn c{};
  c.create = [](cudnnHandle_t*) { return ++library.handles, CUDNN_STATUS_SUCCESS; };
  c.destroy = [](cudnnHandle_t) { return --library.handles, CUDNN_STATUS_SUCCESS; };
  c.set_stream = [](cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; };
  c.version = [] { return std::size_t{91902}; };
  c.status_text = [](cudnnStatus_t) { return "as the test wants"; };
  c.create_descriptor = [](cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* d) {
    ++library.alive;
    *d = new Handle(std::make_shared<Node>(type));
    return CUDNN_STATUS_SUCCESS;
  };
  c.destroy_descriptor = [](cudnnBackendDescriptor_t d) {
    --library.alive;
    delete static_cast<Handle*>(d);
    return CUDNN_STATUS_SUCCESS;
  };
  c.set_attribute = set_attribute;
  c.get_attribute = get_attribute;
  c.finalize = finalize;
  c.execute = execute;
  return c;
}

// The emulated device with that library.
class WithLibrary : public EmulatedCuda {
 public:
  explicit WithLibrary(const Cudnn& of)
      : EmulatedCuda(2, false, true), convolutions_(CudnnConvolutions::start(of, nullptr)) {}
  const LibraryConvolution* library_convolution(const ConvPass& pass) override {
    return convolutions_->find(pass);
  }

 private:
  std::unique_ptr<CudnnConvolutions> convolutions_;
};

struct Results {
  Floats y, dx, added, dw;
};
Results results_of(Device& device, const ConvShape& s) {
  constexpr ValueType kType = ValueType::kBf16;
  const auto convolution = device.convolution(s, kType);
  const auto room = scratch_on(device, convolution->scratch_bytes());
  const Floats images = random_floats(s.batch * s.in_values(), 1);
  const Cells x(device, kType, images), dy(device, kType, random_floats(s.batch * s.out_values(), 2)),
      y(device, kType, s.batch * s.out_values()), dx(device, kType, images), added(device, kType, images);
  const DeviceArray<float> w(device, random_floats(s.weights(), 3)),
      dw(device, random_floats(s.weights(), 3));
  convolution->forward(x.data(), w.data(), y.data(), room.data());
  convolution->backward({x.data(), w.data(), dy.data(), dx.data(), false, dw.data()}, room.data());
  convolution->backward({x.data(), w.data(), dy.data(), added.data(), true, dw.data()}, room.data());
  return {y.floats(), dx.floats(), added.floats(), dw.values()};
}
void expect_same(const Results& got, const Results& want) {
  constexpr double kRounding = 8e-3;  // sums that differ in the last bit may round to neighbours
  const auto wide = [](const Floats& v) { return std::vector<double>(v.begin(), v.end()); };
  expect_near(got.y, wide(want.y), kRounding);
  expect_near(got.dx, wide(want.dx), kRounding);
  expect_near(got.added, wide(want.added), kRounding);
  expect_near(got.dw, wide(want.dw), kRounding);
}

// The library has the weights' gradient of the first one.
const ConvShape kShapes[] = {{2, 3, 2, 64, 72, 3, 1, 1},
                             {2, 5, 6, 8, 16, 3, 1, 1},
                             {1, 7, 4, 16, 8, 3, 2, 1},
                             {2, 6, 5, 64, 64, 1, 2, 0}};
constexpr std::int64_t kWorkspaceBytes = 64 << 10;  // of y and x

TEST(Cudnn, DoesWhatOurKernelsDo) {
  EmulatedCuda without(2, false, true);
  for (const ConvShape& shape : kShapes) {
    const Results want = results_of(without, shape);
    WithLibrary device(own_library({{kGood, kWorkspaceBytes}}));
    const Results got = results_of(device, shape);
    expect_same(got, want);
    const bool has_weights = &shape == &kShapes[0];
    EXPECT_EQ(got.dw == want.dw, !has_weights);
    EXPECT_EQ(library.ran.size(), has_weights ? 5U : 3U);
    constexpr std::int64_t kTooMuch = std::int64_t{1} << 40;
    WithLibrary none(own_library({{kGood, kTooMuch}}));
    const Results ours = results_of(none, shape);
    EXPECT_EQ(std::tie(ours.y, ours.dx, ours.added, ours.dw), std::tie(want.y, want.dx, want.added, want.dw));
    EXPECT_TRUE(library.ran.empty());
  }
}

TEST(Cudnn, TheFirstEngineThatIsWantedRuns) {
  const auto with = [](cudnnBackendNumericalNote_t note) {
    Engine engine{kGood};
    engine.notes.push_back(note);
    return engine;
  };
  WithLibrary device(own_library({{{}},
                                  with(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
                                  with(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION),
                                  with(CUDNN_NUMERICAL_NOTE_WINOGRAD),
                                  with(CUDNN_NUMERICAL_NOTE_FFT),
                                  {kGood, kWorkspaceBytes + 1},
                                  {kGood, 0, true},
                                  {kGood, kWorkspaceBytes},
                                  {kGood}}));
  results_of(device, kShapes[1]);
  EXPECT_EQ(library.ran, (std::vector<std::size_t>{7, 7, 7}));
}

TEST(Cudnn, OnePassIsSearchedOnceAndAllIsGivenBack) {
  for (const Notes& notes : {kGood, Notes{}}) {  // a plan, and none
    const Cudnn own = own_library({{notes}});
    EXPECT_EQ(version_of(own), "cuDNN 9.19.2");
    auto convolutions = CudnnConvolutions::start(own, nullptr);
    const ConvShape other = {3, 5, 6, 8, 16, 3, 1, 1};
    int passes = 0;
    for (const ConvPass& pass : {ConvPass{kShapes[0]}, ConvPass{kShapes[0], ConvTensor::kX},
                                 ConvPass{kShapes[0], ConvTensor::kX, true},
                                 ConvPass{kShapes[0], ConvTensor::kWeights}, ConvPass{other}}) {
      const LibraryConvolution* const found = convolutions->find(pass);
      EXPECT_EQ(found != nullptr, !notes.empty());
      EXPECT_EQ(convolutions->find(pass), found);
      EXPECT_EQ(library.searches, ++passes);
    }
    EXPECT_EQ(library.handles, 1);
    convolutions.reset();
    EXPECT_EQ(library.alive, 0);
    EXPECT_EQ(library.handles, 0);
  }
}

TEST(Cudnn, SaysWhatFailed) {
  Cudnn own = own_library({{kGood}});
  WithLibrary device(own);
  library.fails = true;
  try {
    results_of(device, kShapes[0]);
    FAIL() << "a convolution failed, and no word of it";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "cuDNN: convolution: as the test wants");
  }
  own.create = [](cudnnHandle_t*) { return CUDNN_STATUS_NOT_INITIALIZED; };
  EXPECT_EQ(CudnnConvolutions::start(own, nullptr), nullptr);
}

// The library itself has a plan for every pass of residual networks, and computes what our kernels compute,
// the same bits each time.
TEST(GpuCudnn, DoesWhatOurKernelsDo) {
  if (!gpu_is_there()) GTEST_SKIP() << gpu_backend().why_not;
  const std::optional<Cudnn> real = load_cudnn();
  if (!real) GTEST_SKIP() << "cuDNN is not found";
  const auto device = make_gpu(2), without = make_gpu(2, {.with_cudnn = false});
  const auto convolutions = CudnnConvolutions::start(*real, nullptr);
  ASSERT_NE(convolutions, nullptr);
  const ConvShape shapes[] = {{128, 32, 32, 64, 64, 3, 1, 1},  {128, 32, 32, 16, 16, 3, 1, 1},
                              {128, 32, 32, 64, 128, 3, 2, 1}, {128, 32, 32, 64, 128, 1, 2, 0},
                              {128, 8, 8, 64, 64, 3, 1, 1},    {128, 4, 4, 512, 512, 3, 1, 1}};
  for (ConvShape s : shapes) {
    constexpr std::int64_t kOfWeights = 8 << 20;
    for (const ConvPass& pass : {ConvPass{s, ConvTensor::kY, false, kWorkspaceBytes},
                                 ConvPass{s, ConvTensor::kX, false, kWorkspaceBytes},
                                 ConvPass{s, ConvTensor::kX, true, kWorkspaceBytes},
                                 ConvPass{s, ConvTensor::kWeights, false, kOfWeights}}) {
      EXPECT_NE(convolutions->find(pass), nullptr)
          << s.in << " " << static_cast<int>(pass.result) << pass.accumulate;
    }
    s.batch = 16;
    const Results got = results_of(*device, s), again = results_of(*device, s);
    EXPECT_EQ(std::tie(got.y, got.dx, got.added, got.dw), std::tie(again.y, again.dx, again.added, again.dw));
    expect_same(got, results_of(*without, s));
  }
  EXPECT_NE(device->compute_library().find(version_of(*real)), std::string::npos);
}

}  // namespace
}  // namespace lpmm::kernels::cuda
#endif
