// The CUDA bodies against the CPU kernels, byte for byte: walked on the CPU by a grid emulator, and on a
// device where there is one (label gpu).
#include "kernels/cuda.h"
#include "kernels/cpu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/update_body.h"
#include "kernels/maps.h"
#include "tests/kernels/every_rule.h"

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
};
void expect_equal(const State& a, const State& b, const char* what) {
  for (std::size_t r = 0; r < kRoles; ++r) {
    EXPECT_EQ(a.roles[r].codes, b.roles[r].codes) << what << ", role " << r;
    EXPECT_EQ(a.roles[r].steps, b.roles[r].steps) << what << ", role " << r;
  }
  EXPECT_EQ(a.failed, b.failed) << what;
}

// The three calls, on host pointers or on device pointers that mirror them.
struct Backend {
  std::function<void(State&, std::size_t role, std::int64_t first, const std::vector<float>&, const Noise&)>
      encode, fold;
  std::function<void(State&, const Rule&, const Noise&)> update;
  std::function<std::vector<float>(State&, std::size_t role)> decode;
};
constexpr float kScale = 0.5F;

Backend cpu_backend(Device& device) {
  Backend b;
  b.encode = [&](State& s, std::size_t r, std::int64_t first, const std::vector<float>& x, const Noise& n) {
    const auto count = static_cast<std::int64_t>(x.size());
    s.failed |= !encode(device, s.roles[r].view(), first, count, x.data(), n);
  };
  b.fold = [&](State& s, std::size_t r, std::int64_t first, const std::vector<float>& x, const Noise& n) {
    FoldArgs args;
    args.scale = kScale;
    args.noise = n;
    s.failed |=
        !fold(device, s.roles[r].view(), first, static_cast<std::int64_t>(x.size()), x.data(), args).finite;
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

// Blocks in any order, phase by phase, threads in an order that is not the natural one.
template <class JobType>
void emulate(const JobType& job, int phases = cuda::kPhases) {
  constexpr int kThreadsHere = 96;  // the bits do not depend on it
  alignas(8) static std::uint32_t shared[3 * 4096 + 1024];
  ASSERT_LE(cuda::shared_words(job), static_cast<std::int64_t>(std::size(shared)));
  std::fill(std::begin(shared), std::end(shared), 0xDEADBEEFU);
  for (std::int64_t block = cuda::units(job) - 1; block >= 0; --block) {
    for (int phase = 0; phase < phases; ++phase) {
      for (int i = 0; i < kThreadsHere; ++i) {
        cuda::run_phase(phase, job, block, (i * 35 + 11) % kThreadsHere, kThreadsHere, shared);
      }
    }
  }
}

template <class RuleType>
void emulate_update(const RuleType& rule, const RoleArray<RoleView>& roles, const Noise& noise, int* failed) {
  auto job = cuda::make_update(rule, roles, noise, failed, map_table);
  RuleType with_norms = rule;
  if constexpr (HasNorms<RuleType>) {
    auto norms = cuda::make_norms(rule, roles, map_table);
    std::vector<double> sums(static_cast<std::size_t>(cuda::units(norms) * RuleType::kNorms));
    norms.sums = sums.data();
    norms.with_norms = &with_norms;
    if (rule.needs_norms()) {
      emulate(norms, cuda::kNormPhases);
      cuda::finish_norms(norms);
      job.with_norms = &with_norms;
    }
  }
  emulate(job);
}

Backend emulator() {
  Backend b;
  b.encode = [](State& s, std::size_t r, std::int64_t first, const std::vector<float>& x, const Noise& n) {
    int failed = 0;
    emulate(cuda::make_encode(s.roles[r].view(), first, static_cast<std::int64_t>(x.size()), x.data(), n,
                              &failed, map_table));
    s.failed |= failed != 0;
  };
  b.fold = [](State& s, std::size_t r, std::int64_t first, const std::vector<float>& x, const Noise& n) {
    int failed = 0;
    emulate(cuda::make_fold(s.roles[r].view(), first, static_cast<std::int64_t>(x.size()), x.data(), kScale,
                            n, &failed, map_table));
    s.failed |= failed != 0;
  };
  b.update = [](State& s, const Rule& rule, const Noise& n) {
    int failed = 0;
    const RoleArray<RoleView> roles{s.roles[0].view(), s.roles[1].view(), s.roles[2].view(),
                                    s.roles[3].view()};
    std::visit([&](const auto& r) { emulate_update(r, roles, n, &failed); }, rule);
    s.failed |= failed != 0;
  };
  b.decode = [](State& s, std::size_t r) {
    std::vector<float> x(static_cast<std::size_t>(s.roles[r].elements));
    const cuda::Slot slot = cuda::make_slot(s.roles[r].view(), map_table, {});
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = cuda::load_value(slot, static_cast<std::int64_t>(i));
    }
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
    int failed = 0;
    std::vector<float> copy = x;
    const Mirror flag(&failed, sizeof failed), src(copy.data(), 4 * copy.size());
    const RoleMirror role(s.roles[r]);
    cuda::encode(role.view(), first, static_cast<std::int64_t>(x.size()), src.as<float>(), n, flag.as<int>(),
                 nullptr);
    role.fetch();
    flag.fetch();
    s.failed |= failed != 0;
  };
  b.fold = [](State& s, std::size_t r, std::int64_t first, const std::vector<float>& x, const Noise& n) {
    int failed = 0;
    std::vector<float> copy = x;
    const Mirror flag(&failed, sizeof failed), src(copy.data(), 4 * copy.size());
    const RoleMirror role(s.roles[r]);
    cuda::fold(role.view(), first, static_cast<std::int64_t>(x.size()), src.as<float>(), kScale, n,
               flag.as<int>(), nullptr);
    role.fetch();
    flag.fetch();
    s.failed |= failed != 0;
  };
  b.update = [](State& s, const Rule& rule, const Noise& n) {
    int failed = 0;
    const Mirror flag(&failed, sizeof failed);
    const RoleMirror p(s.roles[0]), a(s.roles[1]), m(s.roles[2]), v(s.roles[3]);
    cuda::update(rule, {p.view(), a.view(), m.view(), v.view()}, n, flag.as<int>(), nullptr);
    for (const RoleMirror* role : {&p, &a, &m, &v}) role->fetch();
    flag.fetch();
    s.failed |= failed != 0;
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

State make_state(const Case& c, std::int64_t elements, bool momentum, bool variance) {
  State s;
  s.roles[0] = Host(c.codecs[0], elements);
  s.roles[1] = Host(c.codecs[1], elements);
  if (momentum) s.roles[2] = Host(c.codecs[2], elements);
  if (variance) s.roles[3] = Host(c.codecs[3], elements);
  return s;
}

// Encodes, folds twice, updates, three steps long, on both backends.
void compare(const Backend& expected, const Backend& tested) {
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
  for (const Case& c : cases()) {
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

TEST(CudaEmulator, BytesAreTheCpus) {
  CpuDevice device(1);
  compare(cpu_backend(device), emulator());
}
TEST(CudaEmulator, RangesAndFailuresAreTheCpus) {
  CpuDevice device(1);
  compare_ranges_and_failures(cpu_backend(device), emulator());
}

TEST(GpuTest, BytesAreTheCpus) {
  if (const char* why = cuda::unavailable()) GTEST_SKIP() << why;
  CpuDevice device(1);
  compare(cpu_backend(device), gpu());
}
TEST(GpuTest, RangesAndFailuresAreTheCpus) {
  if (const char* why = cuda::unavailable()) GTEST_SKIP() << why;
  CpuDevice device(1);
  compare_ranges_and_failures(cpu_backend(device), gpu());
}

}  // namespace
}  // namespace lpmm::kernels
