// oneDNN, one thread per call: its own threading would make results depend on the number of threads.
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <dnnl.hpp>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "kernels/cpu/compute/backend.h"

namespace lpmm::kernels::backend {
namespace {

using dnnl::memory;

// oneDNN's OpenMP runtime asks for the calling thread's setting when a primitive is made and when it runs.
class OneThread {
 public:
  OneThread() : saved_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(saved_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int saved_;
};

// The library writes its machine code when a kernel is made, and does not survive that there is no room for
// it. This is far more than one kernel takes, and given back at once.
void check_room_for_code() {
  constexpr std::size_t kCode = 32 << 20;
  void* const room = mmap(nullptr, kCode, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    throw std::runtime_error(
        "no memory for the machine code of oneDNN's kernels: 33.6 MB; use a higher limit on address space "
        "(ulimit -v)");
  }
  munmap(room, kCode);
}

// Each kernel has machine code of its own, some 50 kB. Experts and texts that grow make products of ever new
// shapes, of which no more than this are kept.
constexpr int kMostKept = 64;

const dnnl::engine& engine() {
  static const dnnl::engine e = [] {
    dnnl::set_primitive_cache_capacity(kMostKept);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return e;
}

// A primitive with one set of argument objects for each thread; a call only sets their pointers.
struct Call {
  struct Thread {
    dnnl::stream stream{engine()};
    std::unordered_map<int, memory> arguments;
  };
  dnnl::primitive primitive;
  mutable std::vector<Thread> threads;

  void make(dnnl::primitive p, const std::unordered_map<int, memory::desc>& descs, int count) {
    primitive = std::move(p);
    for (int i = 0; i < count; ++i) {
      Thread& t = threads.emplace_back();
      for (const auto& [index, desc] : descs) {
        t.arguments.emplace(index, memory(desc, engine(), DNNL_MEMORY_NONE));
      }
    }
  }
  void run(int thread, std::initializer_list<std::pair<int, const void*>> pointers) const {
    const OneThread one;
    Thread& t = threads[static_cast<std::size_t>(thread)];
    for (const auto& [index, pointer] : pointers) {
      t.arguments.at(index).set_data_handle(const_cast<void*>(pointer));
    }
    primitive.execute(t.stream, t.arguments);
    t.stream.wait();
  }
};

struct Descs {
  dnnl::convolution_forward::primitive_desc forward;
  dnnl::convolution_backward_data::primitive_desc data;
  dnnl::convolution_backward_weights::primitive_desc weights;
};

// Before its version 3 the library reads beyond its own memory when it makes a convolution for AMX.
template <class Description>
Description without_amx(Description d) {
  static const bool kHasFault = dnnl_version()->major < 3;
  while (kHasFault && std::string_view(d.impl_info_str()).find("amx") != std::string_view::npos) {
    if (!d.next_impl())
      throw std::runtime_error("oneDNN has no convolution without AMX; use version 3 of it");
  }
  return d;
}

Descs describe(const ConvShape& s, memory::data_type type) {
  const memory::desc x({s.batch, s.in, s.height, s.width}, type, memory::format_tag::nhwc);
  const memory::desc y({s.batch, s.out, s.out_height(), s.out_width()}, type, memory::format_tag::nhwc);
  const memory::dims weights_shape{s.out, s.in, s.kernel, s.kernel};
  const memory::desc w(weights_shape, type, memory::format_tag::any);
  const memory::desc g(weights_shape, memory::data_type::f32, memory::format_tag::any);
  const memory::dims stride{s.stride, s.stride}, pad{s.pad, s.pad};
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  Descs d;
  d.forward = without_amx(dnnl::convolution_forward::primitive_desc(
      {dnnl::prop_kind::forward_training, kDirect, x, w, y, stride, pad, pad}, attributes, engine()));
  d.data = without_amx(dnnl::convolution_backward_data::primitive_desc({kDirect, x, w, y, stride, pad, pad},
                                                                       attributes, engine(), d.forward));
  d.weights = without_amx(dnnl::convolution_backward_weights::primitive_desc(
      {kDirect, x, g, y, stride, pad, pad}, attributes, engine(), d.forward));
  return d;
}

}  // namespace

const char* name() {
  static const std::string kName = [] {
    const dnnl_version_t* v = dnnl_version();
    const auto isa = [] {
      switch (dnnl::get_effective_cpu_isa()) {
        case dnnl::cpu_isa::sse41:
          return "sse41";
        case dnnl::cpu_isa::avx:
          return "avx";
        case dnnl::cpu_isa::avx2:
          return "avx2";
        case dnnl::cpu_isa::avx2_vnni:
          return "avx2_vnni";
        case dnnl::cpu_isa::avx512_core:
          return "avx512_core";
        case dnnl::cpu_isa::avx512_core_vnni:
          return "avx512_core_vnni";
        case dnnl::cpu_isa::avx512_core_bf16:
          return "avx512_core_bf16";
        case dnnl::cpu_isa::avx512_core_amx:
          return "avx512_core_amx";
        default:
          return "generic";
      }
    }();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch) + ", " + isa;
  }();
  return kName.c_str();
}

namespace {

// A product of one shape with fp32 sums, made once per thread.
class Product {
 public:
  struct Shape {
    explicit Shape(const MatrixArgs& g)
        : type(g.type == ValueType::kFp32 ? memory::data_type::f32 : memory::data_type::bf16),
          sizes{g.m, g.n, g.k, g.a_stride, g.b_stride, g.c_stride},
          flags{g.transpose_a, g.transpose_b, g.accumulate} {}
    auto key() const { return std::tie(type, sizes, flags); }
    bool operator<(const Shape& other) const { return key() < other.key(); }

    memory::data_type type;  // of the factors
    std::array<std::int64_t, 6> sizes;
    std::array<bool, 3> flags;
  };

  explicit Product(const Shape& s) : desc_(describe(s)), primitive_(desc_) {}

  // Every product of the thread has the same scratch, which grows to what the largest needs.
  void run(const void* a, const void* b, float* c, std::vector<std::byte>& scratch) {
    scratch.resize(std::max(scratch.size(), desc_.scratchpad_desc().get_size()));
    const auto bind = [](const memory::desc& desc, const void* values) {
      return memory(desc, engine(), const_cast<void*>(values));
    };
    primitive_.execute(stream_, {{DNNL_ARG_SRC, bind(desc_.src_desc(), a)},
                                 {DNNL_ARG_WEIGHTS, bind(desc_.weights_desc(), b)},
                                 {DNNL_ARG_DST, bind(desc_.dst_desc(), c)},
                                 {DNNL_ARG_SCRATCHPAD, bind(desc_.scratchpad_desc(), scratch.data())}});
    stream_.wait();
  }
  // Emulated and reference products are slower than fp32.
  bool is_generated() const {
    const std::string info = desc_.impl_info_str();
    return info.find("jit") != std::string::npos || info.find("brg") != std::string::npos;
  }

 private:
  static dnnl::matmul::primitive_desc describe(const Shape& s) {
    const auto matrix = [](std::int64_t rows, std::int64_t columns, memory::data_type type,
                           std::int64_t stride, bool transposed) {
      return memory::desc({rows, columns}, type,
                          transposed ? memory::dims{1, stride} : memory::dims{stride, 1});
    };
    const auto& [m, n, k, a_stride, b_stride, c_stride] = s.sizes;
    const auto& [transpose_a, transpose_b, accumulate] = s.flags;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (accumulate) {
      dnnl::post_ops add;
      add.append_sum();
      attributes.set_post_ops(add);
    }
    return {{matrix(m, k, s.type, a_stride, transpose_a), matrix(k, n, s.type, b_stride, transpose_b),
             matrix(m, n, memory::data_type::f32, c_stride, false)},
            attributes,
            engine()};
  }
  dnnl::matmul::primitive_desc desc_;
  dnnl::matmul primitive_;
  dnnl::stream stream_{engine()};
};

bool has_bf16_instructions() {
  constexpr unsigned kNeeded = dnnl_cpu_isa_avx512_core_bf16;
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kNeeded) == kNeeded;
}

// The products of a thread; the one that was not used for longest makes room for another.
class Products {
 public:
  Product& get(const Product::Shape& shape) {
    auto found = kept_.find(shape);
    if (found == kept_.end()) {
      if (kept_.size() == kMostKept) {
        kept_.erase(std::min_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) {
          return a.second.used < b.second.used;
        }));
      }
      found = kept_.try_emplace(shape, shape).first;
    }
    found->second.used = ++uses_;
    return found->second.product;
  }

 private:
  struct Kept {
    explicit Kept(const Product::Shape& shape) : product(shape) {}
    Product product;
    std::int64_t used = 0;
  };
  std::map<Product::Shape, Kept> kept_;
  std::int64_t uses_ = 0;
};

void run_product(const MatrixArgs& g) {
  thread_local Products products;
  thread_local std::vector<std::byte> scratch;
  products.get(Product::Shape(g)).run(g.a, g.b, static_cast<float*>(g.c), scratch);
}

}  // namespace

void matmul(const MatrixArgs& g) {
  const OneThread one;
  if (g.type == ValueType::kBf16) {
    // Without these instructions the library has no bf16: for tests, the same products are made in fp32.
    return has_bf16_instructions() ? run_product(g) : run_product(Widened(g).args);
  }
  const auto status =
      dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0F,
                 static_cast<const float*>(g.a), g.a_stride, static_cast<const float*>(g.b), g.b_stride,
                 g.accumulate ? 1.0F : 0.0F, static_cast<float*>(g.c), g.c_stride);
  if (status != dnnl_success) throw std::logic_error("matmul: oneDNN refused the shape");
}

bool& multiplies_bf16() {
  static bool does = [] {
    if (!has_bf16_instructions()) return false;
    const OneThread one;
    try {
      return Product(Product::Shape({.m = 256,
                                     .n = 256,
                                     .k = 256,
                                     .type = ValueType::kBf16,
                                     .a_stride = 272,
                                     .b_stride = 272,
                                     .c_stride = 256,
                                     .accumulate = true}))
          .is_generated();
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return does;
}

struct ShardConvolution::State {
  Descs descs;
  Call forward, data, weights, pack_forward, pack_backward, unpack;
};

// Native means bf16 instructions and a generated kernel: emulation and reference code are slower than fp32.
bool ShardConvolution::has_native_bf16(const ConvShape& shape) {
  if (!has_bf16_instructions()) return false;
  check_room_for_code();
  const OneThread one;
  try {
    const Descs d = describe(shape, memory::data_type::bf16);
    for (const char* info : {d.forward.impl_info_str(), d.data.impl_info_str(), d.weights.impl_info_str()}) {
      const std::string text = info;
      if (text.find("jit") == std::string::npos && text.find("brg") == std::string::npos) return false;
    }
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

ShardConvolution::ShardConvolution(const ConvShape& shape, bool native_bf16, int threads)
    : state_(std::make_unique<State>()) {
  check_room_for_code();
  const OneThread one;
  State& s = *state_;
  s.descs = describe(shape, native_bf16 ? memory::data_type::bf16 : memory::data_type::f32);
  const Descs& d = s.descs;
  const memory::desc oihw({shape.out, shape.in, shape.kernel, shape.kernel}, memory::data_type::f32,
                          memory::format_tag::oihw);
  const auto reorder = [&](Call& call, const memory::desc& from, const memory::desc& to) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::library);
    call.make(dnnl::reorder({engine(), from, engine(), to, attributes}),
              {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, 1);
  };
  reorder(s.pack_forward, oihw, d.forward.weights_desc());
  reorder(s.pack_backward, oihw, d.data.weights_desc());
  reorder(s.unpack, d.weights.diff_weights_desc(), oihw);
  s.forward.make(dnnl::convolution_forward(d.forward),
                 {{DNNL_ARG_SRC, d.forward.src_desc()},
                  {DNNL_ARG_WEIGHTS, d.forward.weights_desc()},
                  {DNNL_ARG_DST, d.forward.dst_desc()},
                  {DNNL_ARG_SCRATCHPAD, d.forward.scratchpad_desc()}},
                 threads);
  s.data.make(dnnl::convolution_backward_data(d.data),
              {{DNNL_ARG_DIFF_DST, d.data.diff_dst_desc()},
               {DNNL_ARG_WEIGHTS, d.data.weights_desc()},
               {DNNL_ARG_DIFF_SRC, d.data.diff_src_desc()},
               {DNNL_ARG_SCRATCHPAD, d.data.scratchpad_desc()}},
              threads);
  s.weights.make(dnnl::convolution_backward_weights(d.weights),
                 {{DNNL_ARG_SRC, d.weights.src_desc()},
                  {DNNL_ARG_DIFF_DST, d.weights.diff_dst_desc()},
                  {DNNL_ARG_DIFF_WEIGHTS, d.weights.diff_weights_desc()},
                  {DNNL_ARG_SCRATCHPAD, d.weights.scratchpad_desc()}},
                 threads);
}

ShardConvolution::~ShardConvolution() = default;

std::int64_t ShardConvolution::packed_forward_bytes() const {
  return static_cast<std::int64_t>(state_->descs.forward.weights_desc().get_size());
}
std::int64_t ShardConvolution::packed_backward_bytes() const {
  return static_cast<std::int64_t>(state_->descs.data.weights_desc().get_size());
}
void ShardConvolution::pack_forward(const float* oihw, void* packed) const {
  state_->pack_forward.run(0, {{DNNL_ARG_FROM, oihw}, {DNNL_ARG_TO, packed}});
}
void ShardConvolution::pack_backward(const float* oihw, void* packed) const {
  state_->pack_backward.run(0, {{DNNL_ARG_FROM, oihw}, {DNNL_ARG_TO, packed}});
}
std::int64_t ShardConvolution::gradient_floats() const {
  return static_cast<std::int64_t>(state_->descs.weights.diff_weights_desc().get_size()) / 4;
}
void ShardConvolution::unpack_gradient(const float* packed, float* oihw) const {
  state_->unpack.run(0, {{DNNL_ARG_FROM, packed}, {DNNL_ARG_TO, oihw}});
}
std::int64_t ShardConvolution::scratch_bytes() const {
  const Descs& d = state_->descs;
  return static_cast<std::int64_t>(
      std::max({d.forward.scratchpad_desc().get_size(), d.data.scratchpad_desc().get_size(),
                d.weights.scratchpad_desc().get_size()}));
}
void ShardConvolution::forward(int thread, const void* x, const void* packed, void* y, void* scratch) const {
  state_->forward.run(
      thread,
      {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, y}, {DNNL_ARG_SCRATCHPAD, scratch}});
}
void ShardConvolution::backward_data(int thread, const void* dy, const void* packed, void* dx,
                                     void* scratch) const {
  state_->data.run(thread, {{DNNL_ARG_DIFF_DST, dy},
                            {DNNL_ARG_WEIGHTS, packed},
                            {DNNL_ARG_DIFF_SRC, dx},
                            {DNNL_ARG_SCRATCHPAD, scratch}});
}
void ShardConvolution::backward_weights(int thread, const void* x, const void* dy, float* gradient,
                                        void* scratch) const {
  state_->weights.run(thread, {{DNNL_ARG_SRC, x},
                               {DNNL_ARG_DIFF_DST, dy},
                               {DNNL_ARG_DIFF_WEIGHTS, gradient},
                               {DNNL_ARG_SCRATCHPAD, scratch}});
}

}  // namespace lpmm::kernels::backend
