// `lpmm serve`, spoken to over a socket by those who mean well and those who do not.
#include "experiments/serve/service.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/experiments/talking.h"

namespace lpmm {
namespace {
using nlohmann::json;

// A server on a port of its own, which is ended by Ctrl-C.
class Running {
 public:
  explicit Running(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {LPMM_PROGRAM, "serve"});
    arguments.insert(arguments.end(), {"--port", "0"});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    process_ = fork();
    if (process_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execv(LPMM_PROGRAM, argv.data());
      _exit(98);
    }
    close(ends[1]);
    std::string line;
    for (char c = 0; c != '\n' && read(ends[0], &c, 1) == 1;) line += c;
    close(ends[0]);
    const std::size_t at = line.find("127.0.0.1:");
    EXPECT_NE(at, std::string::npos) << line;
    if (at != std::string::npos) port_ = std::stoi(line.substr(at + 10));
  }
  ~Running() {
    if (process_ > 0) end();
  }
  int port() const { return port_; }
  int end() {
    kill(process_, SIGINT);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t process_ = -1;
  int port_ = 0;
};

class Client {
 public:
  explicit Client(const Running& server) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(server.port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const timeval longest{30, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  }
  ~Client() { close(socket_); }
  void send(std::string_view text) const {
    for (ssize_t sent = 0; !text.empty() && sent >= 0;) {
      sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
    }
    EXPECT_TRUE(text.empty()) << "the server closed before it had all";
  }
  // All that comes until the server closes.
  std::string rest() const {
    std::string all;
    char bytes[4096];
    for (ssize_t got = 0; (got = recv(socket_, bytes, sizeof bytes, 0)) > 0;) {
      all.append(bytes, static_cast<std::size_t>(got));
    }
    return all;
  }

 private:
  int socket_;
};

std::string request(const std::string& path, const std::string& body, const std::string& headers = "") {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n{}\r\n{}",
      path, body.size(), headers, body);
}

struct Reply {
  int status = 0;
  std::string body;
  json parsed() const { return json::parse(body); }
};

Reply said(const Running& server, const std::string& raw) {
  const Client client(server);
  client.send(raw);
  const std::string all = client.rest();
  const std::size_t end = all.find("\r\n\r\n");
  if (all.size() < 12 || end == std::string::npos) return {0, all};
  return {std::stoi(all.substr(9, 3)), all.substr(end + 4)};
}

Reply ask(const Running& server, const std::string& path, const json& body) {
  return said(server, request(path, body.dump()));
}

class Serve : public TalkingTest {
 protected:
  Serve() { train_talker(); }
};

const json kCompletion = {{"prompt", {115, 97, 121, 32, 97}},
                          {"max_tokens", 8},
                          {"temperature", 0},
                          {"logprobs", 3},
                          {"echo", true}};

// Joins the texts of all events of a streamed answer.
std::string joined_text(const std::string& body, bool is_chat) {
  std::string text;
  for (std::size_t at = 0; (at = body.find("data: {", at)) != std::string::npos;) {
    const std::size_t end = body.find("\n\n", at);
    const json event = json::parse(body.substr(at + 6, end - at - 6));
    at = end;
    if (event["choices"].empty()) continue;
    const json& choice = event["choices"][0];
    text += is_chat ? choice["delta"].value("content", "") : choice["text"].get<std::string>();
  }
  return text;
}

TEST_F(Serve, CompletionsAreWhatTheProgramComputes) {
  Running server({path("mine")});
  const Reply reply = ask(server, "/v1/completions", kCompletion);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json answer = reply.parsed(), choice = answer["choices"][0], scores = choice["logprobs"];
  EXPECT_EQ(answer["model"], "mine");
  EXPECT_EQ(answer["usage"], json({{"prompt_tokens", 5}, {"completion_tokens", 8}, {"total_tokens", 13}}));
  EXPECT_EQ(choice["finish_reason"], "length");
  const Outcome sample = run_lpmm(
      {"sample", path("mine"), "--prompt", "say a", "--tokens", "8", "--temperature", "0", "--json"});
  EXPECT_EQ(choice["text"], "say a" + sample.json()["text"].get<std::string>());
  // Scores of the prompt are those of `lpmm logits`.
  const Outcome logits = run_lpmm({"logits", path("mine"), "--ids", "115,97,121,32,97", "--json"});
  EXPECT_TRUE(scores["token_logprobs"][0].is_null());
  ASSERT_EQ(scores["tokens"].size(), 13U);
  EXPECT_EQ(scores["text_offset"][4], 4);
  const std::vector<int> ids = kCompletion["prompt"];
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const std::vector<double> row = logits.json()["logits"][i];
    double sum = 0;
    for (const double x : row) sum += std::exp(x);
    const double own = row[static_cast<std::size_t>(ids[i + 1])] - std::log(sum);
    EXPECT_NEAR(scores["token_logprobs"][i + 1].get<double>(), own, 1e-5);
    const double best = *std::max_element(row.begin(), row.end()) - std::log(sum);
    double told = -1e9;
    for (const auto& [name, value] : scores["top_logprobs"][i + 1].items())
      told = std::max(told, value.get<double>());
    EXPECT_NEAR(told, best, 1e-5);
  }
  // A text is the same as its ids; several prompts are several choices.
  json text = kCompletion;
  text["prompt"] = {"say a", "say b"};
  const json two = ask(server, "/v1/completions", text).parsed();
  EXPECT_EQ(two["choices"][0]["logprobs"], scores);
  EXPECT_EQ(two["choices"][1]["index"], 1);
  json stop = kCompletion;
  stop["stop"] = json::array({sample.json()["text"].get<std::string>().substr(2, 1)});
  stop["echo"] = false;
  EXPECT_EQ(ask(server, "/v1/completions", stop).parsed()["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(server.end(), 0);
}

TEST_F(Serve, ChatsStreamAndTwoClientsGetWhatOneGets) {
  Running server({path("mine"), "--name", "talker"});
  json chat = {{"messages", {{{"role", "user"}, {"content", "say aaa"}}}},
               {"model", "talker"},
               {"max_tokens", 16},
               {"seed", 7}};
  const Reply whole = ask(server, "/v1/chat/completions", chat);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const std::string text = whole.parsed()["choices"][0]["message"]["content"];
  chat["logprobs"] = true;
  chat["top_logprobs"] = 2;
  const json scored = ask(server, "/v1/chat/completions", chat).parsed()["choices"][0];
  EXPECT_EQ(scored["message"]["content"], text);
  EXPECT_EQ(scored["logprobs"]["content"][0]["top_logprobs"].size(), 2U);
  chat["stream"] = true;
  chat["stream_options"] = {{"include_usage", true}};
  std::array<Reply, 4> replies;
  std::vector<std::thread> clients;
  for (Reply& reply : replies) {
    clients.emplace_back([&] { reply = ask(server, "/v1/chat/completions", chat); });
  }
  for (std::thread& client : clients) client.join();
  for (const Reply& reply : replies) {
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(joined_text(reply.body, true), text);
    EXPECT_NE(reply.body.find("\"usage\":{"), std::string::npos);
    EXPECT_NE(reply.body.find("data: [DONE]\n\n"), std::string::npos);
  }
  json completion = kCompletion;
  completion["stream"] = true;
  const std::string streamed = ask(server, "/v1/completions", completion).body;
  completion["stream"] = false;
  EXPECT_EQ(joined_text(streamed, false),
            ask(server, "/v1/completions", completion).parsed()["choices"][0]["text"]);
}

TEST_F(Serve, HostileClientsAreToldWhyAndStopNobody) {
  Running server({path("mine"), "--body-bytes", "2000", "--client-seconds", "1"});
  const std::string completions = "/v1/completions", chats = "/v1/chat/completions";
  const auto of = [&](const char* body) { return request(completions, body); };
  const std::string post =
      "POST /v1/completions HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Type: "
      "application/json\r\n";
  const struct {
    std::string raw;
    int status;
    const char* says;
  } cases[] = {
      {"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 404, "/v1/models"},
      {"GET /v1/completions HTTP/1.1\r\nConnection: close\r\n\r\n", 405, "POST"},
      {"\x16\x03\x01\x02 hello\r\n\r\n", 400, "no HTTP"},
      {post + "X: " + std::string(40000, 'a') + "\r\n\r\n", 431, "16384"},
      {post + "Content-Length: 5000\r\n\r\n" + std::string(5000, ' '), 413, "2000"},
      {post + "Content-Length: 8000000\r\n\r\n" + std::string(8000000, ' '), 413, "2000"},
      {post + "Content-Length: 99999999999999999999\r\n\r\n", 400, "no HTTP"},
      {post + "Transfer-Encoding: chunked\r\n\r\nfff\r\n" + std::string(4095, ' ') + "\r\n0\r\n\r\n", 413,
       "2000"},
      {post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "no HTTP"},
      {post + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(100000, 'x'), 431, "too long"},
      {post + "Content-Length: 90\r\n\r\n{\"prompt\": ", 408, "1000 ms"},
      {request(completions, std::string("{\"prompt\": \"a\0b\"}", 17)), 400, "no JSON"},
      {of("{"), 400, "no JSON"},
      {of("[]"), 400, "no JSON object"},
      {request(completions, std::string(900, '[')), 400, "no JSON"},
      {of("{\"prompt\": \"\xff\"}"), 400, "no JSON"},
      {of("{\"prompt\": 1}"), 400, "prompt"},
      {of("{\"prompt\": [1, 256]}"), 400, "256"},
      {of("{\"prompt\": [1, 18446744073709551615]}"), 400, "prompt"},
      {of("{\"prompt\": [[1], [\"a\"]]}"), 400, "prompt"},
      {of("{\"prompt\": \"\"}"), 400, "is empty"},
      {of("{\"prompt\": \"a\", \"max_tokens\": 1e9}"), 400, "max_tokens"},
      {of("{\"prompt\": \"a\", \"max_tokens\": 192}"), 400, "context is 192"},
      {of("{\"prompt\": \"a\", \"temperature\": -1}"), 400, "temperature is -1"},
      {of("{\"prompt\": \"a\", \"n\": 2}"), 400, "n other than 1"},
      {of("{\"prompt\": \"a\", \"stop\": [1]}"), 400, "stop"},
      {of("{\"prompt\": \"a\", \"seed\": 18446744073709551615}"), 400, "seed"},
      {of("{\"prompt\": \"a\", \"logprobs\": true}"), 400, "logprobs"},
      {of("{\"prompt\": \"a\", \"grammar\": \"x\"}"), 400, "grammar is not supported"},
      {of("{\"prompt\": \"a\", \"prompt\": \"b\"}"), 400, "prompt"},
      {of("{\"prompt\": \"a\", \"model\": \"gpt-4\"}"), 404, "this server has mine"},
      {request(chats, "{\"messages\": []}"), 400, "messages"},
      {request(chats, "{\"messages\": [{\"role\": 1, \"content\": \"a\"}]}"), 400, "role"},
      {request(chats, "{\"messages\": [{\"role\": \"user\", \"content\": {}}]}"), 400, "content"},
      {request(completions, "{\"prompt\": \"a\"}", "Origin: http://evil.example\r\n"), 403, "Origin"},
      {"POST /v1/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", 415,
       "application/json"},
  };
  // One who says nothing, and one who goes away in the midst of an answer.
  const Client silent(server);
  {
    const Client gone(server);
    gone.send(request(completions, R"({"prompt": "a", "max_tokens": 190, "stream": true})"));
  }
  for (const auto& one : cases) {
    const Reply reply = said(server, one.raw);
    EXPECT_EQ(reply.status, one.status) << one.raw.substr(0, 300) << "\n" << reply.body;
    if (reply.status == 0) continue;
    EXPECT_NE(reply.parsed()["error"]["message"].get<std::string>().find(one.says), std::string::npos)
        << one.raw.substr(0, 300) << "\n"
        << reply.body;
  }
  EXPECT_EQ(silent.rest(), "");  // it was left
  EXPECT_EQ(ask(server, completions, kCompletion).status, 200);
  expect_failure(run_lpmm({"serve", path("mine"), "--port", std::to_string(server.port())}), 1,
                 {"port " + std::to_string(server.port()), "in use", "--port"});
  EXPECT_EQ(server.end(), 0);
}

TEST_F(Serve, ATokenIsAskedFor) {
  expect_failure(run_lpmm({"serve", path("mine"), "--token-file", write("none", "\n")}), 2,
                 {"none", "token"});
  Running server({path("mine"), "--token-file", write("token", "secret\n")});
  const auto models = [&](const std::string& header) {
    return said(server, "GET /v1/models HTTP/1.1\r\nConnection: close\r\n" + header + "\r\n");
  };
  EXPECT_EQ(models("").status, 401);
  EXPECT_EQ(models("Authorization: Bearer secre\r\n").status, 401);
  EXPECT_EQ(models("Authorization: Bearer secret2\r\n").parsed()["error"]["code"], "invalid_api_key");
  EXPECT_EQ(models("Authorization: Bearer secret\r\n").parsed()["data"][0]["id"], "mine");
}

TEST(Turns, AreTakenInOrderAndNoMoreThanSaidWait) {
  Turns turns;
  turns.take(1, [] {});
  std::vector<int> order;
  std::atomic<bool> waits = false;
  std::thread other([&] {
    turns.take(1, [&] { waits = true; });
    order.push_back(2);
    turns.leave();
  });
  while (!waits) std::this_thread::yield();
  EXPECT_THROW(turns.take(1, [] {}), ApiError);
  order.push_back(1);
  turns.leave();
  other.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  // A request that gives up leaves its place to the next.
  turns.take(2, [] {});
  std::thread tired([&] { EXPECT_THROW(turns.take(2, [] { throw ApiError(503, "late"); }), ApiError); });
  tired.join();
  turns.leave();
  turns.take(0, [] {});
  turns.leave();
}

}  // namespace
}  // namespace lpmm
