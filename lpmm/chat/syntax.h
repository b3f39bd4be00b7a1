// A chat template as a tree.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/chat/value.h"

namespace lpmm::chat {

struct Node;
using NodePointer = std::unique_ptr<const Node>;
using Nodes = std::vector<NodePointer>;

// The arguments in the parentheses of a call.
struct Arguments {
  Nodes given;
  std::vector<std::pair<std::string, NodePointer>> named;
  NodePointer all_given, all_named;  // *list, **object; null: none
};

struct Node {
  enum Kind {
    // Expressions, with their parts. A part in brackets may be null.
    kConstant,   // value
    kName,       // text
    kList,       // items
    kTuple,      // items
    kDict,       // name, value, name, value...
    kAttribute,  // object; text
    kItem,       // object, place
    kSlice,      // [from], [to], [step]; only the place of a kItem
    kCall,       // function; arguments
    kFilter,     // [operand]: null in front of a block; text, arguments
    kTest,       // operand; text, arguments
    kNot,        // operand
    kMinus,      // operand
    kPlus,       // operand
    kBinary,     // left, right; text: + - * / // % **
    kConcat,     // items
    kAnd,        // left, right
    kOr,         // left, right
    kCompare,    // operands; names: between them, == != < <= > >= in, or "not in"
    kChoice,     // condition, then, [otherwise]
    // Statements; `body` runs.
    kOutput,       // expressions
    kIf,           // conditions; body: a kBlock for each, and one more for else
    kFor,          // target, list, [condition]; body: kBlock, [kBlock of else]
    kSet,          // target, value
    kSetBlock,     // target, [filters]; body
    kMacro,        // text, names of arguments; parts: defaults of the last ones; body
    kCallBlock,    // parts: defaults, then the call; names; body
    kFilterBlock,  // filters; body
    kWith,         // target, value, target, value...; body
    kGeneration,   // body
    kBlock,        // body
    kBreak,
    kContinue,
    kNamespaceItem  // a target: text of the namespace, names: of the attribute
  };
  Kind kind;
  int line;
  std::string text = {};
  Value value = {};
  Nodes parts = {}, body = {};
  Arguments arguments = {};
  std::vector<std::string> names = {};
  int height = 1;  // of the tree below
};

// Reads a template with the white space rules of chat templates: a line that holds only a block leaves
// nothing (trim_blocks, lstrip_blocks). Throws Problem("line N: WHY").
Nodes parse(const std::string& source);

}  // namespace lpmm::chat
