// `lpmm data get`, `tokenize` and `tokenizer`: data sets before a run.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "experiments/commands/arguments.h"
#include "experiments/download/data_sets.h"
#include "experiments/download/download.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/progress.h"
#include "lpmm/base/text.h"
#include "lpmm/data/images.h"
#include "lpmm/data/text_data.h"
#include "lpmm/data/tokenizers/sentence_piece/sentence_piece.h"
#include "lpmm/data/tokens.h"
#include "lpmm/files/files.h"
#include "lpmm/files/mapped_file.h"

namespace lpmm {
namespace {

// ---- tokenize --------------------------------------------------------------------------------------------
struct TokenizeArguments {
  TextOptions text;
  std::string input, output;
  bool overwrite = false, json = false;
};

int run_tokenize(const TokenizeArguments& o) {
  if (!o.output.ends_with(".tokens")) {
    throw UsageError(fmt::format("{}: the name of a token file ends in .tokens", o.output));
  }
  check_overwrite(o.output, o.overwrite);
  check_tokenizer(o.text);
  const MappedFile map(o.input);
  const std::string_view text(reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size());
  refuse_stand_in(o.input, text.substr(0, 512));
  Progress progress(o.json);
  std::unique_ptr<Tokenizer> tokenizer;
  std::int64_t count = 0;
  try {
    tokenizer = make_text_tokenizer(o.text, text);
    const ProgressCall encoding =
        progress.share_of(fmt::format("encoding {}", format_bytes(std::ssize(text))));
    count = write_tokens(o.output, *tokenizer, text,
                         [&, before = std::size_t{0}](std::int64_t done, std::int64_t all) mutable {
                           map.forget(text.data() + before, static_cast<std::size_t>(done) - before);
                           before = static_cast<std::size_t>(done);
                           if (encoding) encoding(done, all);
                         });
  } catch (const UsageError& e) {
    throw UsageError(fmt::format("{}: {}", o.input, e.what()));
  }
  print_answer({{"output", o.output},
                {"tokenizer", o.text.tokenizer},
                {"vocabulary", tokenizer->vocabulary()},
                {"bytes", text.size()},
                {"tokens", count}},
               o.json);
  return kDone;
}

// ---- tokenizer -------------------------------------------------------------------------------------------
struct TokenizerArguments {
  SentencePieceOptions options;
  std::vector<std::string> files;
  std::string output;
  bool overwrite = false, json = false;
};

int run_tokenizer(const TokenizerArguments& o) {
  if (!o.output.ends_with(".model")) {
    throw UsageError(fmt::format("{}: the name of a SentencePiece model ends in .model", o.output));
  }
  check_overwrite(o.output, o.overwrite);
  write_text(o.output, train_sentence_piece(o.options, o.files));
  const auto tokenizer = load_tokenizer(o.output);
  print_answer({{"output", o.output}, {"type", o.options.type}, {"vocabulary", tokenizer->vocabulary()}},
               o.json);
  return kDone;
}

// ---- get -------------------------------------------------------------------------------------------------
struct GetArguments {
  std::vector<std::string> names;
  DownloadOptions download;
  bool json = false;
};

int run_get(const GetArguments& o) {
  DownloadOptions options = o.download;
  if (options.folder.empty()) options.folder = data_folder();
  if (options.folder.empty()) throw UsageError("HOME is not set; name a folder with --to");
  std::string& mirror = options.mirror;
  while (mirror.ends_with('/')) mirror.pop_back();
  if (!o.download.mirror.empty() && !mirror.starts_with("http://") && !mirror.starts_with("https://")) {
    throw UsageError(fmt::format("--mirror {}: an address is http://HOST... or https://HOST...",
                                 without_password(o.download.mirror)));
  }
  std::vector<DataSet> sets;
  for (const std::string& name : o.names) sets.push_back(find_data_set(name));
  const InterruptGuard guard;
  Progress progress(o.json);
  Downloaded all;
  try {
    for (const DataSet& set : sets) {
      const Downloaded one = download(set, options, progress);
      all.files.insert(all.files.end(), one.files.begin(), one.files.end());
      all.present.insert(all.present.end(), one.present.begin(), one.present.end());
      all.bytes += one.bytes;
    }
  } catch (const Interrupted&) {
    progress.warn("interrupted; the same command goes on where it ended");
    return kInterrupted;
  }
  print_answer({{"folder", options.folder},
                {"bytes", all.bytes},
                {"files", all.files},
                {"already_there", all.present}},
               o.json);
  return kDone;
}

void add_tokenize(CLI::App& data, Action& action) {
  auto o = std::make_shared<TokenizeArguments>();
  CLI::App* command =
      data.add_subcommand("tokenize", "Turn a text into a file of tokens that runs map into memory");
  command->add_option("IN", o->input, "text")->required();
  command->add_option("OUT", o->output, "file to write; its name ends in .tokens")
      ->required()
      ->check(kOutput);
  command
      ->add_option("--tokenizer", o->text.tokenizer,
                   "characters, bytes, words, gpt2, or a file: tokenizer.json, vocab.txt, .model; a "
                   "folder of Marian's: its source language")
      ->capture_default_str();
  command->add_option("--words", o->text.words, "vocabulary of words: the most frequent; 0: all")
      ->check(CLI::Range(0, 1 << 24).description(""))
      ->capture_default_str();
  command->add_option("--vocab", o->text.folder,
                      "folder of gpt2's encoder.json and vocab.bpe (default: gpt2-bpe in the data folder)");
  add_overwrite_option(*command, o->overwrite);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(R"(Example:
  lpmm data tokenize --tokenizer gpt2 corpus.txt corpus.tokens
  lpmm data tokenize --tokenizer smollm2/tokenizer.json corpus.txt corpus.tokens
  lpmm train experiments/configs/gpt2_124m.toml --set data.path=corpus.tokens --out runs/gpt2)");
  on_selected(*command, action, o, run_tokenize);
}

void add_tokenizer(CLI::App& data, Action& action) {
  auto o = std::make_shared<TokenizerArguments>();
  CLI::App* command = data.add_subcommand("tokenizer", "Train a SentencePiece tokenizer on texts");
  command->add_option("FILES", o->files, "texts, a sentence a line, as they are or as .gz")->required();
  command->add_option("--train", o->options.type, "bpe or unigram")
      ->check(CLI::IsMember({"bpe", "unigram"}))
      ->capture_default_str();
  command->add_option("--vocabulary", o->options.vocabulary, "pieces of the vocabulary")
      ->check(CLI::Range(8, 1 << 24).description(""))
      ->capture_default_str();
  command
      ->add_option("--coverage", o->options.coverage, "share of the characters that have a piece, 0.98 to 1")
      ->check(CLI::Range(0.98, 1.0).description(""))
      ->capture_default_str();
  command->add_option("--output", o->output, "file to write; its name ends in .model")
      ->required()
      ->check(kOutput);
  add_overwrite_option(*command, o->overwrite);
  command->add_flag("--json", o->json, "print one JSON object: output, type, vocabulary");
  command->footer(R"(Example:
  lpmm data tokenizer --train bpe --vocabulary 8000 train.en train.de --output joint.model
  lpmm data tokenize --tokenizer joint.model train.en train.tokens)");
  on_selected(*command, action, o, run_tokenizer);
}

}  // namespace

void add_data_command(CLI::App& program, Action& action) {
  CLI::App* data = program.add_subcommand("data", "Download, prepare and show data sets");
  data->require_subcommand(1);

  auto g = std::make_shared<GetArguments>();
  CLI::App* get = data->add_subcommand("get", "Download public data sets to where the program reads them");
  get->add_option("NAME", g->names, fmt::format("{}; one or more", join(data_set_names())))->required();
  get->add_option("--to", g->download.folder, "folder of data sets (default: $LPMM_DATA, else ~/.cache/lpmm)")
      ->check(kNotEmpty)
      ->type_name("DIR");
  get->add_option("--mirror", g->download.mirror,
                  "the same files from elsewhere: http or https, up to the name of the file")
      ->type_name("URL");
  get->add_flag("--json", g->json, "print one JSON object: folder, bytes, files, already_there");
  get->footer(
      R"(Every file is checked (length, SHA-256) before it appears under its name. What is there already is
checked and never changed; of GLUE's sets, that it is there. http_proxy and https_proxy name a proxy.
Examples:
  lpmm data get cifar10 tinyshakespeare
  lpmm data get gpt2-bpe --to data --mirror https://mirror.example/gpt2)");
  on_selected(*get, action, g, run_get);
  add_pack_images_command(*data, action);
  add_data_show_command(*data, action);

  add_tokenize(*data, action);
  add_tokenizer(*data, action);
}

}  // namespace lpmm
