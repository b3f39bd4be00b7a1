// Texts that end what a model writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

// Passes on a text that comes in pieces, up to the first of some strings. A possible beginning of one is held
// back until that is decided.
class StopStrings {
 public:
  // Empty ones are left out.
  explicit StopStrings(std::vector<std::string> stops);
  std::string push(std::string_view piece);  // the text that surely comes before any of them
  std::string finish();                      // the text that was held back; empty if one was found
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace lpmm
