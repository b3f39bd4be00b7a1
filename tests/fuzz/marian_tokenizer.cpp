// Marian's vocab.json up to the first zero byte, then its tokenizer_config.json, beside two small models; the
// text that they encode is what follows, and the input itself.
#include "lpmm/data/pairs/marian_tokenizer.h"
#include "tests/fuzz/input.h"

namespace {

lpmm::fuzz::MemoryFile vocabulary, config;

std::string make_marian_folder() {
  std::string folder = lpmm::fuzz::memory_folder();
  for (const char* name : {"source.spm", "target.spm"})
    std::filesystem::copy_file(std::string(LPMM_SOURCE_DIR "/tests/golden/marian_text/") + name,
                               folder + "/" + name);
  lpmm::fuzz::place(folder, "vocab.json", vocabulary);
  lpmm::fuzz::place(folder, "tokenizer_config.json", config);
  return folder;
}

}  // namespace

LPMM_FUZZ_TARGET(bytes) {
  static const std::string folder = make_marian_folder();
  const auto [first, rest] = lpmm::fuzz::split(bytes);
  const auto [second, third] = lpmm::fuzz::split(rest);
  vocabulary.set(first);
  config.set(second);
  const std::unique_ptr<const lpmm::Tokenizer> tokenizer = lpmm::load_marian_tokenizer(folder);
  for (const std::string_view text : {lpmm::fuzz::text(third), lpmm::fuzz::text(bytes)}) {
    lpmm::fuzz::read([&] {
      for (const lpmm::Tokenizer* side : {tokenizer.get(), &tokenizer->target()}) {
        const auto ids = side->encode(text);
        side->decode(ids);
        std::vector<std::int32_t> pieces;
        for (std::size_t at = 0; at < text.size();) {
          const std::size_t end = side->encode_from(text, at, std::min(at + 100, text.size()), pieces);
          lpmm::fuzz::must(end > at);
          at = end;
        }
        side->decode(pieces);
      }
    });
  }
}
