// The CUDA kernels against the CPU's, byte for byte: on fibers, and on a device where there is one (label
// gpu).
#include "kernels/cuda.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/cpu/packed/fused.h"
#include "kernels/cuda/fibers.h"
#include "kernels/maps.h"
#include "tests/kernels/every_rule.h"
#include "tests/kernels/support.h"

namespace lpmm::kernels {
namespace {

Codec linear(int bits, int block, Rounding rounding, StepMode mode) {
  return {{Map::kLinear, static_cast<std::uint8_t>(bits)}, block, rounding, mode};
}
Codec table(Map map, int bits, int block, Rounding rounding) {
  return {{map, static_cast<std::uint8_t>(bits)}, block, rounding, StepMode::kMoving};
}
constexpr Rounding kSr = Rounding::kStochastic;
constexpr Rounding kQr = Rounding::kQuasiStochastic;
constexpr Rounding kRn = Rounding::kNearest;
constexpr StepMode kSticky = StepMode::kSticky;
constexpr StepMode kMoving = StepMode::kMoving;
const Codec kFp32Codec{{Map::kFp32, 32}, 0, kRn, kMoving};

// One role of one tensor in host memory.
struct Host {
  Codec codec;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> steps;
  std::int64_t elements = 0;
  Host() = default;
  Host(const Codec& c, std::int64_t n)
      : codec(c),
        codes(static_cast<std::size_t>(code_bytes(c.format, n))),
        steps(static_cast<std::size_t>(blocks_of(n, c.block))),
        elements(n) {}
  RoleView view() {
    if (codes.empty()) return {};
    return {codec, codes.data(), steps.empty() ? nullptr : steps.data(), elements};
  }
};

// Four roles; where a backend works on them, their bytes afterwards, and whether a value failed.
struct State {
  std::array<Host, kRoles> roles;
  bool failed = false;
  double square_sum = 0;  // of the last fold
};
void expect_equal(const State& a, const State& b, const char* what) {
  for (std::size_t r = 0; r < kRoles; ++r) {
    EXPECT_EQ(a.roles[r].codes, b.roles[r].codes) << what << ", role " << r;
    EXPECT_EQ(a.roles[r].steps, b.roles[r].steps) << what << ", role " << r;
  }
  EXPECT_EQ(a.failed, b.failed) << what;
  if (!a.failed) {
    EXPECT_EQ(a.square_sum, b.square_sum) << what;
  }
}

// The three calls, on host pointers or on device pointers that mirror them.
struct Backend {
  std::function<void(State&, std::size_t role, std::int64_t first, const std::vector<float>&, const Noise&)>
      encode, fold;
  std::function<void(State&, const Rule&, const Noise&)> update;
  std::function<std::vector<float>(State&, std::size_t role)> decode;
};
FoldArgs fold_args(const Noise& noise) {
  return {.scale = 0.5F, .noise = noise, .want_square_sum = true};
}

Backend backend_of(Device& device) {
  Backend b;
  b.encode = [&](State& s, std::size_t r, std::int64_t first, const std::vector<float>& x, const Noise& n) {
    const auto count = static_cast<std::int64_t>(x.size());
    s.failed |= !encode(device, s.roles[r].view(), first, count, x.data(), n);
  };
  b.fold = [&](State& s, std::size_t r, std::int64_t first, const std::vector<float>& x, const Noise& n) {
    const FoldResult result = fold(device, s.roles[r].view(), first, std::ssize(x), x.data(), fold_args(n));
    s.failed |= !result.finite;
    s.square_sum = result.square_sum;
  };
  b.update = [&](State& s, const Rule& rule, const Noise& n) {
    s.failed |= !update(device, rule,
                        {s.roles[0].view(), s.roles[1].view(), s.roles[2].view(), s.roles[3].view(), n});
  };
  b.decode = [&](State& s, std::size_t r) {
    std::vector<float> x(static_cast<std::size_t>(s.roles[r].elements));
    device.decode(s.roles[r].view(), 0, s.roles[r].elements, x.data());
    return x;
  };
  return b;
}

// Device memory with the bytes of a host vector.
class Mirror {
 public:
  Mirror(void* host, std::size_t bytes) : host_(host), bytes_(static_cast<std::int64_t>(bytes)) {
    if (bytes_ == 0) return;
    device_ = cuda::allocate(bytes_);
    cuda::upload(device_, host_, bytes_);
  }
  ~Mirror() {
    if (device_ != nullptr) cuda::release(device_);
  }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  void fetch() const {
    if (bytes_ != 0) cuda::download(host_, device_, bytes_);
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(device_);
  }

 private:
  void* host_;
  std::int64_t bytes_;
  void* device_ = nullptr;
};
struct RoleMirror {
  explicit RoleMirror(Host& h)
      : host(h), codes(h.codes.data(), h.codes.size()), steps(h.steps.data(), 2 * h.steps.size()) {}
  RoleView view() const {
    return {host.codec, codes.as<std::uint8_t>(), steps.as<std::uint16_t>(), host.elements};
  }
  void fetch() const {
    codes.fetch();
    steps.fetch();
  }
  Host& host;
  Mirror codes, steps;
};

Backend gpu() {
  Backend b;
  b.encode = [](State& s, std::size_t r, std::int64_t first, const std::vector<float>& x, const Noise& n) {
    bool storable = true;
    std::vector<float> copy = x;
    const Mirror flag(&storable, sizeof storable), src(copy.data(), 4 * copy.size());
    const RoleMirror role(s.roles[r]);
    cuda::encode(role.view(), first, std::ssize(x), src.as<float>(), n, flag.as<bool>(), nullptr);
    role.fetch();
    flag.fetch();
    s.failed |= !storable;
  };
  b.fold = [](State& s, std::size_t r, std::int64_t first, const std::vector<float>& x, const Noise& n) {
    FoldResult result;
    std::vector<float> copy = x;
    const Mirror out(&result, sizeof result), src(copy.data(), 4 * copy.size());
    const RoleMirror role(s.roles[r]);
    cuda::fold(role.view(), first, std::ssize(x), src.as<float>(), fold_args(n), out.as<FoldResult>(),
               nullptr);
    role.fetch();
    out.fetch();
    s.failed |= !result.finite;
    s.square_sum = result.square_sum;
  };
  b.update = [](State& s, const Rule& rule, const Noise& n) {
    bool storable = true;
    const Mirror flag(&storable, sizeof storable);
    const RoleMirror p(s.roles[0]), a(s.roles[1]), m(s.roles[2]), v(s.roles[3]);
    cuda::update({rule, {{p.view(), a.view(), m.view(), v.view()}, n}, flag.as<bool>()}, nullptr);
    for (const RoleMirror* role : {&p, &a, &m, &v}) role->fetch();
    flag.fetch();
    s.failed |= !storable;
  };
  b.decode = [](State& s, std::size_t r) {
    std::vector<float> x(static_cast<std::size_t>(s.roles[r].elements));
    const Mirror dst(x.data(), 4 * x.size());
    const RoleMirror role(s.roles[r]);
    cuda::decode(role.view(), 0, s.roles[r].elements, dst.as<float>(), nullptr);
    dst.fetch();
    return x;
  };
  return b;
}

// Normal values over many magnitudes, with zeros, an all-zero block and denormals among them.
std::vector<float> values(std::int64_t count, unsigned seed, bool positive) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::ldexp(normal(random), -static_cast<int>(random() % 12) - static_cast<int>(i / 700));
    if (i % 37 == 5) x[i] = 0;
    if (i % 41 == 7) x[i] = 1e-42F;
    if (i / 128 == 3) x[i] = 0;
    if (positive) x[i] = std::abs(x[i]);
  }
  return x;
}

struct Case {
  const char* name;
  std::array<Codec, kRoles> codecs;  // parameter, accumulator, momentum, variance
};
std::vector<Case> cases() {
  return {
      {"12/8/8/8 sticky",
       {linear(12, 128, kSr, kSticky), linear(8, 128, kSr, kMoving), linear(8, 128, kSr, kMoving),
        table(Map::kSquareRoot, 8, 128, kSr)}},
      {"8/4/4/4 with unlike blocks",
       {linear(8, 64, kSr, kSticky), linear(4, 256, kSr, kMoving), table(Map::kSoftsign, 4, 128, kSr),
        table(Map::kLinearNoZero, 4, 4096, kSr)}},
      {"6/3/4/3 quasi-stochastic",
       {linear(6, 128, kQr, kSticky), table(Map::kSoftsign, 3, 128, kQr), table(Map::kSoftsign, 4, 128, kQr),
        table(Map::kSquareRoot, 3, 128, kQr)}},
      {"nearest, dynamic maps",
       {linear(7, 512, kRn, kMoving), linear(5, 64, kRn, kMoving), table(Map::kDynamic, 8, 256, kRn),
        table(Map::kDynamicUnsigned, 8, 256, kRn)}},
      {"16/16, stochastic dynamic maps",
       {linear(16, 128, kSr, kSticky), linear(16, 128, kSr, kMoving), table(Map::kDynamic, 4, 128, kSr),
        table(Map::kDynamicNoZero, 8, 128, kSr)}},
      {"bf16 and fp32",
       {Codec{{Map::kBf16, 16}, 0, kSr, kMoving}, Codec{{Map::kBf16, 16}, 0, kRn, kMoving}, kFp32Codec,
        table(Map::kDynamicNoZero, 4, 1024, kRn)}},
      {"fp32", {kFp32Codec, kFp32Codec, kFp32Codec, kFp32Codec}},
  };
}

// Those that the fast kernels are for (tests/kernels/cuda_fused_test.cpp has them on fibers).
Case preset(const char* name, std::size_t set) {
  const fused::Codecs& of = fused::kCodecs[set];
  return {name, {of[Role::kParameter], of[Role::kAccumulator], of[Role::kMomentum], of[Role::kVariance]}};
}
std::vector<Case> presets() {
  return {preset("lpmm", 2), preset("lpmm-compact", 3), preset("lpmm-min", 4), preset("lpmm-nano", 5)};
}

State make_state(const Case& c, std::int64_t elements, bool momentum, bool variance) {
  State s;
  s.roles[0] = Host(c.codecs[0], elements);
  s.roles[1] = Host(c.codecs[1], elements);
  if (momentum) s.roles[2] = Host(c.codecs[2], elements);
  if (variance) s.roles[3] = Host(c.codecs[3], elements);
  return s;
}

// Encodes, folds twice, updates, three steps long, on both backends.
void compare(const Backend& expected, const Backend& tested, const std::vector<Case>& of) {
  const Sgd sgd{.learning_rate = 0.05F,
                .momentum = 0.9F,
                .coupled_decay = 1e-3F,
                .nesterov = 1,
                .gradient_scale = 0.75F};
  const Sgd plain{.learning_rate = 0.05F, .decay_factor = 0.99F};
  const Adam adam{.step_size = 0.01F,
                  .beta1 = 0.9F,
                  .one_minus_beta1 = 0.1F,
                  .beta2 = 0.99F,
                  .one_minus_beta2 = 0.01F,
                  .variance_scale = 3.0F,
                  .decay_factor = 0.999F};
  Sgd fed_sgd = sgd;
  fed_sgd.feedback = 2.5F;
  Adam fed_adam = adam;
  fed_adam.feedback = 11.0F;
  struct Kind {
    Rule rule;
    bool in_momentum = false;  // gradients are accumulated there
  };
  Sgd accumulating = sgd;
  accumulating.nesterov = 0;
  std::vector<Kind> kinds = {{sgd}, {plain}, {adam}, {fed_sgd}, {fed_adam}, {accumulating, true}};
  for (const Rule& rule : every_rule()) kinds.push_back({rule});
  for (const Case& c : of) {
    for (const std::int64_t elements : {std::int64_t{1}, std::int64_t{5000}, std::int64_t{8192 + 77}}) {
      for (const auto& [rule, in_momentum] : kinds) {
        const Sgd* const is_sgd = std::get_if<Sgd>(&rule);
        const bool momentum =
            has_state(rule, Role::kMomentum) && (is_sgd == nullptr || is_sgd->momentum != 0);
        State a = make_state(c, elements, momentum, has_state(rule, Role::kVariance));
        if (in_momentum) a.roles[1] = Host();
        State b = a;
        const std::size_t folded = in_momentum ? 2 : 1;
        const Rule& of_rule = rule;
        const auto both = [&](const auto& call) {
          call(expected, a);
          call(tested, b);
          expect_equal(a, b, c.name);
        };
        both([&](const Backend& on, State& s) {
          on.encode(s, 0, 0, values(elements, 1, false), {7, 3, 0, 0});
        });
        for (std::uint32_t step = 1; step <= 3; ++step) {
          for (std::uint32_t micro = 0; micro < 2; ++micro) {
            const Noise noise{7, 3, step, noise_stream(static_cast<Role>(folded), micro + 1)};
            const auto gradient = values(elements, 10 * step + micro, false);
            both([&](const Backend& on, State& s) { on.fold(s, folded, 0, gradient, noise); });
          }
          both([&](const Backend& on, State& s) { on.update(s, of_rule, {7, 3, step, 0}); });
        }
        for (std::size_t r = 0; r < kRoles; ++r) {
          if (a.roles[r].codes.empty()) continue;
          const std::vector<float> x = expected.decode(a, r), y = tested.decode(b, r);
          EXPECT_EQ(0, std::memcmp(x.data(), y.data(), 4 * x.size())) << c.name << ", role " << r;
        }
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

// A range inside a tensor, and values that may not be stored.
void compare_ranges_and_failures(const Backend& expected, const Backend& tested) {
  for (const Case& c : cases()) {
    for (const float bad : {0.0F, std::nanf(""), -INFINITY, 3e37F}) {
      State a = make_state(c, 3 * 4096 + 100, false, false);
      State b = a;
      std::vector<float> x = values(4096 + 100, 5, false);
      x[4000] = bad;
      for (const std::int64_t first : {std::int64_t{4096}, std::int64_t{8192}}) {
        if (first == 4096) {
          std::vector<float> whole(x.begin(), x.begin() + 4096);
          expected.encode(a, 0, first, whole, {1, 2, 3, 0});
          tested.encode(b, 0, first, whole, {1, 2, 3, 0});
          expected.fold(a, 1, first, whole, {1, 2, 3, 1});
          tested.fold(b, 1, first, whole, {1, 2, 3, 1});
        } else {
          expected.encode(a, 0, first, x, {1, 2, 4, 0});
          tested.encode(b, 0, first, x, {1, 2, 4, 0});
        }
        expect_equal(a, b, c.name);
        EXPECT_EQ(b.failed, bad != 0.0F) << c.name << " " << bad;
      }
    }
  }
}

TEST(CudaEmulated, BytesAreTheCpus) {
  CpuDevice device(1);
  compare(backend_of(device), backend_of(*make_device("cuda-emulated", 1)), cases());
}
TEST(CudaEmulated, RangesAndFailuresAreTheCpus) {
  CpuDevice device(1);
  compare_ranges_and_failures(backend_of(device), backend_of(*make_device("cuda-emulated", 1)));
}

// Every format, whole and in parts: what is read, summed and emptied.
TEST(CudaEmulated, ReadsSumsAndEmptiesAsTheCpu) {
  CpuDevice cpu(1);
  const auto emulated = make_device("cuda-emulated", 1);
  for (const Format f : all_formats()) {
    for (const std::int64_t n : {1, 127, 4096 + 77, 3 * 4096}) {
      const Codec codec{f, is_packed(f) ? 128 : 0, kRn, kMoving};
      Host host(codec, n);
      const RoleView view = host.view();
      cpu.encode(view, 0, n, values(n, 3, !is_signed(f.map)).data(), {1, 2, 3, 0});
      const std::int64_t first = n > 4096 ? 4096 : 0, count = n - first,
                         width = std::min<std::int64_t>(n, 50);
      const std::vector<std::int32_t> rows = {static_cast<std::int32_t>(n / width - 1), 0, 0};
      const auto read = [&](Device& device) {
        std::vector<float> all(static_cast<std::size_t>(count)), some(static_cast<std::size_t>(3 * width));
        std::vector<std::uint16_t> halves(static_cast<std::size_t>(count));
        device.decode(view, first, count, all.data());
        device.decode_bf16(view, first, count, halves.data());
        device.decode_rows(view, width, rows.data(), 3, some.data());
        return std::tuple(all, halves, some, square_sum(device, view, first, count));
      };
      EXPECT_EQ(read(cpu), read(*emulated)) << to_string(f) << " " << n;
      emulated->clear(view);
      EXPECT_EQ(square_sum(cpu, view, 0, n), 0.0) << to_string(f) << " " << n;
    }
  }
}

// Fibers take turns at barriers, in any order; threads that have ended are not waited for.
TEST(CudaEmulated, BlocksMeetAtBarriers) {
  constexpr unsigned kThreads = 96;
  for (const unsigned block : {0U, 7U}) {
    std::vector<int> before(kThreads), after(kThreads);
    cuda_emulated::Block::run(
        [&] {
          const unsigned i = cuda_emulated::threadIdx.x;
          EXPECT_EQ(cuda_emulated::blockIdx.x, block);
          auto* shared = static_cast<int*>(cuda_emulated::Block::dynamic_shared());
          shared[i] = static_cast<int>(i);
          if (i % 3 == 2) return;
          cuda_emulated::Block::barrier();
          before[i] = shared[(i + 1) % kThreads];
          cuda_emulated::Block::barrier();
          shared[i] = -1;
          cuda_emulated::Block::barrier();
          after[i] = shared[(i + kThreads - 1) % kThreads];
        },
        block, kThreads, kThreads * sizeof(int));
    for (unsigned i = 0; i < kThreads; ++i) {
      if (i % 3 == 2) continue;
      EXPECT_EQ(before[i], static_cast<int>((i + 1) % kThreads));
      const unsigned left = (i + kThreads - 1) % kThreads;
      EXPECT_EQ(after[i], left % 3 == 2 ? static_cast<int>(left) : -1);
    }
  }
}

// Lanes of a warp meet as often as they like, whatever other warps do.
TEST(CudaEmulated, LanesMeet) {
  constexpr unsigned kThreads = 96;
  std::vector<std::uint64_t> sums(kThreads);
  cuda_emulated::Block::run(
      [&] {
        const unsigned i = cuda_emulated::threadIdx.x, warp = i / 32;
        for (unsigned turn = 0; turn <= 3 * warp; ++turn) {
          const cuda_emulated::OfLanes& all = cuda_emulated::Block::meet(1000 * turn + i);
          sums[i] += std::accumulate(all.begin(), all.end(), std::uint64_t{0});
        }
        cuda_emulated::Block::barrier();
        EXPECT_EQ(sums[i], sums[(i % 32 + 1) % 32 + 32 * warp]);
      },
      0, kThreads, 0);
  for (unsigned i = 0; i < kThreads; ++i) {
    const std::uint64_t turns = 3 * (i / 32) + 1, first = i / 32 * 32;
    EXPECT_EQ(sums[i], turns * (32 * first + 31 * 16) + 32 * 1000 * (turns * (turns - 1) / 2)) << i;
  }
}
// A lane that does not come is waited for in vain: on a device that is not defined.
TEST(CudaEmulated, AMissingLaneIsNoticed) {
  const auto but_one = [] {
    if (cuda_emulated::threadIdx.x != 40) cuda_emulated::Block::meet(0);
  };
  EXPECT_THROW(cuda_emulated::Block::run(but_one, 0, 64, 0), std::logic_error);
  const auto barrier_or_meeting = [] {
    if (cuda_emulated::threadIdx.x == 3) {
      cuda_emulated::Block::barrier();
    } else {
      cuda_emulated::Block::meet(0);
    }
  };
  EXPECT_THROW(cuda_emulated::Block::run(barrier_or_meeting, 0, 64, 0), std::logic_error);
}

TEST(GpuTest, BytesAreTheCpus) {
  if (const char* why = cuda::unavailable()) GTEST_SKIP() << why;
  CpuDevice device(1);
  compare(backend_of(device), gpu(), cases());
  compare(backend_of(device), gpu(), presets());
}
TEST(GpuTest, RangesAndFailuresAreTheCpus) {
  if (const char* why = cuda::unavailable()) GTEST_SKIP() << why;
  CpuDevice device(1);
  compare_ranges_and_failures(backend_of(device), gpu());
}

}  // namespace
}  // namespace lpmm::kernels
