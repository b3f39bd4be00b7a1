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
#include "lpmm/files/mapped_file.h"

namespace lpmm {

inline constexpr const char* kEmptyText = "is empty: there is no text to encode";

// A new token file, made piece by piece, or one that is replaced as a whole. Throws RunError where it cannot
// be written, UsageError where `path` is no ordinary file.
class TokenWriter {
 public:
  // `made_of`, where it is not empty, joins the description.
  TokenWriter(const std::string& path, const Tokenizer& tokenizer, const std::string& made_of = "");
  ~TokenWriter();
  // Encodes a text, of which no more than a few times 16 MiB are in use beside it. Throws what encode()
  // throws. `progress` counts its bytes.
  void add(std::string_view text, const ProgressCall& progress = {});
  void add(std::int32_t id);
  std::int64_t count() const;
  void keep();  // durable; the file appears

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Encodes a text into such a file; gives the number of ids. Throws what add() throws, and UsageError where
// the text is empty.
std::int64_t write_tokens(const std::string& path, const Tokenizer& tokenizer, std::string_view text,
                          const ProgressCall& progress = {});

// An open token file, mapped into memory. Its header is checked against its length before anything is used.
// Throws RunError naming the file and what was expected. What was read is not kept in memory.
class TokenFile {
 public:
  explicit TokenFile(const std::string& path);
  const std::string& path() const { return map_.path(); }
  std::int64_t size() const { return size_; }  // ids, at least 1
  std::int64_t vocabulary() const { return vocabulary_; }
  nlohmann::ordered_json description() const;  // for make_tokenizer
  // Ids [first, first + out.size()). Throws RunError naming the position of an id past the vocabulary. Any
  // number of threads may read.
  void read(std::int64_t first, std::span<std::int32_t> out) const;

 private:
  template <class Id>
  void read_as(std::int64_t first, std::span<std::int32_t> out) const;

  MappedFile map_;
  std::string description_;
  const std::byte* ids_ = nullptr;
  std::int64_t size_ = 0, vocabulary_ = 0;
};

}  // namespace lpmm
