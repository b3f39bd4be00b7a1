// BLEU, the score of translations.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

// A line as WMT's mteval-v13a script splits it: sacreBLEU's tokenizer "13a".
std::vector<std::string> tokens_13a(std::string_view line);

// BLEU of a corpus (Papineni et al. 2002), 0 to 100, as sacreBLEU has it by default (Post 2018): up to four
// words, 13a, case counts, orders without a match smoothed by halving. Both have as many lines, at least one.
double bleu(std::span<const std::string> told, std::span<const std::string> is);

}  // namespace lpmm
