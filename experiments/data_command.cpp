// `lpmm data tokenize`: data sets before a run.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "experiments/commands.h"
#include "lpmm/error.h"
#include "lpmm/files.h"
#include "lpmm/progress.h"
#include "lpmm/text_data.h"
#include "lpmm/tokens.h"

namespace lpmm {
namespace {

// ---- tokenize --------------------------------------------------------------------------------------------
struct TokenizeArguments {
  TextOptions text;
  std::string input, output;
  bool json = false;
};

int run_tokenize(const TokenizeArguments& o) {
  constexpr std::uint64_t kLongestText = std::uint64_t{1} << 36;
  if (!o.output.ends_with(".tokens")) {
    throw UsageError(fmt::format("{}: the name of a token file ends in .tokens", o.output));
  }
  const std::string text = read_text(o.input, kLongestText);
  const auto tokenizer = make_text_tokenizer(o.text, text);
  Progress progress(o.json);
  const std::int64_t count =
      write_tokens(o.output, *tokenizer, text, [&](std::int64_t done, std::int64_t all) {
        if (progress.due()) {
          progress.show(fmt::format("{} of {}, {:.0f} %", format_bytes(done), format_bytes(all),
                                    100.0 * static_cast<double>(done) / static_cast<double>(all)));
        }
      });
  print_answer({{"output", o.output},
                {"tokenizer", o.text.tokenizer},
                {"vocabulary", tokenizer->vocabulary()},
                {"bytes", text.size()},
                {"tokens", count}},
               o.json);
  return 0;
}

}  // namespace

void add_data_command(CLI::App& program, Action& action) {
  CLI::App* data = program.add_subcommand("data", "Prepare data sets");
  data->require_subcommand(1);

  auto o = std::make_shared<TokenizeArguments>();
  CLI::App* command =
      data->add_subcommand("tokenize", "Turn a text into a file of tokens that runs map into memory");
  command->add_option("IN", o->input, "text")->required();
  command->add_option("OUT", o->output, "file to write; its name ends in .tokens")->required();
  command->add_option("--tokenizer", o->text.tokenizer, "characters, bytes or gpt2")->capture_default_str();
  command->add_option("--vocab", o->text.folder,
                      "folder of gpt2's encoder.json and vocab.bpe (default: gpt2-bpe below $LPMM_DATA)");
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(R"(Example:
  lpmm data tokenize --tokenizer gpt2 corpus.txt corpus.tokens
  lpmm train experiments/configs/gpt2_124m.toml --set data.path=corpus.tokens --out runs/gpt2)");
  on_selected(*command, action, o, run_tokenize);
}

}  // namespace lpmm
