// A spec says how one role is stored, as text: FORMAT[:blockN][:rn|sr|qr][:moving|sticky], for example
// "int12:block128:sr:sticky" or "ude8:block256:rn". bf16 takes a rounding only, fp32 nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/format.h"

namespace lpmm {

using Spec = Codec;  // the kernels' name for the same thing

// Omitted parts: block 128, sr, moving. Blocks are powers of two from 64 to 4096.
// Throws UsageError that shows the place of the mistake and the alternatives.
Spec parse_spec(std::string_view text);

// The canonical text; parse_spec(to_string(s)) == s.
std::string to_string(const Spec& spec);
std::string to_string(Format format);
std::string_view to_string(Role role);          // "parameter", "accumulator", "momentum", "variance"
std::string_view to_string(Rounding rounding);  // "rn", "sr"

// Every format there is, in the order of the table in kernels/format.h.
const std::vector<Format>& all_formats();

// Bits per element of a tensor of `elements`, codes and steps, padding included.
double bits_per_element(const Spec& spec, std::int64_t elements);

}  // namespace lpmm
