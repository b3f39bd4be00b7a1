// The expressions of a chat template; the statements around them are read by parse() (syntax.h).
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/chat/lexer.h"
#include "lpmm/chat/syntax.h"

namespace lpmm::chat {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& now() const { return tokens_[at_]; }
  const Token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : tokens_.back(); }
  bool sees_name(std::string_view name) const { return now().kind == Token::kName && now().text == name; }
  bool sees(std::string_view sign) const { return now().kind == Token::kOperator && now().text == sign; }
  bool skip_name(std::string_view name);
  bool skip(std::string_view sign);
  void expect(std::string_view sign);
  std::string expect_name(const char* what);
  [[noreturn]] void fail(int line, std::string_view why) const;
  [[noreturn]] void fail_here(std::string_view wanted) const;

  NodePointer finish(Node node) const;  // throws where the tree is too high
  NodePointer make(Node::Kind kind, int line, Nodes parts, std::string text = {}) const;

  // One, or a tuple without parentheses. `conditions`: X if Y else Z is one.
  NodePointer tuple(bool conditions = true, bool may_be_empty = false);
  NodePointer expression(bool conditions = true);
  NodePointer target();  // of an assignment
  NodePointer filters(NodePointer operand, bool begins);
  Arguments arguments();

  // Counts what is open around, so that no template nests without end.
  class Inside {
   public:
    explicit Inside(ExpressionParser& parser);
    ~Inside() { --parser_.inside_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  NodePointer disjunction();
  NodePointer conjunction();
  NodePointer negation();
  NodePointer comparison();
  NodePointer sum();
  NodePointer concatenation();
  NodePointer product();
  NodePointer power();
  NodePointer filtered();
  NodePointer unary();
  NodePointer primary();
  NodePointer list();
  NodePointer dict();
  NodePointer postfix(NodePointer node);
  NodePointer subscript();
  NodePointer test(NodePointer operand);
  NodePointer target_part();
  bool ends_tuple() const;
  using Rule = NodePointer (ExpressionParser::*)();
  NodePointer left_to_right(Rule operand, std::initializer_list<std::string_view> signs);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int inside_ = 0;
};

}  // namespace lpmm::chat
