// The options of commands that write texts.
#pragma once

#include <CLI/CLI.hpp>

#include "experiments/commands/text/text_writer.h"

namespace lpmm {

// --temperature, --top-k, --top-p, --min-p, --repetition-penalty, --seed and --stop.
void add_sampling_options(CLI::App& command, WriteOptions& options);
// --context, as TextWriter takes it.
void add_context_option(CLI::App& command, std::optional<std::int64_t>& context);

}  // namespace lpmm
