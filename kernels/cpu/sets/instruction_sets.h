// The sets of instructions that packed memory's loops are compiled for. Each vector set is a file of this
// folder; the scalar one is kernels/cpu/tile_scalar.cpp and kernels/cpu/packed/rules_scalar.cpp.
#pragma once

#include <span>

#include "kernels/cpu/packed/rule_loops.h"
#include "kernels/cpu/tile.h"

namespace lpmm::kernels {

struct InstructionSet {
  const TileKernels* tile;
  const RuleLoops* rules;
};

// The sets that this processor runs, best first; the last one is the scalar set.
std::span<const InstructionSet> instruction_sets();

}  // namespace lpmm::kernels
