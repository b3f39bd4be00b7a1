// A small model of conversations for tests: bytes, ChatML, trained for a moment.
#pragma once

#include <string>
#include <vector>

#include "tests/experiments/program.h"

namespace lpmm {

class TalkingTest : public ProgramTest {
 protected:
  // Trains it into path("mine"). Text of one letter: what it says is bytes of UTF-8 mostly.
  void train_talker(int context = 192) const {
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      const std::string letters(static_cast<std::size_t>(2 + i % 5), static_cast<char>('a' + i % 3));
      lines += R"({"messages": [{"role": "user", "content": "say )" + letters +
               R"("}, {"role": "assistant", "content": ")" + letters + "\"}]}\n";
    }
    write("my.jsonl", lines);
    write("mine.toml", R"([model]
name = "llama"
layers = 1
heads = 2
embedding = 32
mlp_width = 48
context = )" + std::to_string(context) +
                           R"(
[data]
set = "conversations"
path = ")" + path("my.jsonl") +
                           R"("
template = "chatml"
length = 64
[train]
steps = 30
batch = 4
compute = "fp32"
[optimizer]
rule = "adamw"
learning_rate = 0.01
)");
    const Outcome trained = run_lpmm({"train", path("mine.toml"), "--preset", "fp32", "--out", path("mine")});
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
};

}  // namespace lpmm
