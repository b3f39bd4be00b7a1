// A spec says how one role is stored, as text:
// FORMAT[:blockN|row|rank1][:step32][:rn|sr|qr|ur|ar][:moving|sticky|floored], for example
// "int12:block128:sr:sticky", "ude8:block256:rn" or "lin04:rank1:step32:rn". bf16 takes a rounding only, fp32
// nothing. row and rank1: steps of rows, or of rows and columns (Scaling in kernels/formats/format.h), and
// step32: steps in fp32, are for states; such steps are not sticky, and log0 has none of them. floored: such
// steps that count a block's largest value as 1e-12 at least, with step32.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "kernels/formats/maps.h"
#include "kernels/formats/spec_reader.h"
#include "kernels/rules/rule.h"

namespace lpmm {

using Spec = Codec;  // the kernels' name for the same thing

inline constexpr std::array<std::string_view, 3> kCommonRoundings = {"rn", "sr", "qr"};  // of any format

// Omitted parts: block 128, sr, moving.
// Throws UsageError that shows the place of the mistake and the alternatives.
Spec parse_spec(std::string_view text);

// The canonical text; parse_spec(to_string(s)) == s, but for what fit_spec adds.
std::string to_string(const Spec& spec);
std::string scaling_name(const Spec& spec);     // "block128", "row", "rank1"; of bf16 and fp32 ""
std::string_view to_string(Role role);          // as in kRoleRows
std::string_view to_string(Rounding rounding);  // "rn", "sr", "qr", "ur", "ar"

// The table of formats (kMaps) for messages: all of them, "int2 to int16, de4, de8, ..."; and the maps that
// `wanted` picks, "int, de, soft, bf16 or fp32".
std::string format_choices();
std::string map_choices(bool (*wanted)(const MapRow&));

// The spec of one tensor: where steps are of rows, it says how long these are. A vector, or a matrix of one
// row or column, has blocks of 128 instead. Throws UsageError where rows have 2^31 elements or more.
Spec fit_spec(Spec spec, const TensorTraits& tensor);

// Bits per element of a tensor of `elements`, codes and steps, padding included; of a square matrix, where
// steps are of rows and the spec is not yet of a tensor.
double bits_per_element(const Spec& spec, std::int64_t elements);

}  // namespace lpmm
