#include "theory/sign_study.h"

#include <cmath>

#include "kernels/packed.h"

namespace lpmm::theory {

SignStudy::SignStudy(const Spec& spec, double beta1, double beta2, std::uint64_t seed)
    : spec_(spec), beta1_(static_cast<float>(beta1)), beta2_(static_cast<float>(beta2)), seed_(seed) {}

void SignStudy::update(int tensor, std::span<const float> momentum, std::span<const float> gradient,
                       Device& device) {
  const auto count = static_cast<std::int64_t>(gradient.size());
  const auto place = static_cast<std::size_t>(tensor);
  if (tensors_.size() <= place) tensors_.resize(place + 1);
  Stored& to = tensors_[place];
  to.codes.resize(static_cast<std::size_t>(code_bytes(spec_.format, count)));
  to.steps.resize(static_cast<std::size_t>(step_bytes(spec_, count) / 2));
  const kernels::RoleView view = {spec_, to.codes.data(), to.steps.data(), count};
  std::vector<float> read(gradient.size());
  device.decode(view, 0, count, read.data());
  device.synchronize();
  for (std::size_t i = 0; i < read.size(); ++i) {
    const float exact = beta1_ * momentum[i] + (1 - beta1_) * gradient[i];
    const float now = beta1_ * read[i] + (1 - beta1_) * gradient[i];
    const bool is_turned = (now > 0) != (exact > 0) || (now < 0) != (exact < 0);
    const double size = std::abs(static_cast<double>(exact));
    count_ += 1;
    weight_ += size;
    turned_ += is_turned ? 1 : 0;
    turned_weight_ += is_turned ? size : 0;
    read[i] = beta2_ * read[i] + (1 - beta2_) * gradient[i];
  }
  const Noise noise{seed_, static_cast<std::uint32_t>(tensor), ++to.updates,
                    static_cast<std::uint32_t>(Stream::kTest)};
  device.encode({view, 0, count, read.data(), noise, nullptr});
  device.synchronize();
}

void SignStudy::begin_count() {
  count_ = turned_ = weight_ = turned_weight_ = 0;
}

TurnedSigns SignStudy::turned() const {
  return {count_ > 0 ? turned_ / count_ : 0, weight_ > 0 ? turned_weight_ / weight_ : 0};
}

}  // namespace lpmm::theory
