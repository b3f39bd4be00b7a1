// Folds that are handed over together: the bytes, sums, failures and counts of each on its own.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "kernels/cpu.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/support.h"
#include "tests/normal_values.h"

namespace lpmm::kernels {
namespace {

LPMM_DEVICE_SUITE(FoldAll);

// A fold into the last elements of an accumulator.
struct FoldCase {
  Codec codec;
  std::int64_t elements = 0;
  bool wants_sum = true, is_counted = false, has_result = true;
  std::int64_t first = 0;
  std::int64_t bad = -1;  // an element that is NaN
};
struct Folded {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> steps;
  bool finite;
  double sum;
  std::int64_t counted, underflows;
  bool operator==(const Folded&) const = default;
};

// The arrays and arguments of a case on a device.
class FoldThere {
 public:
  FoldThere(Device& device, const FoldCase& of, std::uint32_t number)
      : of_(of),
        number_(number),
        codes_(device, std::vector<std::uint8_t>(
                           static_cast<std::size_t>(code_bytes(of.codec.format, of.first + of.elements)))),
        steps_(device, std::vector<std::uint16_t>(
                           static_cast<std::size_t>(step_bytes(of.codec, of.first + of.elements) / 2))),
        values_(device, Floats(static_cast<std::size_t>(of.elements) + shift())),
        result_(device.allocate_shared(sizeof(FoldResult))) {}

  Fold next(std::uint32_t round) {
    Floats values = normal_values(of_.elements + static_cast<std::int64_t>(shift()), 7 * number_ + round);
    if (of_.bad >= 0) values[static_cast<std::size_t>(of_.bad) + shift()] = std::nanf("");
    values_.assign(values);
    Fold f;
    f.accumulator = {of_.codec, codes_.data(), of_.codec.block == 0 ? nullptr : steps_.data(),
                     of_.first + of_.elements};
    f.first = of_.first;
    f.gradient = {values_.data() + shift(), static_cast<std::size_t>(of_.elements)};
    f.args = {.scale = 0.3F, .noise = {5, number_, round, 0}, .want_square_sum = of_.wants_sum};
    if (of_.is_counted) f.args.stats = &stats_;
    f.result = new (result_.get()) FoldResult;
    if (!of_.has_result) f.result = nullptr;
    return f;
  }
  Folded now() const {
    const auto* result = reinterpret_cast<const FoldResult*>(result_.get());
    return {codes_.values(),    steps_.values(), result->finite,
            result->square_sum, stats_.elements, stats_.underflows};
  }

 private:
  std::size_t shift() const { return number_ % 3; }  // gradients begin at any float
  FoldCase of_;
  std::uint32_t number_;
  DeviceArray<std::uint8_t> codes_;
  DeviceArray<std::uint16_t> steps_;
  DeviceArray<float> values_;
  DeviceMemory result_;
  ChangeStats stats_;
};

// After two folds into each, what there is then; of the second, sums and failures.
std::vector<Folded> fold_twice(Device& device, const std::vector<FoldCase>& cases, bool together) {
  std::vector<std::unique_ptr<FoldThere>> all;
  for (const FoldCase& of : cases) {
    all.push_back(std::make_unique<FoldThere>(device, of, static_cast<std::uint32_t>(all.size())));
  }
  for (const std::uint32_t round : {0U, 1U}) {
    std::vector<Fold> folds;
    for (const auto& one : all) folds.push_back(one->next(round));
    if (together) {
      device.fold(folds);
    } else {
      for (const Fold& f : folds) device.fold({&f, 1});
    }
    device.synchronize();
  }
  std::vector<Folded> found;
  for (const auto& one : all) found.push_back(one->now());
  return found;
}

void expect_each_as_alone(Device& device, const std::vector<FoldCase>& cases) {
  CpuDevice cpu(1);
  const auto wanted = fold_twice(device, cases, false), found = fold_twice(device, cases, true),
             on_cpu = fold_twice(cpu, cases, true);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(found[i].finite, cases[i].bad < 0 || !cases[i].has_result) << i;
    EXPECT_EQ(found[i].counted, cases[i].is_counted ? 2 * cases[i].elements : 0) << i;
    EXPECT_TRUE(found[i].codes == wanted[i].codes && found[i].steps == wanted[i].steps) << i;
    EXPECT_EQ(found[i].finite, wanted[i].finite) << i;
    EXPECT_TRUE(found[i].codes == on_cpu[i].codes && found[i].steps == on_cpu[i].steps) << i;
    if (!found[i].finite) continue;  // no sum is to be trusted
    EXPECT_EQ(found[i].sum > 0, cases[i].wants_sum && cases[i].has_result && cases[i].elements > 0) << i;
    EXPECT_TRUE(found[i] == wanted[i]) << i;
    EXPECT_TRUE(found[i] == on_cpu[i]) << i;
  }
}

const Codec kPlain = codec_of({Map::kFp32, 32});
const Codec kOthers[] = {codec_of({Map::kLinear, 8}), codec_of({Map::kSoftsign, 4}),
                         codec_of({Map::kLinear, 6}, 64), codec_of({Map::kBf16, 16})};
constexpr std::int64_t kSizes[] = {0, 1, 127, 128, 1023, 1024, 1025, 3072, 16 * 1024, 16 * 1024 + 1, 40000};

TEST_P(FoldAll, IsTheFoldOfEach) {
  std::vector<FoldCase> cases;
  for (const std::int64_t n : kSizes) {
    cases.push_back({.codec = kPlain, .elements = n});
    cases.push_back({.codec = kOthers[cases.size() % std::size(kOthers)], .elements = n});
    cases.push_back({.codec = kPlain, .elements = n, .wants_sum = false});
    cases.push_back({.codec = kPlain, .elements = n, .has_result = false});
  }
  cases.push_back({.codec = kPlain, .elements = 3000, .first = 1024});
  cases.push_back({.codec = kPlain, .elements = 700, .is_counted = true});
  cases.push_back({.codec = kOthers[0], .elements = 700, .is_counted = true});
  expect_each_as_alone(device(), cases);
}

TEST_P(FoldAll, FailsWhereAValueIsBad) {
  std::vector<FoldCase> cases;
  for (const std::int64_t bad : {-1, 0, -1, 2999, 1024, -1}) {
    cases.push_back({.codec = kPlain, .elements = 3000, .bad = bad});
    cases.push_back({.codec = kPlain, .elements = 3000, .wants_sum = false, .bad = bad});
    cases.push_back({.codec = kOthers[0], .elements = 3000, .bad = bad});
  }
  cases.push_back({.codec = kPlain, .elements = 3000, .has_result = false, .bad = 5});
  expect_each_as_alone(device(), cases);
}

TEST_P(FoldAll, TakesAnyNumber) {
  device().fold({});
  for (const std::size_t count : {1U, 63U, 64U, 65U, 200U}) {
    std::vector<FoldCase> cases;
    for (std::size_t i = 0; i < count; ++i) {
      cases.push_back({.codec = i % 50 == 49 ? kOthers[0] : kPlain,
                       .elements = static_cast<std::int64_t>(1 + 37 * i % 2500),
                       .wants_sum = i % 4 != 3});
    }
    expect_each_as_alone(device(), cases);
  }
}

}  // namespace
}  // namespace lpmm::kernels
