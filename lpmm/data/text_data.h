// Text for language models: one long run of tokens, the first part for training, the last for validation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lpmm/data/corpus/sequences.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokens.h"

namespace lpmm {

// A file of several, and what share of the sequences it has, by its weight among those of all.
struct MixedFile {
  std::string path;
  double weight = 1;

  bool operator==(const MixedFile&) const = default;
};

struct TextOptions {
  // A text, a folder of .txt and .md files, or a token file (lpmm/data/tokens.h); below data_folder() where
  // it is not found as such. Empty: the licence texts of a Debian system.
  std::string path;
  std::vector<MixedFile> mixture;  // text, conversations: files in place of `path`
  std::string tokenizer =
      "characters";               // of text: characters, bytes, words, gpt2, or what load_tokenizer takes
  std::string folder;             // of gpt2's encoder.json and vocab.bpe; empty: data_folder()/gpt2-bpe
  int words = 0;                  // of words: how many in all; 0: every one
  double validation_share = 0.1;  // 1: nothing to train on; 0: nothing to test on
  int length = 0;                 // tokens of a sequence
  std::string test_path;          // the text to test on, found as `path` is; empty: a part of `path`
  bool streams = false;           // text, conversations: tokens are read from a file that is made once
  bool blocks = false;            // text: an epoch has each block of `length` tokens once
  std::string columns;            // sentences: which columns of a table to read; empty: those of usual names
  std::string labels_between;     // sentences: what stands between several labels of one; empty: it has one

  bool operator==(const TextOptions&) const = default;
};

// The same for each file of a mixture, or itself where it has one file. What options.test_path names is
// tested on with the first one; then the others have nothing to test on. Throws UsageError for a file named
// twice.
std::vector<TextOptions> each_file(const TextOptions& options);
// Returns the folder in which gpt2's encoder.json and vocab.bpe are looked for.
std::string gpt2_folder(const TextOptions& options);
// Returns where make_tokenizer looks for a tokenizer's files: at options.tokenizer, found as options.path is,
// or else in gpt2's folder.
std::string tokenizer_files(const TextOptions& options);
// Finds the files of a tokenizer as options.path is found. Throws RunError where they are not.
std::string find_tokenizer_files(const std::string& path);
// Throws UsageError where options.tokenizer is of the characters or words of one whole text; `why_not` says
// why there is none: "which data.stream does not read".
void refuse_counted(const TextOptions& options, std::string_view why_not);
// Returns true if options.tokenizer names files, which need not exist.
bool names_tokenizer_files(const TextOptions& options);
// Throws UsageError for a tokenizer that is not known: neither a name nor a file.
void check_tokenizer(const TextOptions& options);
// The tokenizer that options ask for, for `text`. Throws UsageError for one that is not known.
std::unique_ptr<Tokenizer> make_text_tokenizer(const TextOptions& options, std::string_view text);

// A sequence is a window of the tokens with the window one token later as its labels. Training windows start
// anywhere, drawn by the noise of (seed, epoch, place in the epoch), or with options.blocks lie side by side,
// in an order drawn anew for every epoch; an epoch is as many as fit side by side. Validation windows lie
// side by side. The files of a folder follow each other in the order of their names, with the token that ends
// a document between them where the tokenizer has one, else a line break.
class TextData : public Sequences {
 public:
  // Throws RunError and UsageError that name the file: missing, empty, not UTF-8, a tokenizer it does not
  // know, fewer tokens than one window in either part.
  // `tokenizer`, where there is one, is taken in place of options.tokenizer; `progress` counts bytes encoded.
  explicit TextData(const TextOptions& options, std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                    const ProgressCall& progress = {});

  const std::string& name() const override { return name_; }
  std::int64_t train_examples() const override {
    return std::max<std::int64_t>(0, train_tokens_ - 1) / length_;
  }
  std::int64_t test_examples() const override {
    return std::max<std::int64_t>(0, size() - train_tokens_ - 1) / length_;
  }
  std::int64_t labels() const override { return length_; }
  void append(std::uint64_t seed, std::int64_t epoch, std::int64_t place, bool counts,
              Batch& out) const override;
  std::int64_t counted(std::uint64_t, std::int64_t, std::int64_t) const override { return length_; }
  void append_test(std::int64_t sequence, Batch& out) const override;

  std::int64_t size() const;  // tokens in all
  std::int64_t bytes() const override;
  std::int64_t loading_bytes() const override { return loading_bytes_; }
  // The checksum of all tokens or, for a long token file, of a million tokens at a thousand places.
  std::uint32_t checksum() const override;
  const TextOptions& options() const { return options_; }
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }

 private:
  // Tokens that follow each other, in a file or in memory.
  struct Part {
    std::optional<TokenFile> file = {};
    std::vector<std::int32_t> ids = {};

    std::int64_t size() const { return file ? file->size() : static_cast<std::int64_t>(ids.size()); }
    std::int64_t bytes() const { return file ? 0 : size() * std::int64_t{sizeof(std::int32_t)}; }
    void read(std::int64_t first, std::span<std::int32_t> out) const;
    std::uint32_t checksum(std::uint32_t before) const;
  };
  void open_tokens(const std::string& path, const std::shared_ptr<const Tokenizer>& tokenizer);
  void read_texts(const std::string& test, std::shared_ptr<const Tokenizer> tokenizer,
                  const ProgressCall& progress);
  void stream_texts(const std::string& test, std::shared_ptr<const Tokenizer> tokenizer,
                    const ProgressCall& progress);
  void check_sizes() const;
  void read(std::int64_t first, std::span<std::int32_t> out) const;
  void append_window(std::int64_t first, Batch& out) const;  // that starts there

  TextOptions options_;
  std::string name_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Part main_, test_;  // test_: what options.test_path names
  std::int64_t length_, train_tokens_ = 0, loading_bytes_ = 0;
};

}  // namespace lpmm
