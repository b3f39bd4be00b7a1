#include "lpmm/base/process.h"

#include <gtest/gtest.h>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

TEST(Process, OutputIsWhatItPrints) {
  EXPECT_EQ(output_of({"sh", "-c", "printf 'a\\nb'"}), "a\nb");
  EXPECT_EQ(output_of({"true"}), "");
}

TEST(Process, AFailureNamesTheCommandAndWhatItSaid) {
  try {
    output_of({"sh", "-c", "echo out of luck >&2; exit 3"});
    FAIL();
  } catch (const RunError& error) {
    EXPECT_EQ(std::string(error.what()), "sh -c 'echo out of luck >&2; exit 3' ended with 3:\n  out of luck");
  }
  EXPECT_THROW(output_of({"/no/such/program"}), RunError);
}

TEST(Process, CommandsAreAsTypedInAShell) {
  const std::vector<std::string> arguments = {"lpmm", "plot", "it's here", path_argument("-a"), ""};
  EXPECT_EQ(shell_command(arguments), "lpmm plot 'it'\\''s here' ./-a ''");
}

}  // namespace
}  // namespace lpmm
