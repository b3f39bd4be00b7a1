// From a folder of photos to a trained model, and from that to labels of other photos.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "tests/experiments/drawn_png.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

class ClassifyImages : public ProgramTest {
 protected:
  // A noisy picture, whose class shows only on the average.
  std::string drawn(int label, int width, int height, int channels) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width * height * channels));
    std::uniform_int_distribution<int> noise(0, 215);
    for (std::uint8_t& p : pixels) p = static_cast<std::uint8_t>(20 * label + noise(random_) % 216);
    return png_bytes(width, height, channels, pixels);
  }
  // FOLDER/train/CLASS and FOLDER/test/CLASS, of classes whose order is not that of their pictures.
  void photos(const std::string& folder) {
    for (const auto& [part, count] : {std::pair{"train", 24}, std::pair{"test", 15}}) {
      for (int label = 0; label < 3; ++label) {
        for (int i = 0; i < count; ++i) {
          write(fmt::format("{}/{}/{}/{}.png", folder, part, kNames[label], i), drawn(label, 14, 11, 3));
        }
      }
    }
  }
  std::string tune() const {
    return write(
        "tune.toml",
        "[model]\nname = 'mlp'\nhidden = [4]\n[data]\nset = 'images'\naugment = false\n[train]\nsteps = "
        "120\nbatch = 24\ncompute = 'fp32'\n[optimizer]\nlearning_rate = 0.01\n");
  }
  Outcome lpmm(std::vector<std::string> arguments) const {
    return run_lpmm(arguments, {.environment = {{"LPMM_DATA", path("data")}}});
  }
  Outcome trained(const std::string& data, const std::string& out) const {
    const Outcome run = lpmm({"train", tune(), "--set", "data.path=" + data, "--out", path(out)});
    EXPECT_EQ(run.code, 0) << run.err;
    return run;
  }
  // The share of the pictures below `folder` whose label is the name of their folder.
  double accuracy(const std::string& run, const std::string& folder,
                  std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"classify", path(run), folder, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome out = lpmm(arguments);
    EXPECT_EQ(out.code, 0) << out.err;
    const json answers = out.json()["answers"];
    double right = 0;
    for (const json& answer : answers) {
      if (fs::path(answer["file"].get<std::string>()).parent_path().filename().string() ==
          answer["label"].get<std::string>())
        ++right;
    }
    return right / static_cast<double>(answers.size());
  }
  double evaluated(const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"eval", path(run), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome out = lpmm(arguments);
    EXPECT_EQ(out.code, 0) << out.err;
    return out.json()["test_accuracy"];
  }
  static constexpr const char* kNames[] = {"owl", "cat", "dog"};
  std::mt19937 random_{7};
};

TEST_F(ClassifyImages, AgreesWithEvalOnTheFolderThatWasTrainedOn) {
  photos("photos");
  write("photos/test/cat/Thumbs.db", "text");
  const Outcome run = trained(path("photos"), "run");
  EXPECT_NE(run.err.find("72 pictures of 3 classes and 45 to test on"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("1 files are no pictures"), std::string::npos) << run.err;
  const double eval = evaluated("run");
  EXPECT_GT(eval, 0.35);
  EXPECT_LT(eval, 1);
  EXPECT_EQ(accuracy("run", path("photos/test")), eval);
  EXPECT_EQ(evaluated("run", {"--data", path("photos")}), eval);
  // The same files are packed once, others anew.
  const auto packed = [&] { return std::distance(fs::directory_iterator(path("data/packed")), {}); };
  EXPECT_EQ(packed(), 1);
  EXPECT_NE(trained(path("photos"), "again").err.find("packed before"), std::string::npos);
  const std::string setting = "data.path=" + path("photos");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"bench", "train", tune(), "--set", setting, "--steps", "2", "--warm-up",
                                 "1"},
        {"advise", tune(), "--preset", "lpmm", "--set", setting, "--steps", "4"},
        {"sweep", "--config", tune(), "--presets", "fp32,lpmm", "--set", setting, "--set", "train.steps=2",
         "--out", path("sweep")}}) {
    const Outcome out = lpmm(command);
    EXPECT_EQ(out.code, 0) << out.err;
    EXPECT_NE(out.err.find("packed before"), std::string::npos) << out.err;
  }
  EXPECT_EQ(packed(), 1);
  write("photos/train/cat/more.png", drawn(1, 14, 11, 3));
  trained(path("photos"), "other");
  EXPECT_EQ(packed(), 2);
  // A run that starts from another one has its pictures' size, and so does one that goes on.
  const Outcome small = lpmm({"data", "pack-images", path("photos"), path("small.images"), "--size", "8",
                              "--scale-to", "10", "--orient", "as-stored"});
  ASSERT_EQ(small.code, 0) << small.err;
  trained(path("small.images"), "small");
  const json said = json::parse(read_file(path("small/model_files/preprocessor_config.json")));
  EXPECT_EQ(said["size"], json::parse(R"({"shortest_edge": 10})"));
  EXPECT_EQ(said["crop_size"], json::parse(R"({"height": 8, "width": 8})"));
  EXPECT_EQ(accuracy("small", path("photos/test")), evaluated("small"));
  const Outcome tuned = lpmm({"train", tune(), "--init", path("small"), "--set",
                              "data.path=" + path("photos"), "--out", path("tuned")});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.err.find("shorter side scaled to 10, 8 x 8"), std::string::npos) << tuned.err;
  EXPECT_EQ(accuracy("tuned", path("photos/test")), evaluated("tuned"));
}

TEST_F(ClassifyImages, ARunPacksItsPicturesAgainWhereThePackedFileIsGone) {
  photos("photos");
  trained(path("photos"), "run");
  const double eval = evaluated("run");
  const auto without_packed = [&](const std::vector<std::string>& arguments) {
    fs::remove_all(path("data/packed"));
    return lpmm(arguments);
  };
  const std::vector<std::string> evaluate = {"eval", path("run"), "--json"};
  const Outcome again = without_packed(evaluate);
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["test_accuracy"], eval);
  EXPECT_EQ(again.err.find("have changed"), std::string::npos) << again.err;
  const auto go_on = [&](int steps) {
    return std::vector<std::string>{"train",    "--out", path("run"),
                                    "--resume", "--set", fmt::format("train.steps={}", steps)};
  };
  for (const int steps : {121, 122}) {  // the second time from a checkpoint of a run that went on
    const Outcome longer = without_packed(go_on(steps));
    EXPECT_EQ(longer.code, 0) << longer.err;
  }
  fs::last_write_time(path("photos/train/cat/0.png"), fs::file_time_type::clock::now());
  const Outcome touched = without_packed(go_on(123)), known = lpmm(go_on(124));
  EXPECT_EQ(touched.code + known.code, 0) << touched.err << known.err;
  EXPECT_EQ(touched.err.find("have changed"), std::string::npos) << touched.err;
  EXPECT_EQ(known.err.find("packed"), std::string::npos) << known.err;
  write("photos/train/cat/more.png", drawn(1, 14, 11, 3));
  const Outcome other = without_packed(evaluate);
  EXPECT_NE(other.err.find("photos: names, sizes or times of its pictures have changed"), std::string::npos)
      << other.err;
  expect_failure(without_packed(go_on(125)), 2, {"its pictures have changed", "holds another run"});
  fs::rename(path("photos"), path("moved"));
  expect_failure(without_packed(evaluate), 1, {".images: is not there, and neither is " + path("photos")});
}

TEST_F(ClassifyImages, PicturesThatDoNotDecodeAreLeftOutWhereThatIsAskedFor) {
  photos("photos");
  write("photos/train/cat/cut.png", drawn(1, 14, 11, 3).substr(0, 60));
  const std::vector<std::string> train = {"train", tune(),     "--set", "data.path=" + path("photos"),
                                          "--out", path("run")};
  const Outcome refused = lpmm(train);
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("remove them, or data.skip_broken = true"), std::string::npos) << refused.err;
  std::vector<std::string> skipping = train;
  skipping.insert(skipping.end(), {"--set", "data.skip_broken=true"});
  const Outcome run = lpmm(skipping);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("1 pictures do not decode and were left out"), std::string::npos) << run.err;
}

TEST_F(ClassifyImages, OfGreyPicturesAgreesToo) {
  const auto number = [](std::uint32_t x) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(x >> shift);
    return bytes;
  };
  for (const auto& [part, count] : {std::pair{"train", 60U}, std::pair{"t10k", 30U}}) {
    std::string images = number(0x803) + number(count) + number(6) + number(6);
    std::string labels = number(0x801) + number(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uniform_int_distribution<int> noise(0, 215);
      std::vector<std::uint8_t> pixels(36);
      for (std::uint8_t& p : pixels)
        p = static_cast<std::uint8_t>(20 * (i % 3) + static_cast<unsigned>(noise(random_)));
      images.append(reinterpret_cast<const char*>(pixels.data()), pixels.size());
      labels += static_cast<char>(i % 3);
      if (count == 30) write(fmt::format("shown/{}/{}.png", i % 3, i), png_bytes(6, 6, 1, pixels));
    }
    write(fmt::format("grey/{}-images-idx3-ubyte", part), images);
    write(fmt::format("grey/{}-labels-idx1-ubyte", part), labels);
  }
  trained(path("grey"), "run");
  EXPECT_EQ(accuracy("run", path("shown")), evaluated("run"));
}

TEST_F(ClassifyImages, TellsTheMostProbableOfEach) {
  photos("photos");
  trained(path("photos"), "run");
  const std::string one = path("photos/test/cat/1.png"), two = path("photos/test/dog/1.png");
  const Outcome all = lpmm({"classify", path("run"), one, two});
  ASSERT_EQ(all.code, 0) << all.err;
  std::vector<std::string> lines;
  for (std::size_t at = 0, end = 0; (end = all.out.find('\n', at)) != std::string::npos; at = end + 1) {
    lines.push_back(all.out.substr(at, end - at));
  }
  ASSERT_EQ(lines.size(), 6U);  // there are three classes
  EXPECT_TRUE(lines[0].starts_with(one + "\t")) << lines[0];
  EXPECT_TRUE(lines[3].starts_with(two + "\t")) << lines[3];
  const Outcome top = lpmm({"classify", path("run"), one, two, "--top", "1"});
  EXPECT_EQ(top.out, lines[0] + "\n" + lines[3] + "\n");
  const json answer = lpmm({"classify", path("run"), one, "--json", "--top", "2"}).json()["answers"][0];
  EXPECT_EQ(answer["top"].size(), 2U);
  EXPECT_EQ(answer["top"][0]["label"], answer["label"]);
  EXPECT_GE(answer["top"][0]["probability"], answer["top"][1]["probability"]);
  // A file that is no picture is named and left out; if a user named it, that is a failure.
  const std::string text = write("photos/test/cat/notes.txt", "text"),
                    webp = write("a.webp", std::string("RIFF\1\0\0\0WEBP", 12)),
                    cut = write("cut.png", read_file(one).substr(0, 90));
  const Outcome some = lpmm({"classify", path("run"), path("photos/test/cat"), "--top", "1"});
  EXPECT_EQ(some.code, 0) << some.err;
  EXPECT_NE(some.err.find("1 files are no pictures and were left out, the first is " + text),
            std::string::npos)
      << some.err;
  const Outcome named = lpmm({"classify", path("run"), one, text, webp, cut, path("none.png"), "--json"});
  EXPECT_EQ(named.code, 1);
  EXPECT_EQ(named.json()["answers"].size(), 1U);
  EXPECT_EQ(named.json()["left_out"].size(), 4U);
  EXPECT_NE(named.err.find(webp + ": is a WebP picture"), std::string::npos) << named.err;
  EXPECT_NE(named.err.find(cut + ": is no PNG that can be read"), std::string::npos) << named.err;
  expect_failure(lpmm({"classify", path("run")}), 2, {"reads images: name pictures"});
  expect_failure(lpmm({"classify", path("run"), one, "--file", text}), 2,
                 {"--file is for models of sentences"});
  fs::create_directory(path("empty"));
  expect_failure(lpmm({"classify", path("run"), path("empty")}), 1, {"holds no pictures"});
  expect_failure(lpmm({"train", config(), "--set", "data.path=" + path("photos"), "--out", path("x")}), 2,
                 {"data.path = " + path("photos") + " is for data.set = images"});
}

TEST_F(ClassifyImages, OfAnImportKeepsItsLabelsAndSquares) {
  const std::string golden = LPMM_SOURCE_DIR "/tests/golden/";
  fs::create_directories(path("pub"));
  fs::copy(golden + "resnet_basic.safetensors", path("pub/model.safetensors"));
  const std::string picture = golden + "pictures/turned_6.jpg";
  const auto imported = [&](const char* out) {
    const Outcome in = lpmm({"import", path("pub"), "--out", path(out), "--preset", "fp32"});
    EXPECT_EQ(in.code, 0) << in.err;
    const Outcome told = lpmm({"classify", path(out), picture, "--json"});
    EXPECT_EQ(told.code, 0) << told.err;
    return told;
  };
  const Outcome usual = imported("usual");
  EXPECT_NE(usual.err.find("scaled to 256 and 224 x 224"), std::string::npos) << usual.err;
  EXPECT_EQ(usual.json()["answers"][0]["top"].size(), 5U);
  write(
      "pub/config.json",
      R"({"architecture": "resnet10t", "num_classes": 5, "label_names": ["tench", "ray", "cock", "hen", "jay"],
"pretrained_cfg": {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "input_size": [3, 16, 16], "crop_pct": 0.5}})");
  // Training on a folder takes the same.
  photos("photos");
  const auto packed_as = [&](const char* run) {
    return lpmm({"train", "--init", path(run), "--set", "data.path=" + path("photos"), "--set",
                 "train.steps=1", "--set", "train.batch=3", "--out", path(run) + "_tuned"})
        .err;
  };
  const Outcome said = imported("said");
  EXPECT_NE(packed_as("said").find("shorter side scaled to 32, 16 x 16"), std::string::npos);
  EXPECT_EQ(accuracy("said_tuned", path("photos/test")), evaluated("said_tuned"));
  EXPECT_EQ(said.err, "");
  EXPECT_GT(said.json()["answers"][0]["top"][4]["label"].get<std::string>().size(), 2U);
  // A run on other squares says so in its export.
  ASSERT_EQ(
      lpmm({"data", "pack-images", path("photos"), path("small.images"), "--size", "8", "--scale-to", "10"})
          .code,
      0);
  const Outcome small = lpmm({"train", "--init", path("said"), "--set", "data.path=" + path("small.images"),
                              "--set", "train.steps=1", "--out", path("small")});
  ASSERT_EQ(small.code, 0) << small.err;
  ASSERT_EQ(lpmm({"export", path("small"), "--hf", "--out", path("small_out")}).code, 0);
  const json cfg = json::parse(read_file(path("small_out/config.json")))["pretrained_cfg"];
  EXPECT_EQ(cfg["input_size"], json({3, 8, 8}));
  EXPECT_EQ(cfg["crop_pct"], 0.8);
  EXPECT_EQ(cfg["interpolation"], "bilinear");
  EXPECT_EQ(cfg["crop_mode"], "center");
  EXPECT_EQ(cfg["mean"], json({0.1, 0.2, 0.3}));
  const auto probability = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"classify", path("said"), picture, "--json", "--top", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return lpmm(arguments).json()["answers"][0]["probability"].get<double>();
  };
  EXPECT_EQ(probability({"--size", "16", "--scale-to", "32", "--orient", "exif"}), probability({}));
  EXPECT_NE(probability({"--scale-to", "20"}), probability({}));
  EXPECT_NE(probability({"--orient", "as-stored"}), probability({}));
  write("pub/config.json",
        R"({"architecture": "resnet10t", "num_classes": 5, "pretrained_cfg": {"input_size": [3, 16, 20]}})");
  ASSERT_EQ(lpmm({"import", path("pub"), "--out", path("wide")}).code, 0);
  expect_failure(lpmm({"classify", path("wide"), picture}), 1, {"input_size is [3,16,20]", "a square"});
}

// transformers squashes pictures to height and width: so do training, evaluation and what is exported.
TEST_F(ClassifyImages, SquashedPicturesStaySquashed) {
  const std::string golden = LPMM_SOURCE_DIR "/tests/golden/vit_transformers_tiny/";
  fs::create_directories(path("pub"));
  for (const char* name : {"model.safetensors", "config.json"}) fs::copy(golden + name, path("pub"));
  const std::string said = R"({"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4], "resample": 2,
"image_processor_type": "ViTImageProcessor", "size": {"height": 16, "width": 16}})";
  write("pub/preprocessor_config.json", said);
  ASSERT_EQ(lpmm({"import", path("pub"), "--out", path("said"), "--preset", "fp32"}).code, 0);
  photos("photos");
  const Outcome tuned = lpmm({"train", "--init", path("said"), "--set", "data.path=" + path("photos"),
                              "--set", "train.steps=1", "--set", "train.batch=3", "--out", path("tuned")});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.err.find("the whole scaled to 16 x 16"), std::string::npos) << tuned.err;
  EXPECT_EQ(accuracy("tuned", path("photos/test")), evaluated("tuned"));
  ASSERT_EQ(lpmm({"export", path("tuned"), "--hf", "--out", path("out")}).code, 0);
  EXPECT_EQ(read_file(path("out/preprocessor_config.json")), said);
  // One that was cut says so, by a class of transformers that cuts.
  ASSERT_EQ(
      lpmm({"data", "pack-images", path("photos"), path("cut.images"), "--size", "16", "--scale-to", "20"})
          .code,
      0);
  const Outcome cut = lpmm({"train", "--init", path("said"), "--set", "data.path=" + path("cut.images"),
                            "--set", "train.steps=1", "--set", "train.batch=3", "--out", path("cut")});
  ASSERT_EQ(cut.code, 0) << cut.err;
  const json now = json::parse(read_file(path("cut/model_files/preprocessor_config.json")));
  EXPECT_EQ(now["size"], json({{"shortest_edge", 20}}));
  EXPECT_EQ(now["image_processor_type"], "CLIPImageProcessor");
  EXPECT_EQ(accuracy("cut", path("photos/test")), evaluated("cut"));
}

TEST_F(ClassifyImages, ModelsOfOtherThingsAreRefused) {
  const Outcome in =
      run_lpmm({"import", LPMM_SOURCE_DIR "/tests/golden/roberta_tiny", "--out", path("roberta")});
  ASSERT_EQ(in.code, 0) << in.err;
  expect_failure(lpmm({"classify", path("roberta"), "photo.jpg"}), 2,
                 {"reads sentences", "FILES", "are for models of images"});
}

}  // namespace
}  // namespace lpmm
