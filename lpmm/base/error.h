// Errors a user can act on: what happened, where, and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace lpmm {

// Wrong input from the command line, a config or a spec: the program exits with 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A run, a file or the machine failed: the program exits with 1.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lpmm
