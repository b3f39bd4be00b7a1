// Small helpers for what people read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lpmm {

// Edits (insert, delete, replace, swap of neighbours) that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the fewest edits; empty where none is close enough to be what was meant.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

std::string format_bytes(std::int64_t bytes);  // "1.2 GB", powers of ten
std::string format_duration(double seconds);   // "1h02m", "3m05s", "12s"

}  // namespace lpmm
