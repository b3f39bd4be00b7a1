// Places to cut a long text for a tokenizer whose words are not known without encoding it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace lpmm {

using EncodeStretch = std::function<std::vector<std::int32_t>(std::string_view)>;

// The first line end at or after `until` where the lines before and after it, encoded apart, give what they
// give together; the end of the text where a few have been tried in vain, as with tokenizers whose words go
// on over line ends. `from` is where the stretch began. `encode` gets parts of `text`.
std::size_t find_cut(std::string_view text, std::size_t from, std::size_t until, const EncodeStretch& encode);

// The ids of text[first, end), where `first` is 0 or a cut. After a cut, the line end before it is encoded
// too and its ids are removed: some tokenizers put a space before every text.
std::vector<std::int32_t> encode_stretch(std::string_view text, std::size_t first, std::size_t end,
                                         const EncodeStretch& encode);

}  // namespace lpmm
