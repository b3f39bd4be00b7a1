// The effect of a momentum in few bits on Lion, whose step is the sign of c = beta1 m + (1 - beta1) g: some
// signs turn. The momentum goes on from what is stored, update after update, with the gradients of an exact
// run (Chen et al. 2023, arXiv 2302.06675).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "lpmm/memory/spec.h"

namespace lpmm::theory {

struct TurnedSigns {
  double elements = 0;  // share of the elements whose sign is another one, or 0, or was 0
  double weight = 0;    // their share of the sum of |c|: small where only signs turn that say little
};

class SignStudy {
 public:
  // `spec` of the momentum, signed; betas are Lion's. The momentum begins at 0.
  SignStudy(const Spec& spec, double beta1, double beta2, std::uint64_t seed);

  // The update of the tensor of this number: its gradient, and its momentum before, exactly. A tensor keeps
  // its size.
  void update(int tensor, std::span<const float> momentum, std::span<const float> gradient, Device& device);

  // turned() covers all updates since begin_count().
  void begin_count();
  TurnedSigns turned() const;

 private:
  struct Stored {
    std::vector<std::uint8_t> codes;
    std::vector<std::uint16_t> steps;
    std::uint32_t updates = 0;
  };
  Spec spec_;
  float beta1_, beta2_;
  std::uint64_t seed_;
  std::vector<Stored> tensors_;
  double count_ = 0, turned_ = 0, weight_ = 0, turned_weight_ = 0;
};

}  // namespace lpmm::theory
