// Token files: the ids of a text, and the tokenizer that made them. Little-endian:
//   byte  0  "lpmmtok\n"
//   byte  8  u32 version, 1
//   byte 12  u32 bytes of the description
//   byte 16  u64 vocabulary; ids are u16 where it is at most 65536, else u32
//   byte 24  u64 number of ids
//   byte 32  the tokenizer's description, JSON; zeros up to the next multiple of 64; the ids, to the end
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "lpmm/data/tokenizer.h"

namespace lpmm {

// Encodes a text into a new file, or replaces one as a whole; gives the number of ids. Works in pieces: a few
// times 16 MiB beside the text. Throws what encode() throws, UsageError where the text is empty, and RunError
// where the file cannot be written. `progress` counts bytes of text.
std::int64_t write_tokens(const std::string& path, const Tokenizer& tokenizer, std::string_view text,
                          const ProgressCall& progress = {});

// An open token file, mapped into memory: it may be replaced meanwhile, but not cut. Its header is checked
// against its length before anything is used. Throws RunError naming the file and what was expected.
class TokenFile {
 public:
  explicit TokenFile(const std::string& path);
  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }  // ids, at least 1
  std::int64_t vocabulary() const { return vocabulary_; }
  nlohmann::ordered_json description() const;  // for make_tokenizer
  // Ids [first, first + out.size()). Throws RunError naming the position of an id past the vocabulary. Any
  // number of threads may read.
  void read(std::int64_t first, std::span<std::int32_t> out) const;

 private:
  template <class Id>
  void read_as(std::int64_t first, std::span<std::int32_t> out) const;

  struct Unmap {
    std::size_t bytes;
    void operator()(const std::byte* map) const;
  };
  std::string path_, description_;
  std::unique_ptr<const std::byte, Unmap> map_;
  const std::byte* ids_ = nullptr;
  std::int64_t size_ = 0, vocabulary_ = 0;
};

}  // namespace lpmm
