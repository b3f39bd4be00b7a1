// `lpmm serve`: a model for other programs, by OpenAI's API.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "experiments/commands/arguments.h"
#include "experiments/commands/text/chat_format.h"
#include "experiments/commands/text/sampling_options.h"
#include "experiments/serve/server.h"
#include "experiments/serve/service.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

constexpr const char* kTokenVariable = "LPMM_SERVE_TOKEN";

struct ServeArguments {
  std::string path, chat_template, host = "127.0.0.1", name, token_file;
  int port = 8000, threads = 0;
  bool average = false;
  std::optional<std::int64_t> context;
  std::int64_t tokens = 4096, body_bytes = 4 << 20, clients = 64, waiting = 32, seconds = 600,
               client_seconds = 20;
};

// Returns the token that clients must send; empty if they need none.
std::string token_of(const ServeArguments& o) {
  const char* variable = std::getenv(kTokenVariable);
  if (o.token_file.empty() && variable == nullptr) return {};
  const std::string place = o.token_file.empty() ? kTokenVariable : o.token_file;
  std::string token = o.token_file.empty() ? variable : read_text(o.token_file, 4096);
  while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  const auto is_printed = [](char c) { return c > ' ' && c <= '~'; };
  if (token.empty() || !std::all_of(token.begin(), token.end(), is_printed)) {
    throw UsageError(fmt::format("{}: a token is letters, digits and signs of ASCII, without spaces", place));
  }
  return token;
}

// The name of the run's folder, whichever of its checkpoints is served.
std::string name_of_run(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::weakly_canonical(path);
  return file_name(whole.filename().string());
}

int run_serve(const ServeArguments& o) {
  const std::string token = token_of(o);
  Server server(o.host, o.port);  // first: a port in use is told before a model is read
  const InterruptGuard guard;
  TextWriter writer(o.path, o.threads, o.context, o.average);
  const std::optional<ChatFormat> format = chat_format_of(writer, o.chat_template);
  const Served served{o.name.empty() ? name_of_run(o.path) : o.name, writer, format ? &*format : nullptr,
                      std::min(o.tokens, writer.context())};
  if (!server.is_on_loopback() && token.empty()) {
    tell(fmt::format("warning: whoever reaches {} may use this model; {} or --token-file asks for a token\n",
                     o.host, kTokenVariable));
  }
  std::atomic<bool> stopping = false;
  Service service(served, {static_cast<std::size_t>(o.waiting), std::chrono::seconds(o.seconds)}, token,
                  stopping);
  const std::string host = o.host.find(':') == std::string::npos ? o.host : fmt::format("[{}]", o.host);
  fmt::print("http://{}:{}/v1 serves {}: {}, context of {} tokens; Ctrl-C ends it\n", printable(host),
             server.port(), printable(served.model),
             format ? fmt::format("template {}", printable(format->name())) : "no template, completions only",
             writer.context());
  flush_output();
  server.run(
      {.body_bytes = static_cast<std::uint64_t>(o.body_bytes),
       .patience = std::chrono::seconds(o.client_seconds)},
      static_cast<std::size_t>(o.clients), stopping,
      [&](const HttpRequest& request, Connection& connection) { service.handle(request, connection); });
  return kDone;
}

}  // namespace

void add_serve_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<ServeArguments>();
  CLI::App* command =
      program.add_subcommand("serve", "Serve a language model over HTTP, as OpenAI's API has it");
  const auto count = [&](const char* name, std::int64_t& value, std::int64_t most, const char* what) {
    command->add_option(name, value, what)
        ->check(CLI::Range(std::int64_t{1}, most).description(""))
        ->capture_default_str();
  };
  command->add_option("PATH", o->path, "a run's folder, its checkpoints folder or one checkpoint")
      ->required();
  command->add_option("--port", o->port, "to listen on; 0: any that is free")
      ->check(CLI::Range(0, 65535).description(""))
      ->capture_default_str();
  command->add_option("--host", o->host, "address to listen on; 0.0.0.0: all of this machine")
      ->check(kNotEmpty)
      ->capture_default_str();
  command->add_option("--name", o->name, "of the model, for clients (default: that of the folder)")
      ->check(kNotEmpty);
  command
      ->add_option(
          "--token-file", o->token_file,
          fmt::format("file with a token that clients must bring (else {}; else none)", kTokenVariable))
      ->check(kNotEmpty);
  add_template_option(*command, o->chat_template);
  add_context_option(*command, o->context);
  count("--tokens", o->tokens, 100000000, "of an answer at most");
  count("--body-bytes", o->body_bytes, 1 << 30, "of a request at most");
  count("--clients", o->clients, 4096, "connected at a time");
  count("--waiting", o->waiting, 4096, "requests that wait while another one is answered");
  count("--seconds", o->seconds, 1000000, "from a request to the end of its answer");
  count("--client-seconds", o->client_seconds, 1000000,
        "in which a client must send a request, or take its answer");
  add_average_option(*command, o->average);
  add_threads_option(*command, o->threads);
  command->footer(
      R"(A server for clients of OpenAI's API. POST /v1/completions: prompt (texts or ids), max_tokens,
temperature, top_p, stop, seed, logprobs, echo, stream. POST /v1/chat/completions: messages, and the same
with top_logprobs. GET /v1/models. Also top_k, min_p and repetition_penalty. A field that is not
supported is an error. It reads no files for clients, and answers one request after the other.
Examples:
  lpmm serve runs/mine --port 8000
  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"messages": [{"role": "user", "content": "What is a prime number?"}]}')");
  on_selected(*command, action, o, run_serve);
}

}  // namespace lpmm
