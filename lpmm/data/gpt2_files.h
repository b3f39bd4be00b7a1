// The two files of a GPT-2 tokenizer, as OpenAI wrote them: encoder.json and vocab.bpe, or vocab.json and
// merges.txt.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lpmm {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

struct Gpt2Files {
  std::vector<std::string> tokens;                         // bytes, by id
  std::unordered_map<std::string_view, std::int32_t> ids;  // of `tokens`
  std::unordered_map<std::uint64_t, std::uint32_t> ranks;  // of merges, by pair()
  std::vector<std::int32_t> merged;                        // the token that a merge makes, by its rank
  std::uint32_t checksum = 0;  // of what the files say, however their JSON is spelled
};

inline std::uint64_t pair(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

// Throws RunError naming the file and what is wrong with it.
Gpt2Files read_gpt2_files(const std::string& folder);

}  // namespace lpmm
