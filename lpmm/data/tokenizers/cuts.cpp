#include "lpmm/data/tokenizers/cuts.h"

#include <algorithm>

namespace lpmm {

std::size_t find_cut(std::string_view text, std::size_t from, std::size_t until,
                     const EncodeStretch& encode) {
  constexpr std::size_t kAround = 256;  // bytes on either side that are looked at
  constexpr int kTries = 32;
  const auto within = [&](std::size_t at) {  // not in the middle of a character
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80) ++at;
    return std::min(at, text.size());
  };
  std::size_t at = until > from ? until - 1 : from;
  for (int i = 0; i < kTries; ++i) {
    at = text.find('\n', at);
    if (at == std::string_view::npos || ++at >= text.size()) break;
    const std::size_t begin = within(std::max(from + kAround, at) - kAround), end = within(at + kAround);
    std::vector<std::int32_t> apart = encode(text.substr(begin, at - begin));
    const std::vector<std::int32_t> after = encode_stretch(text, at, end, encode);
    apart.insert(apart.end(), after.begin(), after.end());
    if (apart == encode(text.substr(begin, end - begin))) return at;
  }
  return text.size();
}

std::vector<std::int32_t> encode_stretch(std::string_view text, std::size_t first, std::size_t end,
                                         const EncodeStretch& encode) {
  if (first == 0) return encode(text.substr(0, end));
  std::vector<std::int32_t> ids = encode(text.substr(first - 1, end - first + 1));
  const std::vector<std::int32_t> lead = encode(text.substr(first - 1, 1));
  if (lead.size() <= ids.size() && std::equal(lead.begin(), lead.end(), ids.begin())) {
    ids.erase(ids.begin(), ids.begin() + std::ssize(lead));
  }
  return ids;
}

}  // namespace lpmm
