// A GPT-2 tokenizer with few merges.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lpmm {

// Writes encoder.json and vocab.bpe of all bytes, what `merges` give, `others` and <|endoftext|>; the folder.
inline std::string tiny_bpe(const std::string& folder, const std::vector<std::string>& merges,
                            const std::vector<std::string>& others = {}) {
  nlohmann::ordered_json ids = nlohmann::ordered_json::object();
  const auto add = [&](const std::string& token) { ids.emplace(token, ids.size()); };
  int next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool prints = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
    const int c = prints ? b : next++;
    if (c < 0x80) add({static_cast<char>(c)});
    if (c >= 0x80) add({static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))});
  }
  std::string text = "#version: 0.2\n";
  for (std::string merge : merges) {
    text += merge + "\n";
    add(merge.erase(merge.find(' '), 1));
  }
  for (const std::string& token : others) add(token);
  add("<|endoftext|>");
  std::ofstream(folder + "/encoder.json", std::ios::binary) << ids.dump();
  std::ofstream(folder + "/vocab.bpe", std::ios::binary) << text;
  return folder;
}

}  // namespace lpmm
