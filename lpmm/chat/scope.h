// The values of the names in a running template, and the functions that it can call.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/chat/syntax.h"
#include "lpmm/chat/value.h"

namespace lpmm::chat {

// Names that are set in a block, and those around it.
struct Scope {
  std::shared_ptr<Scope> around;
  std::vector<std::pair<std::string, Value>> names;

  void set(const std::string& name, Value value) {
    for (auto& [known, held] : names) {
      if (known == name) {
        held = std::move(value);
        return;
      }
    }
    names.emplace_back(name, std::move(value));
  }
  const Value* find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->around.get()) {
      for (const auto& [known, held] : scope->names) {
        if (known == name) return &held;
      }
    }
    return nullptr;
  }
};

// A loop's own object.
struct Loop {
  std::vector<Value> items;
  std::size_t at = 0;
  std::vector<Value> last = {};  // that loop.changed() was given
  bool has_last = false, is_over = false;
};

struct Callable {
  enum Kind { kMacro, kMethod, kFunction };
  Kind kind;
  std::string name;
  Value self = {};                    // of a method
  const Node* node = nullptr;         // of a macro
  std::shared_ptr<Scope> scope = {};  // the scope in which a macro was defined
};

}  // namespace lpmm::chat
