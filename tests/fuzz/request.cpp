// Bodies of requests to `lpmm serve`: the first byte tells a chat from a completion.
#include "experiments/serve/request.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <iterator>

#include "experiments/commands/arguments.h"
#include "experiments/serve/connection.h"
#include "lpmm/data/conversations/chat_templates.h"
#include "tests/fuzz/input.h"

namespace {

// A tiny model of bytes, with a template.
struct Model {
  lpmm::TextWriter writer{trained(), 1, lpmm::kWholeContext, false};
  lpmm::ChatFormat format{lpmm::find_template("chatml", "").value(), writer};

  static std::string trained() {
    const std::string folder = lpmm::fuzz::memory_folder(), out = folder + "/run", text = folder + "/text";
    std::ofstream(text) << std::string(4096, 'a');
    const std::string path = "data.path=" + text;
    lpmm::Action action;
    CLI::App program;
    lpmm::add_train_command(program, action);
    const char* const said[] = {"lpmm",
                                "train",
                                LPMM_SOURCE_DIR "/experiments/configs/gpt_tiny_embedded.toml",
                                "--set",
                                "data.tokenizer=bytes",
                                "--set",
                                path.c_str(),
                                "--set",
                                "train.steps=1",
                                "--out",
                                out.c_str()};
    program.parse(static_cast<int>(std::size(said)), said);
    lpmm::fuzz::must(action() == 0);
    return out;
  }
};

}  // namespace

LPMM_FUZZ_TARGET(bytes) {
  static Model model;
  if (bytes.empty()) return;
  const bool is_chat = bytes[0] % 2 == 1;
  const lpmm::Served served{"tiny", model.writer, &model.format, 16};
  try {
    const lpmm::TextRequest request =
        lpmm::read_request(std::string(lpmm::fuzz::text(bytes.subspan(1))), is_chat, served);
    lpmm::fuzz::must(!request.prompts.empty() && request.write.tokens <= served.most_tokens);
  } catch (const lpmm::ApiError&) {
  } catch (const lpmm::RunError&) {  // a client would be told nothing
    lpmm::fuzz::must(false);
  } catch (const lpmm::UsageError&) {
    lpmm::fuzz::must(false);
  }
}
