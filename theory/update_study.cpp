#include "theory/update_study.h"

#include <algorithm>
#include <cmath>

#include "kernels/packed.h"

namespace lpmm::theory {
namespace {

// The values as the format gives them back.
std::vector<float> stored(const Spec& spec, const std::vector<float>& values, const Noise& noise,
                          Device& device) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(code_bytes(spec.format, count)));
  std::vector<std::uint16_t> steps(static_cast<std::size_t>(step_bytes(spec, count) / 2));
  const kernels::RoleView view = {spec, codes.data(), steps.data(), count};
  std::vector<float> out(values.size());
  device.encode({view, 0, count, values.data(), noise, nullptr});
  device.decode(view, 0, count, out.data());
  device.synchronize();
  return out;
}

}  // namespace

UpdateStudyResult run_update_study(const UpdateStudy& study, std::span<const AdamState> tensors,
                                   Device& device) {
  const bool of_momentum = study.stored == Role::kMomentum;
  double errors = 0, squares = 0, products = 0, worst = 0;
  Noise noise{study.seed, 0, 0, static_cast<std::uint32_t>(Stream::kTest)};
  for (const AdamState& exact : tensors) {
    ++noise.tensor;
    const std::vector<float>& values = of_momentum ? exact.momentum : exact.variance;
    const std::vector<float> read =
        study.store ? study.store(values, device) : stored(study.spec, values, noise, device);
    const auto update = [&](float m, float v) {
      return m / (std::sqrt(static_cast<double>(v) / study.correction) + study.epsilon);
    };
    double error = 0, square = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double u = update(exact.momentum[i], exact.variance[i]);
      const double now =
          of_momentum ? update(read[i], exact.variance[i]) : update(exact.momentum[i], read[i]);
      error += (now - u) * (now - u);
      square += u * u;
      products += now * u;
    }
    errors += error;
    squares += square;
    if (square > 0) worst = std::max(worst, std::sqrt(error / square));
  }
  if (squares == 0) return {};
  return {std::sqrt(errors / squares), products / squares, worst};
}

}  // namespace lpmm::theory
