// `lpmm plot` and `lpmm report` on logs written by hand.
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <span>

#include "lpmm/base/process.h"
#include "lpmm/files/files.h"
#include "tests/experiments/program.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

class PlotTest : public ProgramTest {
 protected:
  // A run of 40 steps; `share` is the underflow share of its parameters, loss ends at `loss`.
  std::string run(const std::string& name, double loss, double share, bool ended = true) const {
    fs::create_directory(path(name));
    std::ofstream log(path(name + "/log.jsonl"));
    using Json = nlohmann::json;
    log << Json{{"type", "config"}, {"preset", "lpmm"}} << '\n';
    for (int step = 1; step <= 40; ++step) {
      log << Json{{"type", "step"}, {"step", step}, {"loss", loss + 40 - step}} << '\n';
      if (step % 10 != 0) continue;
      log << Json{{"type", "eval"}, {"step", step}, {"accuracy", 0.02 * step}} << '\n';
      const Json roles = {{"parameter", {{"share", share}}}, {"momentum", {{"share", share / 2}}}};
      log << Json{{"type", "underflow"}, {"step", step}, {"roles", roles}} << '\n';
    }
    if (!ended) return path(name);
    log << Json{{"type", "summary"},
                {"final_loss", loss},
                {"test_accuracy", 0.8},
                {"bits_per_parameter", 28.5},
                {"model_memory_bytes",
                 {{"parameter", 1234567},
                  {"accumulator", 400},
                  {"momentum", 300},
                  {"variance", 0},
                  {"exempt", 20},
                  {"buffers", 10},
                  {"total", 1235297}}},
                {"interrupted", false},
                {"peak_rss_bytes", 20 << 20},
                {"plan_peak_bytes", 21 << 20},
                {"images_per_second", 512.4},
                {"underflow", {{"parameter", share}, {"momentum", share / 2}}}}
        << '\n';
    return path(name);
  }
};

bool has_gnuplot() {
  std::string folders = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    if (fs::exists(fs::path(folders.substr(at, end - at)) / "gnuplot")) return true;
    at = end + 1;
  }
  return false;
}

TEST_F(PlotTest, DrawsAScriptAgain) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  ASSERT_EQ(run_lpmm({"plot", run("a", 1, 0.1), "--out", path("picture"), "--svg"}).code, 0);
  const std::string png = read_file(path("picture.png")), svg = read_file(path("picture.svg"));
  for (const char* name : {"picture.png", "picture.svg"}) fs::remove(path(name));
  fs::remove_all(path("a"));
  write(".lpmm-1-0.tmp", "left by a process that was killed");
  const Outcome again = run_lpmm({"plot", path("picture.gp"), "--svg", "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["png"][0], path("picture.png"));
  EXPECT_TRUE(read_file(path("picture.png")) == png);
  EXPECT_TRUE(read_file(path("picture.svg")) == svg);
  EXPECT_EQ(leftovers_in(path(".")), std::set<std::string>{});
  expect_failure(run_lpmm({"plot", path("picture.gp"), "--out", path("other")}), 2, {"NAME.gp"});
  expect_failure(run_lpmm({"plot", path("picture.gp"), run("b", 1, 0.1)}), 2, {"NAME.gp"});
  expect_failure(run_lpmm({"plot", path("none.gp")}), 1, {"none.gp"});
}

TEST_F(PlotTest, WritesThePictures) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const Outcome outcome =
      run_lpmm({"plot", run("a", 1, 0.1), run("b", 2, 0.9) + "/log.jsonl", "--label", "first", "--label",
                "second", "--out", path("made/picture"), "--svg", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["png"], path("made/picture.png"));
  const std::string png = read_file(path("made/picture.png"));
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(png[25], 3);  // colours of a palette
  const std::string svg = read_file(path("made/picture.svg"));
  for (const char* text : {"first", "second", "training loss", "test accuracy", "underflow, parameter",
                           "underflow, momentum", "cross entropy (nats)", "increments lost (%)"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(svg.find("underflow, variance"), std::string::npos);  // no run has one
  // The script beside it draws it again; without --svg there is none.
  fs::rename(path("made/picture.svg"), path("before.svg"));
  EXPECT_EQ(wait_process(start_process({"gnuplot", "-c", "picture.gp", "svg"}, {path("said"), path("made")})),
            0);
  EXPECT_EQ(read_file(path("made/picture.svg")), svg);
  ASSERT_EQ(run_lpmm({"plot", path("a"), "--out", path("alone")}).code, 0);
  EXPECT_TRUE(fs::exists(path("alone.gp")));
  EXPECT_FALSE(fs::exists(path("alone.svg")));
}

TEST_F(PlotTest, NothingInALabelOrAPathIsRun) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const std::string bait = path("bait"), touch = "system(\"touch " + bait + "\")";
  const std::string folder =
      run("a'; `touch " + fs::path(bait).filename().string() + "` $(touch x) #", 1, 0.5);
  const std::vector<std::string> labels = {"'; " + touch + "; '", "`touch " + bait + "`", "@x \\",
                                           "a\n" + touch, "\"\n'"};
  for (const std::string& label : labels) {
    const Outcome outcome =
        run_lpmm({"plot", folder, "--label=" + label, "--svg", "--out", folder + "/p'; touch bait"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  EXPECT_TRUE(fs::exists(folder + "/p'; touch bait.svg"));
  EXPECT_FALSE(fs::exists(bait));
  EXPECT_FALSE(fs::exists("bait"));
}

// A label of bytes that are no text is shown as such, and never read before its beginning.
TEST_F(PlotTest, ALabelMayBeNoText) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const Outcome outcome =
      run_lpmm({"plot", run("a", 1, 0.5), "--label", std::string(100, '\x80'), "--svg", "--out", path("p")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string svg = read_file(path("p.svg"));
  EXPECT_EQ(std::count_if(svg.begin(), svg.end(), [](char c) { return (c & 0xC0) == 0x80; }), 0);
  EXPECT_NE(svg.find("x80"), std::string::npos);
}

// A gnuplot that writes half of what it should, as on a full disk, costs no picture that was there.
TEST_F(PlotTest, HalfAPictureReplacesNone) {
  fs::create_directory(path("bin"));
  write("bin/gnuplot", "#!/bin/sh\nprintf half > plot.png\n");
  fs::permissions(path("bin/gnuplot"), fs::perms::owner_all);
  write("p.png", "before");
  Surroundings with;
  with.environment["PATH"] = path("bin") + ":/bin:/usr/bin";
  expect_failure(run_lpmm({"plot", run("a", 1, 0.1), "--out", path("p")}, with), 1,
                 {"plot.png", "disk full"});
  EXPECT_EQ(read_file(path("p.png")), "before");
  EXPECT_FALSE(fs::exists(path("p.svg")));
}

TEST_F(PlotTest, MissingGnuplotIsSaid) {
  Surroundings without;
  without.environment["PATH"] = "/nonexistent";
  expect_failure(run_lpmm({"plot", run("a", 1, 0.1), "--out", path("p")}, without), 1,
                 {"gnuplot cannot be started", "gnuplot-nox"});
}

TEST_F(PlotTest, TableHasARunAColumn) {
  const Outcome outcome = run_lpmm(
      {"plot", run("a", 1.25, 0.1), run("b", 2, 0.9), "--label", "fp32", "--label", "a|b", "--table"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* line :
       {"|      fp32 |       a b |", "| bits per parameter    |     28.50 |     28.50 |",
        "| parameter, bytes      | 1,234,567 | 1,234,567 |", "| total, bytes          | 1,235,297 |",
        "| final training loss   |    1.2500 |    2.0000 |", "| test accuracy         |   80.00 % |",
        "| underflow, parameter  |   10.00 % |   90.00 % |", "| underflow, momentum   |    5.00 % |",
        "| peak memory, planned  |  21.0 MiB |", "| peak memory, measured |  20.0 MiB |"}) {
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << " in\n" << outcome.out;
  }
  EXPECT_EQ(outcome.out.find("variance"), std::string::npos);
  // --label takes one name, so runs may follow it.
  EXPECT_EQ(run_lpmm({"plot", "--label", "x", path("a"), "--label", "y", path("b"), "--table"}).code, 0);
  // A run that went on after its end has not ended.
  std::ofstream(path("a/log.jsonl"), std::ios::app) << "{\"type\":\"step\",\"step\":41,\"loss\":1}\n";
  expect_failure(run_lpmm({"plot", path("a"), "--table"}), 1, {"not ended"});
}

TEST_F(PlotTest, BadInputIsNamed) {
  expect_failure(run_lpmm({"plot", path("nowhere"), "--table"}), 1, {"nowhere"});
  expect_failure(run_lpmm({"plot", run("open", 1, 0, false), "--table"}), 1, {"open", "not ended"});
  fs::create_directory(path("stopped"));
  write("stopped/log.jsonl", "{\"type\":\"summary\",\"interrupted\":true,\"error\":\"disk full\"}\n");
  expect_failure(run_lpmm({"plot", path("stopped"), "--table"}), 1, {"stopped", "disk full", "--resume"});
  fs::create_directory(path("bad"));
  write("bad/log.jsonl", "{\"type\":\"step\",\"step\":1}\n[1, 2\n");
  expect_failure(run_lpmm({"plot", path("bad"), "--out", path("p")}), 1, {"log.jsonl:2"});
  write("bad/log.jsonl", "{\"type\":\"config\"}\n");
  expect_failure(run_lpmm({"plot", path("bad"), "--out", path("p")}), 1, {"nothing to plot"});
  expect_failure(run_lpmm({"plot", run("a", 1, 0), "--label", "x", "--label", "y", "--table"}), 2,
                 {"2 labels"});
  expect_failure(run_lpmm({"plot", path("a")}), 2, {"--out", "--table"});
}

// Values of another type than expected are left out, not trusted.
TEST_F(PlotTest, HostileValuesAreSkipped) {
  fs::create_directory(path("odd"));
  write("odd/log.jsonl",
        "{\"type\":\"step\",\"step\":1,\"loss\":\"1; "
        "system()\"}\n{\"type\":\"step\",\"step\":\"x\",\"loss\":1}\n"
        "{\"type\":\"step\",\"step\":2,\"loss\":null}\n{\"type\":\"underflow\",\"step\":2,\"roles\":[1]}\n"
        "{\"type\":\"underflow\",\"step\":2,\"roles\":{\"parameter\":3}}\n"
        "{\"type\":\"summary\",\"final_loss\":[],\"model_memory_bytes\":7}\n");
  expect_failure(run_lpmm({"plot", path("odd"), "--out", path("p")}), 1, {"nothing to plot"});
  EXPECT_EQ(run_lpmm({"plot", path("odd"), "--table"}).code, 0);
}

// ---- TensorBoard -----------------------------------------------------------------------------------------

struct EventScalar {
  double wall_time;
  std::uint64_t step;
  float value;
  bool operator==(const EventScalar&) const = default;
};

// Reads an event file as its two formats are published: records, then messages. Every checksum must hold.
std::map<std::string, std::vector<EventScalar>> read_events(const std::string& file) {
  std::map<std::string, std::vector<EventScalar>> out;
  const auto whole = [](std::string_view bytes) {
    std::uint64_t v = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) v = v << 8 | static_cast<unsigned char>(bytes[i]);
    return v;
  };
  const auto check = [&](std::string_view bytes, std::string_view crc) {
    const std::uint32_t c = crc32c(std::as_bytes(std::span(bytes)));
    EXPECT_EQ(static_cast<std::uint32_t>((c >> 15 | c << 17) + 0xA282EAD8U), whole(crc));
  };
  // Field number -> its value: a number, or bytes.
  const auto fields = [&](std::string_view message) {
    std::map<std::uint64_t, std::string> found;
    const auto varint = [&message] {
      std::uint64_t v = 0;
      for (int shift = 0; !message.empty(); shift += 7) {
        const auto byte = static_cast<unsigned char>(message[0]);
        message.remove_prefix(1);
        v |= std::uint64_t{byte & 0x7FU} << shift;
        if (byte < 0x80) break;
      }
      return v;
    };
    while (!message.empty()) {
      const std::uint64_t key = varint();
      std::uint64_t length = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint();
      if ((key & 7) == 0) {
        found[key >> 3] = std::string(reinterpret_cast<const char*>(&length), 8);
        continue;
      }
      found[key >> 3] = message.substr(0, length);
      message.remove_prefix(length);
    }
    return found;
  };
  const std::string bytes = read_file(file);
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::uint64_t length = whole(rest.substr(0, 8));
    check(rest.substr(0, 8), rest.substr(8, 4));
    check(rest.substr(12, length), rest.substr(12 + length, 4));
    auto event = fields(rest.substr(12, length));
    rest.remove_prefix(16 + length);
    if (event.contains(3)) {
      EXPECT_EQ(event[3], "brain.Event:2");
      continue;
    }
    auto value = fields(fields(event[5])[1]);
    out[value[1]].push_back({std::bit_cast<double>(whole(event[1])), whole(event[2]),
                             std::bit_cast<float>(static_cast<std::uint32_t>(whole(value[2])))});
  }
  return out;
}

TEST_F(PlotTest, EventFilesHoldEveryScalar) {
  const std::string log =
      write("log.jsonl",
            "{\"type\":\"system\",\"time\":\"2026-01-02T03:04:05Z\"}\n"
            "{\"type\":\"step\",\"step\":10,\"epoch\":0,\"loss\":1.5,\"seconds\":2.5}\n"
            "{\"type\":\"eval\",\"step\":300,\"loss\":1.25,\"accuracy\":0.5,\"seconds\":9}\n"
            "{\"type\":\"underflow\",\"step\":300,\"roles\":{\"parameter\":{\"share\":0.75,"
            "\"saturated\":0.25,\"relative_error\":0.5,\"update_to_step\":0.125}}}\n"
            "{\"type\":\"step\",\"step\":-1,\"loss\":1}\n{\"type\":\"step\",\"step\":11,\"loss\":\"x\"}\n");
  const Outcome outcome = run_lpmm(
      {"plot", log, "--label=../a \"b\"", "--tensorboard", path("events"), "--csv", path("s.csv"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_file(path("s.csv")),
            "run,tag,step,seconds,value\n"
            "\"../a \"\"b\"\"\",train/epoch,10,2.5,0\n"
            "\"../a \"\"b\"\"\",train/loss,10,2.5,1.5\n"
            "\"../a \"\"b\"\"\",test/loss,300,2.5,1.25\n"
            "\"../a \"\"b\"\"\",test/accuracy,300,2.5,0.5\n"
            "\"../a \"\"b\"\"\",underflow/parameter,300,2.5,0.75\n"
            "\"../a \"\"b\"\"\",saturated/parameter,300,2.5,0.25\n"
            "\"../a \"\"b\"\"\",relative_error/parameter,300,2.5,0.5\n"
            "\"../a \"\"b\"\"\",update_to_step/parameter,300,2.5,0.125\n");
  const std::string file = path("events/_._a__b_/events.out.tfevents.lpmm");
  EXPECT_EQ(outcome.json()["tensorboard"], nlohmann::json::array({file}));
  const auto events = read_events(file);
  const double start = 1767323045;  // the time of the system record
  using Scalars = std::vector<EventScalar>;
  EXPECT_EQ(events.size(), 8U);
  EXPECT_EQ(events.at("train/loss"), (Scalars{{start + 2.5, 10, 1.5F}}));
  EXPECT_EQ(events.at("train/epoch"), (Scalars{{start + 2.5, 10, 0.0F}}));
  EXPECT_EQ(events.at("test/loss"), (Scalars{{start + 2.5, 300, 1.25F}}));
  EXPECT_EQ(events.at("test/accuracy"), (Scalars{{start + 2.5, 300, 0.5F}}));
  EXPECT_EQ(events.at("underflow/parameter"), (Scalars{{start + 2.5, 300, 0.75F}}));
  EXPECT_EQ(events.at("relative_error/parameter"), (Scalars{{start + 2.5, 300, 0.5F}}));
  EXPECT_EQ(events.at("update_to_step/parameter"), (Scalars{{start + 2.5, 300, 0.125F}}));
  // Two runs of one name would be one curve.
  expect_failure(run_lpmm({"plot", log, log, "--label", "a:b", "--label", "a-b", "--tensorboard", path("e")}),
                 2, {"--label", "a-b"});
  EXPECT_FALSE(fs::exists(path("e")));
}

// ---- report ----------------------------------------------------------------------------------------------

// Every tag is closed, in order, and no attribute leads out of the page.
void expect_self_contained(const std::string& page) {
  static const std::set<std::string> kAlone = {"!DOCTYPE", "meta", "input"};
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = page.find('<', at)) != std::string::npos; ++at) {
    const std::size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" \n", 1));
    if (name[0] == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ(open.back(), name.substr(1));
      open.pop_back();
    } else if (!kAlone.contains(name) && !tag.ends_with('/')) {
      open.push_back(name);
    }
    for (const char* outside : {"src=", "href=", "url(", "@import"}) {
      EXPECT_EQ(tag.find(outside), std::string::npos) << tag;
    }
    if (name == "script") at = page.find("</script", at) - 1;  // arrows and comparisons are no tags
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(page.find("http:"), std::string::npos);
  EXPECT_EQ(page.find("https:"), std::string::npos);
}

std::size_t occurrences(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++n;
  return n;
}

TEST_F(PlotTest, ReportIsOnePageWithEverything) {
  const Outcome outcome = run_lpmm({"report", run("a", 1.25, 0.1), run("b", 2, 0.9, false), "--label",
                                    "first one", "--label", "b", "--out", path("r.html"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["runs"], 2);
  const std::string page = read_file(path("r.html"));
  expect_self_contained(page);
  for (const std::string& text :
       {std::string("first one"), std::string(">done<"), std::string("at step 40"), std::string("80.00 %"),
        std::string("1.2500"), std::string("21.0 MB"), std::string("training loss over steps"),
        "--label &#39;first one&#39; --label b --out " + path("r.html")}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  // Loss, accuracy and two roles' shares, a curve a run.
  EXPECT_EQ(occurrences(page, "<figure>"), 4U);
  EXPECT_EQ(occurrences(page, "<polyline"), 8U);
  EXPECT_EQ(page.find("underflow, variance"), std::string::npos);  // no run has one
}

TEST_F(PlotTest, ReportOfARealRunHasItsTensorsAndConfig) {
  train("real");
  ASSERT_EQ(run_lpmm({"report", path("real"), "--out", path("r.html")}).code, 0);
  const std::string page = read_file(path("r.html"));
  expect_self_contained(page);
  for (const std::string& text : {std::string("[optimizer]"), std::string("int8:block128:sr"),
                                  "lpmm train " + path("real/config.toml") + " --out runs/again_real"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(run_lpmm({"train", path("real/config.toml"), "--out", path("again"), "--quiet"}).code, 0);
}

// Sizes as people say them, the values of every point, and nothing about nothing.
TEST_F(PlotTest, ReportIsForPeople) {
  train("packed", {"--set", "log.every_steps=1"});
  train("whole", {"--preset", "fp32"});
  const Outcome outcome =
      run_lpmm({"report", path("packed"), path("whole"), run("lossless", 1, 0), "--out", path("r.html")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string page = read_file(path("r.html"));
  expect_self_contained(page);
  EXPECT_EQ(occurrences(page, "times smaller than in fp32</span>"), 1U);
  EXPECT_NE(page.find("data-steps=\"1 2 3 4 \" data-values=\""), std::string::npos);
  EXPECT_NE(page.find("more to the right"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  ASSERT_EQ(run_lpmm({"report", path("lossless"), "--out", path("one.html")}).code, 0);
  const std::string one = read_file(path("one.html"));
  EXPECT_EQ(one.find("increments lost"), std::string::npos);
  EXPECT_EQ(one.find("<button>variance</button>"), std::string::npos);
}

TEST_F(PlotTest, ReportTrustsNoNameAndNoValue) {
  using Json = nlohmann::json;
  const std::string bait = "</td><script>alert(1)</script>\x1b\xff\"'&";
  fs::create_directory(path("odd"));
  const auto record = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  write("odd/log.jsonl",
        record({{"type", "config"}, {"preset", bait}, {"seed", "x"}, {"toml", bait}}) +
            record({{"type", "system"}, {"cpu", bait}, {"computed_by", {1, 2}}, {"threads", bait}}) +
            record({{"type", "ledger"},
                    {"model_memory_bytes", {{"total", 1e300}, {"parameter", -5}, {"momentum", bait}}},
                    {"tensors", {3, {{"name", bait}, {"shape", bait}, {"specs", {{"parameter", bait}}}}}}}) +
            record({{"type", "step"}, {"step", 1e300}, {"loss", -1e300}}) +
            record({{"type", "step"}, {"step", -7}, {"loss", 1e300}}) +
            record({{"type", "underflow"}, {"step", 2}, {"roles", {1}}, {"tensors", 7}}) +
            record({{"type", "summary"}, {"final_loss", {}}, {"error", bait}, {"underflow", 1}}));
  const Outcome outcome =
      run_lpmm({"report", path("odd"), "--label=" + bait, "--out", path("it's <b>.html")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string page = read_file(path("it's <b>.html"));
  expect_self_contained(page);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)"), std::string::npos);
  // As a shell takes it: quoted, a quote inside outside of the quotes; then as HTML.
  EXPECT_NE(page.find("it&#39;\\&#39;&#39;s &lt;b&gt;.html&#39;</pre>"), std::string::npos);
  for (const char* word : {"nan", "inf,", ",inf", "inf\"", "e+"}) {
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  }
}

TEST_F(PlotTest, ReportDrawsFlatCurvesAndManyRuns) {
  const auto constant = [&](const std::string& name, double last) {
    fs::create_directory(path(name));
    std::ofstream log(path(name + "/log.jsonl"));
    log.precision(17);
    for (int step = 1; step <= 1563; ++step) {
      const double loss = step == 1563 ? last : 2.9683329301280468;
      log << "{\"type\":\"step\",\"step\":" << 1000 * step << ",\"loss\":" << loss << "}\n";
    }
    return path(name);
  };
  // Constant, and as good as: the means of a long curve differ in their last bits.
  std::vector<std::string> arguments = {"report", constant("flat", 2.9683329301280468),
                                        constant("almost", std::nextafter(2.9683329301280468, 3.0))};
  for (int i = 0; i < 8; ++i) arguments.push_back(run("r" + std::to_string(i), i, 0.1));
  arguments.insert(arguments.end(), {"--out", path("r.html")});
  const Outcome outcome = run_lpmm(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string page = read_file(path("r.html"));
  expect_self_contained(page);
  EXPECT_NE(page.find("at step 1,563,000"), std::string::npos);
  EXPECT_NE(page.find("stroke-dasharray=\"4 2\"/></svg>r6"), std::string::npos);  // the ninth run's key
  arguments.resize(2);
  arguments.insert(arguments.end(), {"--out", path("one.html")});
  ASSERT_EQ(run_lpmm(arguments).code, 0);
  const std::string one = read_file(path("one.html"));
  EXPECT_NE(one.find("<h1>one run</h1>"), std::string::npos);
  EXPECT_LT(occurrences(one, "<text"), 25U);
}

// Pages and tables are never written over or among a run's own files.
TEST_F(PlotTest, NoRunIsOverwritten) {
  const std::string log = run("kept", 1, 0) + "/log.jsonl", before = read_file(log);
  write("kept/config.toml", "[train]\n");
  fs::create_directories(path("kept/checkpoints/step_1"));
  write("kept/checkpoints/step_1/state.json", "{}");
  for (const char* file : {"log.jsonl", "config.toml", "checkpoints/step_1/state.json", "checkpoints/new"}) {
    const std::string out = path("kept/") + file;
    expect_failure(run_lpmm({"report", path("kept"), "--out", out}), 2, {file, "part of the run"});
    expect_failure(run_lpmm({"plot", log, "--csv", out}), 2, {file, "part of the run"});
  }
  EXPECT_EQ(read_file(log), before);
  EXPECT_EQ(run_lpmm({"plot", path("kept"), "--csv", path("kept/scalars.csv")}).code, 0);
}

TEST_F(PlotTest, RunsOfOneNameMakeNoTable) {
  fs::create_directories(path("x"));
  fs::create_directories(path("y"));
  const std::string a = run("x/run", 1, 0), b = run("y/run", 2, 0);
  expect_failure(run_lpmm({"plot", a, b, "--csv", path("s.csv")}), 2, {"two runs would be run", "--label"});
  EXPECT_EQ(run_lpmm({"plot", a, b, "--label", "p", "--label", "q", "--csv", path("s.csv")}).code, 0);
}

TEST_F(PlotTest, ReportNamesBadInput) {
  run("kept", 1, 0);
  expect_failure(run_lpmm({"report", path("kept"), "--out", ""}), 2, {"--out", "empty"});

  expect_failure(run_lpmm({"report", path("nowhere"), "--out", path("r.html")}), 1, {"nowhere"});
  expect_failure(run_lpmm({"report", run("a", 1, 0)}), 2, {"--out"});
  expect_failure(run_lpmm({"report", path("a"), "--out", path("no/r.html")}), 1, {"no/r.html"});
  expect_failure(run_lpmm({"report", path("a"), "--label", "x", "--label", "y", "--out", path("r.html")}), 2,
                 {"2 labels"});
  EXPECT_FALSE(fs::exists(path("r.html")));
}

}  // namespace
}  // namespace lpmm
