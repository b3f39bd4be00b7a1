// Returns the message of the error that a body throws.
#pragma once

#include <exception>
#include <functional>
#include <string>

namespace lpmm {

inline std::string said(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace lpmm
