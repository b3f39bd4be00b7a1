#include "lpmm/data/text_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/noise.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/images.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kLicences = "/usr/share/common-licenses";
constexpr std::uint64_t kLongestText = std::uint64_t{1} << 32;

// English that every Debian machine has: the licences, in order of their names.
std::string licence_texts() {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(kLicences, error)) {
    if (!entry.is_symlink() && entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const fs::path& path : paths) text += read_text(path.string(), kLongestText);
  if (text.empty()) {
    throw RunError(
        fmt::format("{}: no licence texts, which are the default text; name one with data.path", kLicences));
  }
  return text;
}

// Throws RunError where it is not there; `advice` is what then helps.
std::string find_file(const std::string& path, std::string_view advice) {
  if (std::string found = find_data(path); !found.empty()) return found;
  throw RunError(
      fmt::format("{}: there is no such file, neither here nor in the folder that LPMM_DATA names, else "
                  "~/.cache/lpmm; {}",
                  path, advice));
}

std::string find_text(const std::string& path) {
  return find_file(path, "`lpmm data get` downloads public sets");
}

constexpr std::string_view kTokenizers[] = {"characters", "bytes", kWords, kGpt2Tokenizer};

bool is_named(const std::string& tokenizer) {
  return std::ranges::find(kTokenizers, tokenizer) != std::end(kTokenizers);
}

void empty(Batch& batch) {  // keeps the room
  batch.count = 0;
  batch.tokens.clear();
  batch.labels.clear();
}

}  // namespace

std::string gpt2_folder(const TextOptions& options) {
  return options.folder.empty() ? (fs::path(data_folder()) / "gpt2-bpe").string() : options.folder;
}

bool names_tokenizer_files(const TextOptions& options) {
  return !is_named(options.tokenizer);
}

std::string find_tokenizer_files(const std::string& path) {
  return find_file(path, "`lpmm data tokenizer` trains a tokenizer on texts");
}

std::string tokenizer_files(const TextOptions& options) {
  if (is_named(options.tokenizer)) return gpt2_folder(options);
  const std::string found = find_data(options.tokenizer);
  return found.empty() ? options.tokenizer : found;
}

std::unique_ptr<Tokenizer> make_text_tokenizer(const TextOptions& options, std::string_view text) {
  if (options.tokenizer == kTokenizers[0]) return make_character_tokenizer(text);
  if (options.tokenizer == kTokenizers[1]) return make_byte_tokenizer();
  if (options.tokenizer == kWords) return make_word_tokenizer(text, options.words);
  if (options.tokenizer == kGpt2Tokenizer) return load_gpt2_tokenizer(gpt2_folder(options));
  check_tokenizer(options);
  return load_tokenizer(find_data(options.tokenizer));
}

void check_tokenizer(const TextOptions& options) {
  if (is_named(options.tokenizer) || !find_data(options.tokenizer).empty()) return;
  throw UsageError(fmt::format(
      "unknown tokenizer \"{}\": there are {}, and files: a tokenizer.json, a vocab.txt, a SentencePiece "
      ".model, or a folder with one or with Marian's{}",
      options.tokenizer, join(kTokenizers), did_you_mean(nearest_name(options.tokenizer, kTokenizers))));
}

TextData::TextData(const TextOptions& options, std::unique_ptr<Tokenizer> tokenizer,
                   const ProgressCall& progress)
    : options_(options),
      name_(options.path.empty() ? kLicences : find_text(options.path)),
      length_(options.length) {
  if (length_ < 1) throw UsageError(fmt::format("data.length = {}: must be at least 1", length_));
  if (name_.ends_with(".tokens")) {
    file_.emplace(name_);
    tokenizer_ = make_tokenizer(file_->description(), tokenizer_files(options));
    if (tokenizer_->vocabulary() != file_->vocabulary()) {
      throw RunError(fmt::format("{}: says {} tokens, but its tokenizer has {}", name_, file_->vocabulary(),
                                 tokenizer_->vocabulary()));
    }
    if (tokenizer != nullptr && tokenizer->describe() != tokenizer_->describe()) {
      throw UsageError(fmt::format("{}: was made by another tokenizer than the model's", name_));
    }
  } else {
    if (tokenizer == nullptr) check_tokenizer(options);
    const std::string text = options.path.empty() ? licence_texts() : read_text(name_, kLongestText);
    try {
      tokenizer_ = tokenizer != nullptr ? std::move(tokenizer) : make_text_tokenizer(options, text);
      ids_ = tokenizer_->encode(text, progress);
      loading_bytes_ = static_cast<std::int64_t>(text.size()) + bytes();
    } catch (const UsageError& e) {
      throw UsageError(fmt::format("{}: {}", name_, e.what()));
    }
  }
  train_tokens_ = size() - static_cast<std::int64_t>(
                               std::llround(static_cast<double>(size()) * options.validation_share));
  const bool trains = options.validation_share < 1;
  if ((trains && train_tokens_ <= length_) || size() - train_tokens_ <= length_) {
    throw UsageError(
        fmt::format("{}: {} tokens to train on and {} to validate, but a sequence takes {}; use more text, a "
                    "shorter data.length or another data.validation_share",
                    name_, train_tokens_, size() - train_tokens_, length_ + 1));
  }
}

std::int64_t TextData::size() const {
  return file_ ? file_->size() : static_cast<std::int64_t>(ids_.size());
}

std::int64_t TextData::bytes() const {
  return size() * (!file_ ? 4 : file_->vocabulary() <= 65536 ? 2 : 4);
}

std::uint32_t TextData::checksum() const {
  if (!file_) return crc32(std::as_bytes(std::span(ids_)));
  constexpr std::int64_t kPlaces = 1024, kRun = 1024;
  const std::int64_t stride = std::max(kRun, size() / kPlaces);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(kRun));
  std::uint32_t sum = 0;
  for (std::int64_t at = 0; at < size(); at += stride) {
    const auto run = std::span(ids).first(static_cast<std::size_t>(std::min(kRun, size() - at)));
    read(at, run);
    sum = crc32(std::as_bytes(run), sum);
  }
  return sum;
}

void TextData::read(std::int64_t first, std::span<std::int32_t> out) const {
  if (file_) return file_->read(first, out);
  std::copy_n(ids_.begin() + first, out.size(), out.begin());
}

void TextData::append(std::int64_t first, Batch& out) const {
  const std::size_t at = out.tokens.size(), n = static_cast<std::size_t>(length_);
  out.tokens.resize(at + n);
  out.labels.resize(at + n);
  read(first, std::span(out.tokens).subspan(at));
  read(first + 1, std::span(out.labels).subspan(at));
  ++out.count;
}

void TextData::make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                          Batch& out) const {
  const std::int64_t count = plan.batch / plan.microbatches;
  const std::int64_t first = index * plan.batch + microbatch * count;
  const Noise noise{plan.seed, 0, static_cast<std::uint32_t>(epoch),
                    static_cast<std::uint32_t>(Stream::kShuffle)};
  const auto starts = static_cast<std::uint64_t>(train_tokens_ - length_);
  empty(out);
  for (std::int64_t i = 0; i < count; ++i) {
    const PhiloxWords draws = noise_words(noise, static_cast<std::uint32_t>(first + i));
    const std::uint64_t draw = std::uint64_t{draws.x[0]} << 32 | draws.x[1];
    append(static_cast<std::int64_t>(draw % starts), out);
  }
}

void TextData::make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const {
  empty(out);
  for (std::int64_t i = first; i < first + count; ++i) append(train_tokens_ + i * length_, out);
}

}  // namespace lpmm
