// Child processes, without a shell.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

namespace lpmm {

struct ProcessOptions {
  std::string output;  // file that gets standard output and error; emptied first
  std::string folder;  // working folder; empty: ours
};

// Starts arguments[0], looked up in PATH where it has no slash, in a process group of its own, so that Ctrl-C
// reaches it only through us. It gets SIGTERM when this process dies. Throws RunError where it cannot start.
pid_t start_process(const std::vector<std::string>& arguments, const ProcessOptions& options);

// Exit code, or 128 + signal, from the status of waitpid.
int exit_code(int status);
// Waits for the end.
int wait_process(pid_t process);

// The output of a program, once it has ended. Throws RunError where it cannot start or ends with another code
// than 0.
std::string output_of(const std::vector<std::string>& arguments);

// The arguments as one would type them in a shell, and a path that cannot be taken for an option there.
std::string shell_command(std::span<const std::string> arguments);
std::string path_argument(const std::string& path);

// The file this program was started from.
std::string own_program();

}  // namespace lpmm
