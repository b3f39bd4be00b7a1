#include <fmt/format.h>

#include <algorithm>

#include "lpmm/chat/parser.h"

namespace lpmm::chat {
namespace {

constexpr int kDeepestNesting = 150, kHighestTree = 300;

Nodes nodes(NodePointer a, NodePointer b = nullptr, NodePointer c = nullptr) {
  Nodes all;
  all.push_back(std::move(a));
  if (b) all.push_back(std::move(b));
  if (c) all.push_back(std::move(c));
  return all;
}

std::string shown(const Token& token) {
  switch (token.kind) {
    case Token::kText:
      return "text";
    case Token::kBlockBegin:
    case Token::kVariableBegin:
      return "a tag";
    case Token::kBlockEnd:
      return "%}";
    case Token::kVariableEnd:
      return "}}";
    case Token::kConstant:
      return "a constant";
    case Token::kEnd:
      return "the end";
    case Token::kName:
    case Token::kOperator:
      break;
  }
  return token.text;
}

}  // namespace

ExpressionParser::Inside::Inside(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.inside_ > kDeepestNesting) {
    --parser_.inside_;
    parser_.fail(parser_.now().line, fmt::format("is nested more than {} deep", kDeepestNesting));
  }
}

void ExpressionParser::fail(int line, std::string_view why) const {
  throw Problem(fmt::format("line {}: {}", line, why));
}

void ExpressionParser::fail_here(std::string_view wanted) const {
  fail(now().line, fmt::format("expected {}, got {}", wanted, shown(now())));
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!sees_name(name)) return false;
  take();
  return true;
}

bool ExpressionParser::skip(std::string_view sign) {
  if (!sees(sign)) return false;
  take();
  return true;
}

void ExpressionParser::expect(std::string_view sign) {
  if (!skip(sign)) fail_here(sign);
}

std::string ExpressionParser::expect_name(const char* what) {
  if (now().kind != Token::kName) fail_here(what);
  return take().text;
}

NodePointer ExpressionParser::finish(Node node) const {
  int height = 0;
  const auto under = [&](const NodePointer& part) {
    if (part) height = std::max(height, part->height);
  };
  std::ranges::for_each(node.parts, under);
  std::ranges::for_each(node.body, under);
  std::ranges::for_each(node.arguments.given, under);
  for (const auto& named : node.arguments.named) under(named.second);
  under(node.arguments.all_given);
  under(node.arguments.all_named);
  node.height = height + 1;
  if (node.height > kHighestTree) {
    fail(node.line, fmt::format("has more than {} operations within one another", kHighestTree));
  }
  return std::make_unique<const Node>(std::move(node));
}

NodePointer ExpressionParser::make(Node::Kind kind, int line, Nodes parts, std::string text) const {
  Node node{kind, line};
  node.parts = std::move(parts);
  node.text = std::move(text);
  return finish(std::move(node));
}

bool ExpressionParser::ends_tuple() const {
  return now().kind == Token::kVariableEnd || now().kind == Token::kBlockEnd || sees(")") ||
         sees_name("in") || sees_name("recursive");
}

NodePointer ExpressionParser::tuple(bool conditions, bool may_be_empty) {
  const int line = now().line;
  Nodes items;
  bool is_tuple = may_be_empty && ends_tuple();
  while (!ends_tuple()) {
    items.push_back(expression(conditions));
    if (!skip(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return make(Node::kTuple, line, std::move(items));
  if (items.empty()) fail_here("an expression");
  return std::move(items[0]);
}

NodePointer ExpressionParser::target() {
  const int line = now().line;
  Nodes items;
  bool is_tuple = false;
  while (!ends_tuple() && !sees("=")) {
    items.push_back(target_part());
    if (!skip(",")) break;
    is_tuple = true;
  }
  if (items.empty()) fail_here("a name");
  if (is_tuple) return make(Node::kTuple, line, std::move(items));
  return std::move(items[0]);
}

NodePointer ExpressionParser::target_part() {
  const Inside inside(*this);
  if (skip("(")) {
    NodePointer inner = target();
    expect(")");
    return inner;
  }
  Node node{Node::kName, now().line};
  node.text = expect_name("a name");
  for (const char* constant : {"true", "false", "True", "False", "none", "None", "loop"}) {
    if (node.text == constant) fail(node.line, fmt::format("{} cannot be set", constant));
  }
  if (skip(".")) {
    node.kind = Node::kNamespaceItem;
    node.names.push_back(expect_name("a name"));
  }
  return finish(std::move(node));
}

NodePointer ExpressionParser::expression(bool conditions) {
  const Inside inside(*this);
  NodePointer node = disjunction();
  while (conditions && sees_name("if")) {
    const int line = take().line;
    NodePointer condition = disjunction();
    NodePointer otherwise = skip_name("else") ? expression() : nullptr;
    node = make(Node::kChoice, line, nodes(std::move(condition), std::move(node), std::move(otherwise)));
  }
  return node;
}

NodePointer ExpressionParser::disjunction() {
  NodePointer left = conjunction();
  while (sees_name("or")) {
    const int line = take().line;
    left = make(Node::kOr, line, nodes(std::move(left), conjunction()));
  }
  return left;
}

NodePointer ExpressionParser::conjunction() {
  NodePointer left = negation();
  while (sees_name("and")) {
    const int line = take().line;
    left = make(Node::kAnd, line, nodes(std::move(left), negation()));
  }
  return left;
}

NodePointer ExpressionParser::negation() {
  if (!sees_name("not")) return comparison();
  const Inside inside(*this);
  const int line = take().line;
  return make(Node::kNot, line, nodes(negation()));
}

NodePointer ExpressionParser::comparison() {
  Node node{Node::kCompare, now().line};
  node.parts.push_back(sum());
  for (;;) {
    std::string sign;
    for (const std::string_view one : {"==", "!=", "<", "<=", ">", ">="}) {
      if (sees(one)) sign = one;
    }
    if (sees_name("in")) sign = "in";
    if (sees_name("not") && after().kind == Token::kName && after().text == "in") {
      take();
      sign = "not in";
    }
    if (sign.empty()) break;
    take();
    node.names.push_back(std::move(sign));
    node.parts.push_back(sum());
  }
  return node.names.empty() ? std::move(node.parts[0]) : finish(std::move(node));
}

NodePointer ExpressionParser::left_to_right(Rule operand, std::initializer_list<std::string_view> signs) {
  NodePointer left = (this->*operand)();
  while (std::ranges::any_of(signs, [&](std::string_view sign) { return sees(sign); })) {
    const Token sign = take();
    NodePointer right = (this->*operand)();
    left = make(Node::kBinary, sign.line, nodes(std::move(left), std::move(right)), sign.text);
  }
  return left;
}

NodePointer ExpressionParser::sum() {
  return left_to_right(&ExpressionParser::concatenation, {"+", "-"});
}
NodePointer ExpressionParser::product() {
  return left_to_right(&ExpressionParser::power, {"*", "/", "//", "%"});
}
NodePointer ExpressionParser::power() {
  return left_to_right(&ExpressionParser::filtered, {"**"});
}

NodePointer ExpressionParser::concatenation() {
  const int line = now().line;
  Nodes items = nodes(product());
  while (skip("~")) items.push_back(product());
  return items.size() == 1 ? std::move(items[0]) : make(Node::kConcat, line, std::move(items));
}

NodePointer ExpressionParser::unary() {
  const Inside inside(*this);
  const int line = now().line;
  if (!sees("-") && !sees("+")) return postfix(primary());
  const Node::Kind kind = take().text == "-" ? Node::kMinus : Node::kPlus;
  return postfix(make(kind, line, nodes(unary())));
}

NodePointer ExpressionParser::filtered() {
  NodePointer node = unary();
  for (;;) {
    if (sees("|")) {
      node = filters(std::move(node), false);
    } else if (sees_name("is")) {
      node = test(std::move(node));
    } else if (sees("(")) {
      node = postfix(std::move(node));
    } else {
      return node;
    }
  }
}

NodePointer ExpressionParser::primary() {
  const int line = now().line;
  if (now().kind == Token::kName) {
    Node node{Node::kConstant, line};
    const std::string name = take().text;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      node.value = name == "true" || name == "True";
    } else if (name != "none" && name != "None") {
      node.kind = Node::kName;
      node.text = name;
    }
    return finish(std::move(node));
  }
  if (now().kind == Token::kConstant) {
    Node node{Node::kConstant, line};
    node.value = take().value;
    std::string more;  // texts that follow each other are one
    while (node.value.is_text() && now().kind == Token::kConstant && now().value.is_text()) {
      more += take().value.text();
    }
    if (!more.empty()) node.value = node.value.text() + more;
    return finish(std::move(node));
  }
  if (skip("(")) {
    NodePointer inner = tuple(true, true);
    expect(")");
    return inner;
  }
  if (sees("[")) return list();
  if (sees("{")) return dict();
  fail_here("an expression");
}

NodePointer ExpressionParser::list() {
  const int line = take().line;
  Nodes items;
  while (!sees("]")) {
    items.push_back(expression());
    if (!skip(",")) break;
  }
  expect("]");
  return make(Node::kList, line, std::move(items));
}

NodePointer ExpressionParser::dict() {
  const int line = take().line;
  Nodes items;
  while (!sees("}")) {
    items.push_back(expression());
    expect(":");
    items.push_back(expression());
    if (!skip(",")) break;
  }
  expect("}");
  return make(Node::kDict, line, std::move(items));
}

NodePointer ExpressionParser::postfix(NodePointer node) {
  for (;;) {
    const int line = now().line;
    if (skip(".")) {
      if (now().kind == Token::kConstant && now().value.is_integer()) {
        Node place{Node::kConstant, line};
        place.value = take().value;
        node = make(Node::kItem, line, nodes(std::move(node), finish(std::move(place))));
      } else {
        std::string name = expect_name("a name");
        node = make(Node::kAttribute, line, nodes(std::move(node)), std::move(name));
      }
    } else if (sees("[")) {
      take();
      Nodes places;
      do {
        places.push_back(subscript());
      } while (skip(",") && !sees("]"));
      expect("]");
      NodePointer place =
          places.size() == 1 ? std::move(places[0]) : make(Node::kTuple, line, std::move(places));
      node = make(Node::kItem, line, nodes(std::move(node), std::move(place)));
    } else if (sees("(")) {
      Node call{Node::kCall, line};
      call.parts.push_back(std::move(node));
      call.arguments = arguments();
      node = finish(std::move(call));
    } else {
      return node;
    }
  }
}

NodePointer ExpressionParser::subscript() {
  Node slice{Node::kSlice, now().line};
  if (!sees(":")) {
    NodePointer place = expression();
    if (!sees(":")) return place;
    slice.parts.push_back(std::move(place));
  } else {
    slice.parts.push_back(nullptr);
  }
  for (int i = 0; i < 2; ++i) {
    const bool is_there = skip(":") && !sees(":") && !sees("]") && !sees(",");
    slice.parts.push_back(is_there ? expression() : nullptr);
  }
  return finish(std::move(slice));
}

Arguments ExpressionParser::arguments() {
  const Inside inside(*this);
  const int line = now().line;
  Arguments all;
  expect("(");
  while (!sees(")")) {
    const bool takes_named = !all.all_named, takes_given = takes_named && !all.all_given && all.named.empty();
    const bool is_named =
        now().kind == Token::kName && after().kind == Token::kOperator && after().text == "=";
    if (is_named ? !takes_named : !sees("**") && !takes_given)
      fail(line, "a call has its arguments out of order");
    if (skip("*")) {
      all.all_given = expression();
    } else if (skip("**")) {
      all.all_named = expression();
    } else if (is_named) {
      std::string name = take().text;
      take();
      all.named.emplace_back(std::move(name), expression());
    } else {
      all.given.push_back(expression());
    }
    if (!skip(",")) break;
  }
  expect(")");
  return all;
}

NodePointer ExpressionParser::filters(NodePointer operand, bool begins) {
  while (begins || skip("|")) {
    begins = false;
    Node node{Node::kFilter, now().line};
    node.text = expect_name("a filter");
    node.parts.push_back(std::move(operand));
    if (sees("(")) node.arguments = arguments();
    operand = finish(std::move(node));
  }
  return operand;
}

NodePointer ExpressionParser::test(NodePointer operand) {
  Node node{Node::kTest, take().line};
  const int line = node.line;
  const bool is_negated = skip_name("not");
  node.text = expect_name("a test");
  node.parts.push_back(std::move(operand));
  const bool has_operand =
      now().kind == Token::kConstant || sees("[") || sees("{") ||
      (now().kind == Token::kName && !sees_name("else") && !sees_name("or") && !sees_name("and"));
  if (sees("(")) {
    node.arguments = arguments();
  } else if (has_operand) {
    if (sees_name("is")) fail(line, "two tests follow each other");
    node.arguments.given.push_back(postfix(primary()));
  }
  NodePointer tested = finish(std::move(node));
  return is_negated ? make(Node::kNot, line, nodes(std::move(tested))) : std::move(tested);
}

}  // namespace lpmm::chat
