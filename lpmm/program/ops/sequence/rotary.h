// Rotary positions: Su et al. 2021, in the layout of published Llamas.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

// Value i of a head of d and value i + d / 2 are rotated by position * theta^(-2 i / d), at a frequency that
// may be scaled for contexts longer than the model was trained for: by 1 / factor, or as Llama 3 and YaRN
// (Peng et al. 2023) do, where what turns often within the original context stays, what does not is scaled,
// and what is between changes smoothly: with the number of turns, or as YaRN does with i. LongRoPE (Ding et
// al. 2024) has a factor for each i: one list for sequences of at most the original context, and another for
// longer ones, all of whose positions are rotated by it. A program's length decides; in inference that of the
// text.
struct RotaryConfig {
  int head_width = 0;
  double theta = 10000;
  double factor = 1;
  int original_context = 0;  // of Llama 3's or YaRN's scaling; 0: all frequencies are scaled
  double low = 1, high = 4;  // turns within the original context: below `low` scaled, above `high` not
  bool is_yarn = false;
  double magnitude = 1;  // factor on what is rotated
  int part = 0;          // channels of a head that are rotated, the first, with d = part; 0: all
  std::vector<double> short_factors = {}, long_factors = {};  // LongRoPE's, part / 2 of each; empty: none
  int rotated_width() const { return part > 0 ? part : head_width; }
};

// The frequencies, rotated_width() / 2 of them: turns by that many radians per position.
std::vector<double> rotary_frequencies(const RotaryConfig& config, bool is_long = false);

// Cosines and sines for sequences of `length` positions, for all calls of rotary().
Value rotary_angles(ProgramBuilder& b, const RotaryConfig& config, int length);
// The first `rotated` of `heads` heads of the channels rotated, the others as they are; of a head the first
// `part` channels, or all where that is 0. Positions are those in `documents` (document_table()) where there
// are some, else in the sequence.
Value rotary(ProgramBuilder& b, Value x, Value angles, int heads, int rotated, int part = 0,
             Value documents = {});

}  // namespace lpmm
