// The loops of activations and of rotary positions over one shard, serial.
#pragma once

#include <cstdint>

#include "kernels/sequence.h"

namespace lpmm::kernels::loops {

struct ActivationLoops {
  void (*forward)(const ActivationArgs& args);
  void (*backward)(const ActivationArgs& args);
  // The rows begin at position `first` of a sequence, modulo its length.
  void (*rotary)(const RotaryArgs& args, std::int64_t first);
};
const ActivationLoops& activations();  // of the best instruction set

}  // namespace lpmm::kernels::loops
