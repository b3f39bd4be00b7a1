// Files of conversations: their rows, and what each says.
#include "lpmm/data/conversations/rows.h"

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  static lpmm::fuzz::MemoryFile file;
  static const std::string folder = [] {
    std::string made = lpmm::fuzz::memory_folder();
    for (const char* name : {"rows.jsonl", "rows.json", "rows.csv"}) lpmm::fuzz::place(made, name, file);
    return made;
  }();
  file.set(bytes);
  for (const char* name : {"/rows.jsonl", "/rows.json", "/rows.csv"}) {
    lpmm::fuzz::read([&] {
      lpmm::for_each_row(folder + name, [](const std::string& place, const lpmm::Json& row) {
        lpmm::fuzz::must(!place.empty());
        lpmm::fuzz::read([&] {
          std::vector<std::string> unused;
          const lpmm::Conversation said = lpmm::conversation_of(row, {}, unused);
          lpmm::fuzz::must(said.messages.is_array() || said.messages.is_null());
        });
        return true;
      });
    });
  }
}
