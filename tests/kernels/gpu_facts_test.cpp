// One clear line for every reason why a GPU cannot be used.
#include <gtest/gtest.h>

#include "kernels/cuda/facts.h"

namespace lpmm::kernels {
namespace {

const GpuFacts kGood{.name = "NVIDIA H100", .major = 9, .minor = 0};

TEST(GpuFacts, AGoodDeviceIsTaken) {
  EXPECT_EQ(why_no_gpu(kGood), "");
}
TEST(GpuFacts, EveryReasonIsSaid) {
  const auto with = [](auto&& change) {
    GpuFacts facts = kGood;
    change(facts);
    return why_no_gpu(facts);
  };
  using Asked = GpuFacts::Asked;
  EXPECT_NE(with([](GpuFacts& f) { f.asked = Asked::kNone; }).find("no NVIDIA GPU"), std::string::npos);
  EXPECT_NE(with([](GpuFacts& f) { f.asked = Asked::kOldDriver; }).find("older"), std::string::npos);
  EXPECT_NE(with([](GpuFacts& f) {
              f.asked = Asked::kOldDriver;
              f.has_driver = false;
            }).find("no NVIDIA driver"),
            std::string::npos);
  EXPECT_EQ(with([](GpuFacts& f) {
              f.asked = Asked::kFailed;
              f.error = "initialization error";
            }),
            "initialization error");
  const std::string old = with([](GpuFacts& f) {
    f.name = "Tesla V100";
    f.major = 7;
  });
  EXPECT_NE(old.find("Tesla V100"), std::string::npos) << old;
  EXPECT_NE(old.find("7.0"), std::string::npos) << old;
  const std::string other = with([](GpuFacts& f) {
    f.has_code = false;
    f.minor = 3;
    f.major = 10;
  });
  EXPECT_NE(other.find("CMAKE_CUDA_ARCHITECTURES=103"), std::string::npos) << other;
}

}  // namespace
}  // namespace lpmm::kernels
