#include "lpmm/base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"

namespace lpmm {
namespace {

// Runs in the child, with only calls that are safe after fork. Returns if one failed.
void become(char* const* argv, const ProcessOptions& options, pid_t parent) {
  if (setpgid(0, 0) != 0) return;
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) return;
  if (getppid() != parent) _exit(1);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int out = open(options.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) return;
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) return;
  for (const int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_DFL);
  execvp(argv[0], argv);
}

}  // namespace

pid_t start_process(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  // The child reports a failure through a pipe that a successful exec closes.
  int report[2] = {};
  if (pipe2(report, O_CLOEXEC) != 0) throw RunError(fmt::format("no pipe: {}", std::strerror(errno)));
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    become(argv.data(), options, parent);
    const int why = errno;
    if (write(report[1], &why, sizeof(why)) < 0) _exit(126);
    _exit(127);
  }
  int why = child < 0 ? errno : 0;
  close(report[1]);
  if (child > 0 && read(report[0], &why, sizeof(why)) > 0) waitpid(child, nullptr, 0);
  close(report[0]);
  if (why != 0) throw RunError(fmt::format("{} cannot be started: {}", arguments[0], std::strerror(why)));
  return child;
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int wait_process(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) throw RunError(fmt::format("waiting for a process: {}", std::strerror(errno)));
  }
  return exit_code(status);
}

std::string output_of(const std::vector<std::string>& arguments) {
  std::FILE* const file = std::tmpfile();
  if (file == nullptr) throw RunError(fmt::format("no temporary file: {}", std::strerror(errno)));
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> closed(file, &std::fclose);
  const int code =
      wait_process(start_process(arguments, {fmt::format("/proc/self/fd/{}", fileno(file)), ""}));
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  if (code != 0) {
    throw RunError(fmt::format("{} ended with {}:\n  {}", shell_command(arguments), code, indented(text)));
  }
  return text;
}

std::string shell_command(std::span<const std::string> arguments) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+@%-";
  std::string out;
  for (const std::string& argument : arguments) {
    if (!out.empty()) out += ' ';
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
      out += argument;
      continue;
    }
    out += '\'';
    for (const char c : argument) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += '\'';
  }
  return out;
}

std::string path_argument(const std::string& path) {
  return path.starts_with('-') ? "./" + path : path;
}

std::string own_program() {
  const auto path = std::filesystem::read_symlink("/proc/self/exe");
  // Built anew since it was started: the file has lost its name, and this leads to it still.
  return std::filesystem::exists(path) ? path.string() : "/proc/self/exe";
}

}  // namespace lpmm
