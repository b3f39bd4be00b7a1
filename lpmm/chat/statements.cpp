#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "lpmm/chat/parser.h"
#include "lpmm/data/utf8.h"

namespace lpmm::chat {
namespace {

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Nodes all() {
    Nodes body = statements({});
    if (now().kind != Token::kEnd) fail(now().line, "a block ends here that nothing began");
    return body;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  // Up to a block of one of these names, whose begin is taken and whose name is not.
  Nodes statements(Names ends) {
    const Inside inside(*this);
    Nodes all;
    while (now().kind != Token::kEnd) {
      const Token token = take();
      if (token.kind == Token::kText) {
        Node node{Node::kConstant, token.line};
        node.value = token.text;
        all.push_back(output(token.line, finish(std::move(node))));
      } else if (token.kind == Token::kVariableBegin) {
        all.push_back(output(token.line, tuple()));
        if (now().kind != Token::kVariableEnd) fail_here("}}");
        take();
      } else {
        if (std::ranges::any_of(ends, [&](std::string_view name) { return sees_name(name); })) return all;
        all.push_back(statement());
        end_block();
      }
    }
    return all;
  }
  void end_block() {
    if (now().kind != Token::kBlockEnd) fail_here("%}");
    take();
  }
  // Parses the body of a block, from the end of its tag to one of the names `ends`, which is not taken.
  NodePointer body(int line, Names ends) {
    skip(":");
    end_block();
    Nodes inner = statements(ends);
    if (now().kind == Token::kEnd) {
      fail(line,
           fmt::format("a block that begins here has no end: {{% {} %}} is missing", *(ends.end() - 1)));
    }
    Node node{Node::kBlock, line};
    node.body = std::move(inner);
    return finish(std::move(node));
  }
  NodePointer body_to(int line, std::string_view end) {
    NodePointer inner = body(line, {end});
    take();
    return inner;
  }
  NodePointer output(int line, NodePointer what) {
    Nodes parts;
    parts.push_back(std::move(what));
    return make(Node::kOutput, line, std::move(parts));
  }

  NodePointer statement() {
    const int line = now().line;
    const std::string name = expect_name("the name of a block");
    if (name == "if") return if_block(line);
    if (name == "for") return for_block(line);
    if (name == "set") return set_block(line);
    if (name == "macro") return macro(line);
    if (name == "call") return call_block(line);
    if (name == "filter") return filter_block(line);
    if (name == "with") return with_block(line);
    if (name == "print") {
      Nodes parts;
      do {
        parts.push_back(expression());
      } while (skip(","));
      return make(Node::kOutput, line, std::move(parts));
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fail(line, fmt::format("{} stands outside of a loop", name));
      return make(name == "break" ? Node::kBreak : Node::kContinue, line, {});
    }
    if (name == "generation") {
      Node node{Node::kGeneration, line};
      node.body.push_back(outside_loops([&] { return body_to(line, "endgeneration"); }));
      return finish(std::move(node));
    }
    for (const std::string_view end : {"endif", "endfor", "endset", "endmacro", "endcall", "endfilter",
                                       "endwith", "endgeneration", "else", "elif"}) {
      if (name == end) fail(line, fmt::format("{} closes nothing", name));
    }
    fail(line, fmt::format("the block {} is not supported in chat templates here", lpmm::shown(name)));
  }

  NodePointer if_block(int line) {
    Node node{Node::kIf, line};
    for (;;) {
      node.parts.push_back(tuple(false));
      node.body.push_back(body(line, {"elif", "else", "endif"}));
      if (skip_name("elif")) continue;
      if (skip_name("else")) {
        node.body.push_back(body_to(line, "endif"));
      } else {
        take();
      }
      return finish(std::move(node));
    }
  }
  NodePointer for_block(int line) {
    Node node{Node::kFor, line};
    node.parts.push_back(target());
    if (!skip_name("in")) fail_here("in");
    node.parts.push_back(tuple(false));
    if (skip_name("if")) node.parts.push_back(expression());
    if (sees_name("recursive")) fail(line, "recursive loops are not supported");
    ++loops_;
    node.body.push_back(body(line, {"else", "endfor"}));
    --loops_;
    if (skip_name("else")) {
      node.body.push_back(body_to(line, "endfor"));
    } else {
      take();
    }
    return finish(std::move(node));
  }
  NodePointer set_block(int line) {
    Node node{Node::kSet, line};
    node.parts.push_back(target());
    if (skip("=")) {
      node.parts.push_back(tuple());
    } else {
      node.kind = Node::kSetBlock;
      if (sees("|")) node.parts.push_back(filters(nullptr, false));
      node.body.push_back(outside_loops([&] { return body_to(line, "endset"); }));
    }
    return finish(std::move(node));
  }
  void signature(Node& node) {
    expect("(");
    while (!sees(")")) {
      node.names.push_back(expect_name("the name of an argument"));
      if (skip("=")) {
        node.parts.push_back(expression());
      } else if (!node.parts.empty()) {
        fail(node.line, "an argument without a default follows one that has it");
      }
      if (!skip(",")) break;
    }
    expect(")");
  }
  NodePointer macro(int line) {
    Node node{Node::kMacro, line};
    node.text = expect_name("the name of a macro");
    signature(node);
    node.body.push_back(outside_loops([&] { return body_to(line, "endmacro"); }));
    return finish(std::move(node));
  }
  NodePointer call_block(int line) {
    Node node{Node::kCallBlock, line};
    node.text = "caller";
    if (sees("(")) signature(node);
    node.parts.push_back(expression());
    if (node.parts.back()->kind != Node::kCall) fail(line, "{% call %} wants the call of a macro");
    node.body.push_back(outside_loops([&] { return body_to(line, "endcall"); }));
    return finish(std::move(node));
  }
  NodePointer filter_block(int line) {
    Node node{Node::kFilterBlock, line};
    node.parts.push_back(filters(nullptr, true));
    node.body.push_back(body_to(line, "endfilter"));
    return finish(std::move(node));
  }
  NodePointer with_block(int line) {
    Node node{Node::kWith, line};
    while (now().kind != Token::kBlockEnd) {
      if (!node.parts.empty()) expect(",");
      node.parts.push_back(target());
      expect("=");
      node.parts.push_back(expression());
    }
    node.body.push_back(body_to(line, "endwith"));
    return finish(std::move(node));
  }
  // Parses a body that renders on its own, as a macro's: a break in it would have no loop to end.
  template <class Read>
  NodePointer outside_loops(const Read& read) {
    const int around = std::exchange(loops_, 0);
    NodePointer node = read();
    loops_ = around;
    return node;
  }

  int loops_ = 0;
};

}  // namespace

Nodes parse(const std::string& source) {
  return Parser(split_tokens(source)).all();
}

}  // namespace lpmm::chat
