// The CUDA kernels of packed memory against the CPU's, byte for byte: on fibers, and on a GPU where there is
// one (label gpu).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/cpu/packed/fused.h"
#include "kernels/cuda/fibers.h"
#include "kernels/formats/maps.h"
#include "lpmm/memory/spec.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/every_rule.h"
#include "tests/kernels/support.h"
#include "tests/sanitized.h"

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
constexpr Rounding kUr = Rounding::kUpdate, kAr = Rounding::kAverage;
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
        steps(static_cast<std::size_t>(step_bytes(c, n) / 2)),
        elements(n) {}
  RoleView view() {
    if (codes.empty()) return {};
    return {codec, codes.data(), steps.empty() ? nullptr : steps.data(), elements};
  }
};

// Every role; where a backend works on them, their bytes afterwards, and whether a value failed.
struct State {
  std::array<Host, kRoles> roles;
  bool failed = false;
  double square_sum = 0;  // sum of the last fold
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

FoldArgs fold_args(const Noise& noise) {
  return {.scale = 0.5F, .noise = noise, .want_square_sum = true};
}

// One role of a state in a device's memory; it goes back to the state when this ends.
class There {
 public:
  There(Device& device, Host& host) : host_(host), codes_(device, host.codes), steps_(device, host.steps) {}
  ~There() {
    host_.codes = codes_.values();
    host_.steps = steps_.values();
  }
  There(const There&) = delete;
  There& operator=(const There&) = delete;
  RoleView view() const {
    if (host_.codes.empty()) return {};
    return {host_.codec, codes_.data(), host_.steps.empty() ? nullptr : steps_.data(), host_.elements};
  }

 private:
  Host& host_;
  DeviceArray<std::uint8_t> codes_;
  DeviceArray<std::uint16_t> steps_;
};
// A result of a kernel.
template <class Result>
class Shared {
 public:
  explicit Shared(Device& device)
      : device_(device),
        memory_(device.allocate_shared(sizeof(Result))),
        result_(new (memory_.get()) Result{}) {}
  Result* get() { return result_; }
  const Result& read() {
    device_.synchronize();
    return *result_;
  }

 private:
  Device& device_;
  DeviceMemory memory_;
  Result* result_;
};

// The calls, from states of the host to states of the host.
struct Backend {
  Device& device;
  void encode(State& s, std::size_t r, std::int64_t first, const std::vector<float>& x,
              const Noise& n) const {
    Shared<bool> storable(device);
    const There role(device, s.roles[r]);
    const DeviceArray<float> src(device, x);
    device.encode({role.view(), first, std::ssize(x), src.data(), n, storable.get()});
    s.failed |= !storable.read();
  }
  void fold(State& s, std::size_t r, std::int64_t first, const std::vector<float>& x, const Noise& n) const {
    Shared<FoldResult> result(device);
    const There role(device, s.roles[r]);
    const DeviceArray<float> src(device, x);
    const Fold fold = {role.view(), first, {src.data(), x.size()}, fold_args(n), result.get()};
    device.fold({&fold, 1});
    s.failed |= !result.read().finite;
    s.square_sum = result.read().square_sum;
  }
  void update(State& s, const Rule& rule, const Noise& n) const {
    Shared<bool> storable(device);
    std::array<std::optional<There>, kRoles> there;
    UpdateArgs args;
    args.noise = n;
    for (const Role r : kEveryRole) {
      const auto at = static_cast<std::size_t>(r);
      args.roles[r] = there[at].emplace(device, s.roles[at]).view();
    }
    const TensorUpdate tensor{rule, args, storable.get()};
    device.update({&tensor, 1});
    s.failed |= !storable.read();
  }
  std::vector<float> decode(State& s, std::size_t r) const {
    const std::int64_t n = s.roles[r].elements;
    const There role(device, s.roles[r]);
    const DeviceArray<float> x(device, std::vector<float>(static_cast<std::size_t>(n)));
    device.decode(role.view(), 0, n, x.data());
    return x.values();
  }
};

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

Codec apart(Codec codec, Scaling scaling, std::uint8_t step_bits) {
  codec.scaling = scaling;
  codec.step_bits = step_bits;
  return codec;
}
// Every fourth as it is; the others with steps in fp32, of rows, and of rows and columns.
Codec apart_or_not(Codec codec, int i) {
  if (i % 4 == 0) return codec;
  codec.step_mode = kMoving;
  if (i % 4 == 1) return apart(codec, Scaling::kBlocks, 32);
  codec.block = 1 + 7 * i;
  return apart(codec, i % 4 == 2 ? Scaling::kRows : Scaling::kRank1, i % 3 == 0 ? 32 : 16);
}

struct Case {
  const char* name;
  RoleArray<Codec> codecs;  // parameter, accumulator, momentum, variance, slow momentum, compensation
};
std::vector<Case> cases() {
  return {
      {"12/8/8/8 sticky",
       {{linear(12, 128, kSr, kSticky), linear(8, 128, kSr, kMoving), linear(8, 128, kSr, kMoving),
         table(Map::kSquareRoot, 8, 128, kSr), linear(12, 256, kQr, kSticky)}}},
      {"8/4/4/4 with unlike blocks",
       {{linear(8, 64, kSr, kSticky), linear(4, 256, kSr, kMoving), table(Map::kSoftsign, 4, 128, kSr),
         table(Map::kLinearNoZero, 4, 4096, kSr), linear(16, 512, kSr, kMoving)}}},
      {"6/3/4/3 quasi-stochastic",
       {{linear(6, 128, kQr, kSticky), table(Map::kSoftsign, 3, 128, kQr), table(Map::kSoftsign, 4, 128, kQr),
         table(Map::kSquareRoot, 3, 128, kQr), table(Map::kSoftsign, 8, 64, kQr)}}},
      {"nearest, dynamic maps",
       {{linear(7, 512, kRn, kMoving), linear(5, 64, kRn, kMoving), table(Map::kDynamic, 8, 256, kRn),
         table(Map::kDynamicUnsigned, 8, 256, kRn), table(Map::kDynamic, 8, 256, kRn)}}},
      {"16/16, stochastic dynamic maps",
       {{linear(16, 128, kSr, kSticky), linear(16, 128, kSr, kMoving), table(Map::kDynamic, 4, 128, kSr),
         table(Map::kDynamicNoZero, 8, 128, kSr), linear(12, 128, kSr, kSticky)}}},
      {"bf16 and fp32",
       {{Codec{{Map::kBf16, 16}, 0, kSr, kMoving}, Codec{{Map::kBf16, 16}, 0, kRn, kMoving}, kFp32Codec,
         table(Map::kDynamicNoZero, 4, 1024, kRn), Codec{{Map::kBf16, 16}, 0, kSr, kMoving}}}},
      {"a range by block",
       {{linear(8, 128, kSr, kSticky), linear(8, 128, kSr, kMoving), table(Map::kSoftsign, 5, 64, kSr),
         table(Map::kLog, 4, 128, kSr), linear(12, 128, kQr, kSticky)}}},
      {"rounded in the update",
       {{linear(8, 128, kSr, kSticky), linear(8, 128, kSr, kMoving), table(Map::kDynamic, 6, 64, kSr),
         table(Map::kSquareRoot, 8, 128, kUr), linear(12, 128, kQr, kSticky)}}},
      {"rounded for an average",
       {{linear(8, 128, kSr, kSticky), linear(8, 128, kSr, kMoving), table(Map::kSoftsign, 4, 128, kSr),
         table(Map::kSquareRoot, 4, 128, kAr), linear(12, 128, kQr, kSticky)}}},
      {"a variance with 0",
       {{linear(8, 128, kSr, kSticky), linear(8, 128, kSr, kMoving), table(Map::kSoftsign, 8, 64, kRn),
         table(Map::kSquareRootWithZero, 8, 64, kRn), linear(12, 128, kQr, kSticky)}}},
      {"two terms, in blocks",
       {{linear(8, 128, kSr, kSticky), linear(8, 128, kSr, kMoving), table(Map::kSoftsign, 4, 128, kSr),
         table(Map::kSquareRoot, 4, 128, kSr), linear(12, 128, kQr, kSticky), linear(4, 256, kSr, kMoving)}}},
      {"two terms, in the parameter's units",
       {{Codec{{Map::kBf16, 16}, 0, kRn, kMoving}, linear(8, 64, kSr, kMoving),
         table(Map::kSoftsign, 8, 64, kRn), table(Map::kSquareRoot, 8, 64, kRn),
         table(Map::kSoftsign, 8, 64, kRn), Codec{{Map::kUlp, 8}, 0, kRn, kMoving}}}},
      {"two terms, all stochastic",
       {{Codec{{Map::kBf16, 16}, 0, kSr, kMoving}, linear(8, 128, kSr, kMoving), linear(8, 128, kSr, kMoving),
         table(Map::kSquareRoot, 8, 128, kSr), linear(12, 128, kSr, kSticky),
         Codec{{Map::kUlp, 8}, 0, kQr, kMoving}}}},
      {"two terms, the second coarse and larger",
       {{Codec{{Map::kBf16, 16}, 0, kRn, kMoving}, kFp32Codec, kFp32Codec, kFp32Codec, kFp32Codec,
         Codec{{Map::kBf16, 16}, 0, kSr, kMoving}}}},
      {"fp32", {{kFp32Codec, kFp32Codec, kFp32Codec, kFp32Codec, kFp32Codec}}},
      {"steps in fp32",
       {{kFp32Codec, kFp32Codec, apart(table(Map::kDynamic, 8, 256, kRn), Scaling::kBlocks, 32),
         apart(table(Map::kLinearNoZero, 4, 128, kUr), Scaling::kBlocks, 32),
         apart(linear(12, 64, kSr, kMoving), Scaling::kBlocks, 32)}}},
      {"steps of rows and columns",
       {{linear(8, 128, kSr, kSticky), linear(8, 128, kSr, kMoving),
         apart(table(Map::kDynamic, 4, 37, kRn), Scaling::kRank1, 16),
         apart(table(Map::kLinearNoZero, 4, 700, kSr), Scaling::kRank1, 32),
         apart(table(Map::kSoftsign, 8, 2047, kQr), Scaling::kRows, 16)}}},
      {"steps of rows",
       {{kFp32Codec, linear(4, 4096, kSr, kMoving), apart(linear(8, 1, kSr, kMoving), Scaling::kRows, 32),
         apart(table(Map::kSquareRootWithZero, 4, 9000, kRn), Scaling::kRows, 16),
         apart(table(Map::kE4m3, 8, 129, kSr), Scaling::kRank1, 32)}}},
  };
}

// The cases that the fast kernels are for.
Case preset(const char* name, std::size_t set) {
  const fused::Codecs& of = fused::kCodecs[set];
  return {name, of};
}
std::vector<Case> presets() {
  return {preset("lpmm", 2), preset("lpmm-compact", 3), preset("lpmm-min", 4), preset("lpmm-nano", 5)};
}
// With these the emulated device is tested in cuda_fused_test.cpp.
std::vector<Case> beside_plain() {
  Case narrow = preset("beside bf16 of a framework", 9);
  narrow.codecs[Role::kParameter] = Codec{{Map::kBf16, 16}, 0, kSr, kMoving};
  narrow.codecs[Role::kAccumulator] = Codec{{Map::kBf16, 16}, 0, kRn, kMoving};
  return {narrow, preset("beside fp32 of a framework", 10), preset("sums in fp32", 13)};
}

// `keeps` says which states there are.
template <class Keeps>
State make_state(const Case& c, std::int64_t elements, const Keeps& keeps) {
  State s;
  for (const Role r : kEveryRole) {
    const bool is_there =
        r == Role::kCompensation ? c.codecs[r].format.map != Map::kFp32 : !is_state(r) || keeps(r);
    if (is_there)
      s.roles[static_cast<std::size_t>(r)] =
          Host(is_per_element(r) ? c.codecs[r] : kFp32Codec, values_of(r, elements));
  }
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
  Adam adam;
  adam.step_size = 0.01F;
  adam.beta1 = 0.9F;
  adam.one_minus_beta1 = 0.1F;
  adam.beta2 = 0.99F;
  adam.one_minus_beta2 = 0.01F;
  adam.variance_scale = 3.0F;
  adam.decay_factor = 0.999F;
  struct Kind {
    Rule rule;
    bool in_momentum = false;  // gradients are accumulated there
  };
  Sgd accumulating = sgd;
  accumulating.nesterov = 0;
  std::vector<Kind> kinds = {{sgd}, {plain}, {adam}, {accumulating, true}};
  for (const Rule& rule : every_rule()) kinds.push_back({rule});
  for (const Rule& rule : every_fed_rule()) kinds.push_back({rule});
  const auto is_legal = [](const Case& c, const Kind& kind) {
    const bool is_fed = feeds_back(kind.rule);
    if (is_fed && c.codecs[Role::kCompensation].format.map != Map::kFp32) return false;
    return has_blocks(c.codecs[Role::kMomentum]) || !(kind.in_momentum || is_fed);
  };
  std::size_t number = 0;
  for (const Case& c : of) {
    ++number;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const Kind& kind = kinds[k];
      if (!is_legal(c, kind)) continue;
      // Each case and each kind has both large sizes; sanitizers see a third of the pairs.
      if (kSanitized && (number + k) % 3 != 0) continue;
      for (const std::int64_t elements :
           {std::int64_t{1}, (number + k) % 2 == 0 ? 5000 : std::int64_t{8192 + 78}}) {
        const Rule& rule = kind.rule;
        const bool in_momentum = kind.in_momentum;
        const Sgd* const is_sgd = std::get_if<Sgd>(&rule);
        State a = make_state(c, elements, [&](Role r) {
          return has_state(rule, r) && (is_sgd == nullptr || is_sgd->momentum != 0);
        });
        if (in_momentum) a.roles[1] = Host();
        State b = a;
        const std::size_t folded = in_momentum ? 2 : 1;
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
          both([&](const Backend& on, State& s) { on.update(s, rule, {7, 3, step, 0}); });
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
      State a = make_state(c, 3 * 4096 + 100, [](Role) { return false; });
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

// Against the CPU: the emulated device, and a GPU where there is one.
class PackedBytes : public DeviceTest {
 protected:
  CpuDevice cpu{1};
};
INSTANTIATE_TEST_SUITE_P(, PackedBytes, testing::Values("cuda-emulated"), name_of_device);
INSTANTIATE_TEST_SUITE_P(Gpu, PackedBytes, testing::Values("cuda"), name_of_device);

TEST_P(PackedBytes, AreTheCpus) {
  compare({cpu}, {device()}, cases());
  if (!kSanitized) compare({cpu}, {device()}, presets());
  if (GetParam() == kGpu) compare({cpu}, {device()}, beside_plain());
}
TEST_P(PackedBytes, OfRangesAndFailuresAreTheCpus) {
  compare_ranges_and_failures({cpu}, {device()});
}

// Every format, whole and in parts: what is read, summed and emptied.
TEST_P(PackedBytes, AreReadSummedAndEmptiedAsByTheCpu) {
  for (const Format f : all_formats()) {
    for (const std::int64_t n : {1, 127, 4096 + 77, 3 * 4096}) {
      Host host(Codec{f, is_packed(f) ? 128 : 0, kRn, kMoving}, n);
      cpu.encode({host.view(), 0, n, values(n, 3, !is_signed(f.map)).data(), {1, 2, 3, 0}});
      const std::int64_t first = n > 4096 ? 4096 : 0, count = n - first,
                         width = std::min<std::int64_t>(n, 50);
      const std::vector<std::int32_t> rows = {static_cast<std::int32_t>(n / width - 1), 0, 0};
      const auto read = [&](Device& on) {
        const There role(on, host);
        const auto size = static_cast<std::size_t>(count);
        const DeviceArray<float> all(on, std::vector<float>(size)),
            some(on, std::vector<float>(static_cast<std::size_t>(3 * width)));
        const DeviceArray<std::uint16_t> halves(on, std::vector<std::uint16_t>(size));
        const DeviceArray<std::int32_t> places(on, rows);
        Shared<double> sum(on);
        on.decode(role.view(), first, count, all.data());
        on.decode_bf16(role.view(), first, count, halves.data());
        on.decode_rows({role.view(), width, places.data(), 3, some.data()});
        on.square_sum(role.view(), first, count, sum.get());
        return std::tuple(all.values(), halves.values(), some.values(), sum.read());
      };
      EXPECT_EQ(read(cpu), read(device())) << to_string(f) << " " << n;
      {
        const There role(device(), host);
        device().clear(role.view());
      }
      Shared<double> sum(cpu);
      cpu.square_sum(host.view(), 0, n, sum.get());
      EXPECT_EQ(sum.read(), 0.0) << to_string(f) << " " << n;
    }
  }
}

// Every format at 300 sizes, up to some blocks and groups, which its roundings share.
// Five are no power of two; a sum above what can be stored stays as it is.
TEST_P(PackedBytes, AreAddedAsATree) {
  for (const Codec& codec : {kFp32Codec, linear(8, 128, kSr, kMoving), table(Map::kSoftsign, 4, 128, kSr)}) {
    for (const std::int64_t n : {1, 127, 4096 + 77}) {
      for (const std::size_t count : {1U, 2U, 5U}) {
        std::vector<Host> hosts(count, Host(codec, n));
        std::vector<std::vector<float>> terms;
        for (std::size_t i = 0; i < count; ++i) {
          std::vector<float> x = values(n, static_cast<std::uint32_t>(i), false);
          if (codec == kFp32Codec) x[0] = 1e36F;
          cpu.encode({hosts[i].view(), 0, n, x.data(), {1, 2, 3, 0}});
          cpu.decode(hosts[i].view(), 0, n, x.data());
          terms.push_back(std::move(x));
        }
        const std::vector<float> wanted = added_as_tree(std::move(terms));
        const auto sum = [&](Device& on) {
          std::vector<std::unique_ptr<There>> there;
          std::vector<RoleView> views;
          for (Host& host : hosts) views.push_back(there.emplace_back(new There(on, host))->view());
          const auto level = static_cast<std::size_t>(groups_of(n) * kGroup);
          const DeviceArray<float> out(on, std::vector<float>(level)),
              rooms(on, std::vector<float>(3 * level));
          on.decode_sum(views, out.data(), rooms.data());
          std::vector<float> all = out.values();
          all.resize(static_cast<std::size_t>(n));
          return all;
        };
        EXPECT_EQ(sum(cpu), wanted) << to_string(codec.format) << " " << n << " " << count;
        EXPECT_EQ(sum(device()), wanted) << to_string(codec.format) << " " << n << " " << count;
      }
    }
  }
}

TEST_P(PackedBytes, AreTheCpusAtEverySize) {
  std::mt19937 random(5);
  const std::vector<float> all = values(2000, 9, false);
  for (const Format f : all_formats()) {
    std::vector<Rounding> roundings;
    for (const Rounding rounding : {kSr, kQr, kRn, kUr, kAr}) {
      if (can_round(f.map, rounding) && (f.map != Map::kFp32 || rounding == kRn))
        roundings.push_back(rounding);
    }
    for (int i = 0; i < 300; ++i) {
      const std::int64_t n = i < 150 ? i + 1 : 1 + static_cast<std::int64_t>(random() % 1500);
      const Rounding rounding = roundings[static_cast<std::size_t>(i / 4 + i / 32) % roundings.size()];
      const int block = is_packed(f) ? 64 << (i % 4) : 0;
      Codec codec{f, block, rounding, i % 2 == 0 ? kMoving : kSticky};
      if (is_packed(f) && !has_range(f.map)) codec = apart_or_not(codec, i / 8);
      Host a(codec, n), b = a;
      const Noise noise{1, 2, static_cast<std::uint32_t>(i), 0};
      for (auto& [on, host] : {std::pair<Device&, Host&>(cpu, a), std::pair<Device&, Host&>(device(), b)}) {
        const There role(on, host);
        const DeviceArray<float> src(on, std::vector<float>(all.begin(), all.begin() + n));
        on.encode({role.view(), 0, n, src.data(), noise, nullptr});
      }
      ASSERT_TRUE(a.codes == b.codes && a.steps == b.steps) << to_string(a.codec) << " " << n;
    }
  }
}

// Elements beyond 2^32 of one tensor, most of which is never touched.
TEST_P(PackedBytes, BeyondTheIndexesOf32Bits) {
  constexpr std::int64_t kFirst = (std::int64_t{1} << 32) + 8 * 4096, kCount = 2 * 4096,
                         kElements = kFirst + kCount + 4096;
  const std::vector<float> x = values(kCount, 4, false);
  for (const Codec& codec : {linear(4, 128, kSr, kMoving), table(Map::kSoftsign, 3, 256, kSr)}) {
    std::vector<std::vector<float>> decoded;
    for (Device* on : {static_cast<Device*>(&cpu), &device()}) {
      const DeviceMemory codes = on->allocate(code_bytes(codec.format, kElements)),
                         steps = on->allocate(step_bytes(codec, kElements));
      if (codes == nullptr || steps == nullptr) GTEST_SKIP() << "no room for a tensor of 2^32 elements";
      const RoleView view{codec, reinterpret_cast<std::uint8_t*>(codes.get()),
                          reinterpret_cast<std::uint16_t*>(steps.get()), kElements};
      const DeviceArray<float> src(*on, x), out(*on, x);
      for (const std::uint32_t k : {1U, 2U}) {
        const Fold fold = {
            view, kFirst, {src.data(), x.size()}, fold_args({1, 2, 3, noise_stream(Role::kAccumulator, k)})};
        on->fold({&fold, 1});
      }
      on->decode(view, kFirst, kCount, out.data());
      decoded.push_back(out.values());
    }
    EXPECT_EQ(decoded[0], decoded[1]) << to_string(codec);
    EXPECT_NE(decoded[0], std::vector<float>(kCount)) << to_string(codec);
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

// Copies that nobody waits for: what was waited for is there, what was not is there in some blocks only.
TEST(CudaEmulated, CopiesAreAsLateAsTheyMayBe) {
  using cuda_emulated::Block, cuda_emulated::threadIdx;
  constexpr unsigned kThreads = 64;
  const int from[3] = {11, 22, 33};
  int early = 0, late = 0;
  for (unsigned block = 0; block < 40; ++block) {
    int wrong = 0;
    Block::run(
        [&] {
          int* const own = static_cast<int*>(Block::dynamic_shared()) + 4 * std::size_t{threadIdx.x};
          std::fill_n(own, 4, -1);
          for (int i = 0; i < 3; ++i) {
            Block::begin_copy(own + i, from + i, sizeof(int));
            if (i < 2) Block::commit_copies();
          }
          Block::begin_copy(own + 3, nullptr, sizeof(int));
          Block::wait_for_copies(1);
          wrong += own[0] != 11 ? 1 : 0;
          (own[1] == 22 ? early : late) += 1;
          Block::wait_for_copies(0);
          wrong += own[1] != 22 ? 1 : 0;
          (own[2] == 33 ? early : late) += 1;
          Block::commit_copies();
          Block::wait_for_copies(0);
          wrong += own[2] != 33 || own[3] != 0 ? 1 : 0;
          Block::begin_copy(own, from + 2, sizeof(int));  // and is gone with its block
        },
        block, kThreads, kThreads * 4 * sizeof(int));
    EXPECT_EQ(wrong, 0) << block;
  }
  EXPECT_GT(early, 0);
  EXPECT_GT(late, 0);
}

// Lanes of a warp meet while other warps are elsewhere; who does not come is missed.
TEST(CudaEmulated, WarpsMeet) {
  using cuda_emulated::threadIdx;
  constexpr int kThreads = 96;
  std::vector<int> got(kThreads), sums(kThreads);
  const auto run = [&](const std::function<void()>& body) {
    cuda_emulated::Block::run(body, 0, kThreads, 0);
  };
  run([&] {
    const int i = static_cast<int>(threadIdx.x);
    int value = i;
    for (int turn = 0; turn < 1 + i / 32; ++turn) {  // warps meet more or less often
      value = cuda_emulated::__shfl_sync(~0U, value, (i + 1) % 32);
    }
    got[threadIdx.x] = value;
    cuda_emulated::__syncthreads();
    int sum = i;
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += cuda_emulated::__shfl_xor_sync(~0U, sum, lanes);
    sums[threadIdx.x] = sum + 1000 * cuda_emulated::__shfl_down_sync(~0U, i, 1);
  });
  for (int i = 0; i < kThreads; ++i) {
    const int warp = i / 32 * 32, lane = i % 32;
    EXPECT_EQ(got[static_cast<std::size_t>(i)], warp + (lane + 1 + i / 32) % 32);
    EXPECT_EQ(sums[static_cast<std::size_t>(i)],
              32 * warp + 16 * 31 + 1000 * (warp + std::min(lane + 1, 31)));
  }
  EXPECT_THROW(run([&] {
                 if (threadIdx.x % 32 != 5) cuda_emulated::__syncwarp();
               }),
               std::logic_error);
  EXPECT_THROW(run([&] { threadIdx.x < 40 ? cuda_emulated::__syncwarp() : cuda_emulated::__syncthreads(); }),
               std::logic_error);
  run([&] { got[threadIdx.x] = -1; });  // goes on after that
  EXPECT_EQ(got, std::vector<int>(kThreads, -1));
  EXPECT_THROW(cuda_emulated::Block::run_apart([] { cuda_emulated::__syncthreads(); }, 0, 32),
               std::logic_error);
}

}  // namespace
}  // namespace lpmm::kernels
