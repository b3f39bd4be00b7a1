#include "lpmm/data/text_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/noise.h"
#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/corpus/kept_tokens.h"
#include "lpmm/data/images.h"
#include "lpmm/data/table.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"
#include "lpmm/files/mapped_file.h"

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

constexpr std::string_view kTokenFile = ".tokens";

// A file, or the .txt and .md files below a folder, in order of their paths. Other files of the folder are
// counted on standard error, and the first is named.
std::vector<std::string> files_at(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> paths, others;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (!entry.is_regular_file(error)) continue;
    const std::string ending = entry.path().extension().string();
    (ending == ".txt" || ending == ".md" ? paths : others).push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  std::ranges::sort(others);
  if (paths.empty()) {
    const bool has_tables = std::ranges::any_of(others, is_table);
    throw RunError(fmt::format("{}: has no .txt or .md file{}", path,
                               has_tables
                                   ? "; its rows are read as conversations: `lpmm train chat_tune`, or "
                                     "--set data.set=conversations"
                                   : ""));
  }
  if (!others.empty()) {
    tell(printable(fmt::format("{}: {} files whose names do not end in .txt or .md, in small letters, are "
                               "left out; the first is {}",
                               path, others.size(), others[0])) +
         "\n");
  }
  tell_test_files(path, paths);
  return paths;
}

struct Texts {
  std::string path;
  std::vector<std::string> files, texts;  // no text is empty
};

// What to do about texts of which a tokenizer said `why`: where a file is not UTF-8 it is named.
std::string advice_for(const Texts& all, std::string_view why) {
  struct Kind {
    std::string_view begin, advice;
  };
  constexpr Kind kKinds[] = {
      {"\x1F\x8B", "it is compressed by gzip: unpack it (gunzip)"},
      {"%PDF", "it is a PDF: save its text as .txt (pdftotext)"},
      {"PK\x03\x04", "it is a zip, as .docx, .odt and .epub are: save its text as .txt"}};
  std::error_code error;
  for (const std::string& file : all.files) {
    if (!fs::is_regular_file(file, error)) continue;
    const MappedFile map(file);
    const std::string_view text(reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size());
    try {
      check_utf8(text, 0, text.size());
    } catch (const UsageError& e) {
      for (const Kind& kind : kKinds) {
        if (text.starts_with(kind.begin)) return fmt::format("{}: is no text: {}", file, kind.advice);
      }
      return fmt::format("{}: {}", file, e.what());
    }
  }
  return fmt::format("{}: {}", all.path, why);
}

Texts texts_at(const std::string& path) {
  Texts all{path, files_at(path), {}};
  std::uint64_t room = kLongestText;
  for (const std::string& file : all.files) {
    all.texts.push_back(read_text(file, room));
    room -= all.texts.back().size();
    if (all.texts.back().empty()) all.texts.pop_back();
  }
  if (all.texts.empty()) throw UsageError(fmt::format("{}: {}", path, kEmptyText));
  return all;
}

std::string joined(const Texts& texts) {
  std::string all;
  for (const std::string& text : texts.texts) all += text;
  return all;
}

}  // namespace

std::vector<TextOptions> each_file(const TextOptions& options) {
  if (options.mixture.empty()) return {options};
  std::vector<TextOptions> all;
  std::set<std::string> named;
  for (const MixedFile& file : options.mixture) {
    const std::string found = find_data(file.path);  // two spellings may name one file
    std::error_code error;
    const std::string place = std::filesystem::weakly_canonical(found.empty() ? file.path : found, error);
    if (!named.insert(error ? file.path : place).second) {
      throw UsageError(
          fmt::format("data.mixture: {} is named twice; name it once, with its weights added", file.path));
    }
    TextOptions own = options;
    own.mixture.clear();
    own.path = file.path;
    if (!all.empty() && !options.test_path.empty()) {
      own.test_path.clear();
      own.validation_share = 0;
    }
    all.push_back(std::move(own));
  }
  return all;
}

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

void refuse_counted(const TextOptions& options, std::string_view why_not) {
  if (options.tokenizer != kTokenizers[0] && options.tokenizer != kWords) return;
  throw UsageError(
      fmt::format("data.tokenizer = {} counts those of one whole text, {}: take bytes, {}, a file, or the "
                  "tokenizer of train.init",
                  options.tokenizer, why_not, kGpt2Tokenizer));
}

TextData::TextData(const TextOptions& options, std::shared_ptr<const Tokenizer> tokenizer,
                   const ProgressCall& progress)
    : options_(options),
      name_(options.path.empty() ? kLicences : find_text(options.path)),
      length_(options.length) {
  if (length_ < 1) throw UsageError(fmt::format("data.length = {}: must be at least 1", length_));
  const std::string test = options.test_path.empty() ? "" : find_text(options.test_path);
  if (name_.ends_with(kTokenFile)) {
    open_tokens(test, tokenizer);
  } else if (options.streams) {
    stream_texts(test, std::move(tokenizer), progress);
  } else {
    read_texts(test, std::move(tokenizer), progress);
  }
  const double share = test.empty() ? options.validation_share : 0;
  train_tokens_ =
      main_.size() - static_cast<std::int64_t>(std::llround(static_cast<double>(main_.size()) * share));
  check_sizes();
}

void TextData::open_tokens(const std::string& test, const std::shared_ptr<const Tokenizer>& tokenizer) {
  const auto open = [&](const std::string& path, Part& part) {
    part.file.emplace(path);
    auto made = make_tokenizer(part.file->description(), tokenizer_files(options_));
    if (made->vocabulary() != part.file->vocabulary()) {
      throw RunError(fmt::format("{}: says {} tokens, but its tokenizer has {}", path,
                                 part.file->vocabulary(), made->vocabulary()));
    }
    const Tokenizer* other = tokenizer_ != nullptr ? tokenizer_.get() : tokenizer.get();
    if (other != nullptr && other->describe() != made->describe()) {
      throw UsageError(fmt::format("{}: was made by another tokenizer than the {}", path,
                                   tokenizer_ != nullptr ? "text to train on" : "model's"));
    }
    tokenizer_ = std::move(made);
  };
  open(name_, main_);
  if (test.empty()) return;
  if (!test.ends_with(kTokenFile)) {
    throw UsageError(fmt::format("data.test_path = {}: is to be a token file (.tokens), as data.path is",
                                 options_.test_path));
  }
  open(test, test_);
}

void TextData::read_texts(const std::string& test, std::shared_ptr<const Tokenizer> tokenizer,
                          const ProgressCall& progress) {
  if (test.ends_with(kTokenFile)) {
    throw UsageError(
        fmt::format("data.test_path = {}: is to be a text, as data.path is", options_.test_path));
  }
  if (tokenizer == nullptr) check_tokenizer(options_);
  const Texts texts = options_.path.empty() ? Texts{name_, {}, {licence_texts()}} : texts_at(name_),
              tests = test.empty() ? Texts() : texts_at(test);
  std::size_t all = 0, done = 0;
  for (const Texts* some : {&texts, &tests}) {
    for (const std::string& text : some->texts) all += text.size();
  }
  const auto encode = [&](const Texts& some, Part& part) {
    const auto between = tokenizer_->end_of_text();
    for (const std::string& text : some.texts) {
      const auto said = [&](std::int64_t bytes, std::int64_t) {
        progress(static_cast<std::int64_t>(done) + bytes, static_cast<std::int64_t>(all));
      };
      try {
        auto ids = tokenizer_->encode(text, progress ? ProgressCall(said) : ProgressCall());
        if (part.ids.empty()) {
          part.ids = std::move(ids);  // a long text's are not there twice
        } else {
          part.ids.insert(part.ids.end(), ids.begin(), ids.end());
        }
      } catch (const UsageError& e) {
        throw UsageError(advice_for(some, e.what()));
      }
      if (some.texts.size() > 1 && between) part.ids.push_back(*between);
      done += text.size();
    }
  };
  try {
    tokenizer_ = tokenizer != nullptr
                     ? std::move(tokenizer)
                     : make_text_tokenizer(options_, texts.texts.size() + tests.texts.size() == 1
                                                         ? texts.texts[0]
                                                         : joined(texts) + joined(tests));
  } catch (const UsageError& e) {
    Texts both{texts.path, texts.files, {}};
    both.files.insert(both.files.end(), tests.files.begin(), tests.files.end());
    throw UsageError(advice_for(both, e.what()));
  }
  encode(texts, main_);
  encode(tests, test_);
  loading_bytes_ = static_cast<std::int64_t>(all) + bytes();
}

void TextData::stream_texts(const std::string& test, std::shared_ptr<const Tokenizer> tokenizer,
                            const ProgressCall& progress) {
  if (options_.path.empty()) throw UsageError("data.stream is for a text of yours, which data.path names");
  if (test.ends_with(kTokenFile)) {
    throw UsageError(
        fmt::format("data.test_path = {}: is to be a text, as data.path is", options_.test_path));
  }
  if (tokenizer == nullptr) refuse_counted(options_, "which data.stream does not read");
  tokenizer_ = tokenizer != nullptr ? std::move(tokenizer) : make_text_tokenizer(options_, "");
  const auto open = [&](const std::string& path, Part& part) {
    const Texts texts{path, files_at(path), {}};
    try {
      part.file.emplace(kept_tokens(texts.files, *tokenizer_, progress));
    } catch (const UsageError& e) {
      throw UsageError(advice_for(texts, e.what()));
    }
  };
  open(name_, main_);
  if (!test.empty()) open(test, test_);
}

void TextData::check_sizes() const {
  const bool trains = train_tokens_ > 0, tests = size() > train_tokens_;
  if ((!trains || train_tokens_ > length_) && (!tests || size() - train_tokens_ > length_)) return;
  throw UsageError(
      fmt::format("{}: {} tokens to train on and {} to validate, but a sequence takes {}; use more text, a "
                  "shorter data.length or another data.validation_share",
                  name_, train_tokens_, size() - train_tokens_, length_ + 1));
}

std::int64_t TextData::size() const {
  return main_.size() + test_.size();
}

std::int64_t TextData::bytes() const {
  return main_.bytes() + test_.bytes();
}

std::uint32_t TextData::checksum() const {
  return test_.checksum(main_.checksum(0));
}

std::uint32_t TextData::Part::checksum(std::uint32_t before) const {
  if (!file) return crc32(std::as_bytes(std::span(ids)), before);
  constexpr std::int64_t kPlaces = 1024, kRun = 1024;
  const std::int64_t stride = std::max(kRun, size() / kPlaces);
  std::vector<std::int32_t> some(static_cast<std::size_t>(kRun));
  std::uint32_t sum = before;
  for (std::int64_t at = 0; at < size(); at += stride) {
    const auto run = std::span(some).first(static_cast<std::size_t>(std::min(kRun, size() - at)));
    read(at, run);
    sum = crc32(std::as_bytes(run), sum);
  }
  return sum;
}

void TextData::Part::read(std::int64_t first, std::span<std::int32_t> out) const {
  if (file) return file->read(first, out);
  std::copy_n(ids.begin() + first, out.size(), out.begin());
}

void TextData::read(std::int64_t first, std::span<std::int32_t> out) const {
  const std::int64_t end = main_.size();
  if (first < end || test_.size() == 0) return main_.read(first, out);
  test_.read(first - end, out);
}

void TextData::append_window(std::int64_t first, Batch& out) const {
  const std::size_t at = out.tokens.size(), n = static_cast<std::size_t>(length_);
  out.tokens.resize(at + n);
  out.labels.resize(at + n);
  read(first, std::span(out.tokens).subspan(at));
  read(first + 1, std::span(out.labels).subspan(at));
  ++out.count;
}

void TextData::append(std::uint64_t seed, std::int64_t epoch, std::int64_t place, bool counts,
                      Batch& out) const {
  if (options_.blocks) {
    const std::int64_t all = train_examples();
    append_window(drawn_order(seed, epoch, all, std::min(place, all - 1)) * length_, out);
  } else {
    const Noise noise{seed, 0, static_cast<std::uint32_t>(epoch),
                      static_cast<std::uint32_t>(Stream::kShuffle)};
    const PhiloxWords draws = noise_words(noise, static_cast<std::uint32_t>(place));
    const std::uint64_t draw = std::uint64_t{draws.x[0]} << 32 | draws.x[1];
    append_window(static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(train_tokens_ - length_)), out);
  }
  if (!counts) std::fill(out.labels.end() - length_, out.labels.end(), -1);
}

void TextData::append_test(std::int64_t sequence, Batch& out) const {
  append_window(train_tokens_ + sequence * length_, out);
}

}  // namespace lpmm
