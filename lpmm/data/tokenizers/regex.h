// Regular expressions of a tokenizer.json, by PCRE2, read as Oniguruma reads them: Unicode classes, ^ and $
// at every line.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

struct Span {
  std::size_t begin, end;
};

// Never changes after it is made, so any number of threads may use one.
class Regex {
 public:
  // Throws RunError("...") for what is no pattern.
  explicit Regex(const std::string& pattern);
  // Matches from the left that do not overlap; none goes over bytes that are not UTF-8. Throws UsageError
  // where one takes too long.
  std::vector<Span> find_all(std::string_view text) const;

 private:
  void find_within(std::string_view text, std::size_t first, std::vector<Span>& spans) const;

  std::string pattern_;
  std::shared_ptr<const void> code_;
};

// Finds what splits a text, or is replaced in it.
using Finder = std::function<std::vector<Span>(std::string_view)>;

// Ends early, somewhere past `most` bytes, where there would be more.
std::string replaced(const std::string& text, const Finder& find, std::string_view by,
                     std::size_t most = std::string::npos);
// All places of a text that is not empty, from the left.
Finder text_finder(const std::string& text);

class Part;
// A finder for the member `key`: {"String": "..."}, {"Regex": "..."} or a text alone.
Finder make_finder(const Part& part, const char* key);

}  // namespace lpmm
