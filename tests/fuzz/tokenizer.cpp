// GPT-2's tokenizer files, encoder.json up to the first zero byte, then vocab.bpe; the text they encode is
// the input itself.
#include "lpmm/data/tokenizer.h"

#include "tests/fuzz/input.h"

namespace {

lpmm::fuzz::MemoryFile encoder, merges;

std::string make_folder() {
  std::string folder = lpmm::fuzz::memory_folder();
  lpmm::fuzz::place(folder, "encoder.json", encoder);
  lpmm::fuzz::place(folder, "vocab.bpe", merges);
  return folder;
}

}  // namespace

LPMM_FUZZ_TARGET(bytes) {
  static const std::string folder = make_folder();
  const auto [first, second] = lpmm::fuzz::split(bytes);
  const std::string text(lpmm::fuzz::text(first));
  // A tokenizer of characters needs no files, only bytes that are UTF-8.
  lpmm::fuzz::read([&] {
    const auto characters = lpmm::make_character_tokenizer(text);
    lpmm::fuzz::must(characters->decode(characters->encode(text)) == text);
  });
  encoder.set(first);
  merges.set(second);
  const auto tokenizer = lpmm::load_gpt2_tokenizer(folder);
  lpmm::fuzz::must(tokenizer->decode(tokenizer->encode(text)) == text);
}
