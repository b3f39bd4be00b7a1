// `lpmm classify`: what a trained model tells of pictures, or of sentences.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/image_model.h"
#include "experiments/commands/runs/loaded_model.h"
#include "experiments/commands/runs/sentence_model.h"
#include "experiments/pack/picture_list.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/sentences/own_words.h"
#include "lpmm/program/family.h"
#include "lpmm/run/checkpoint.h"
#include "models/families.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;

constexpr int kUsualTop = 5;

struct ClassifyArguments {
  SentenceArguments sentences;  // --threads, --compute and --json are for pictures too
  std::vector<std::string> files;
  int top = 0;         // 0: kUsualTop
  std::string orient;  // empty: as the run's pictures
  PictureFrame frame;  // 0: as the run's
};

std::size_t place_of_largest(std::span<const float> told) {
  return static_cast<std::size_t>(std::ranges::max_element(told) - told.begin());
}

// ---- sentences -------------------------------------------------------------------------------------------
// Answers of one kind each, printed or as JSON.
void answer_number(std::span<const float> told, bool is_json, ordered_json& answers) {
  if (is_json) answers.push_back(told[0]);
  if (!is_json) fmt::print("{:.4f}\n", told[0]);
}

void answer_class(std::span<const float> told, const std::vector<std::string>& names, bool is_json,
                  ordered_json& answers) {
  const std::vector<double> probabilities = probabilities_of(told);
  const std::size_t best = place_of_largest(told);
  if (is_json) {
    answers.push_back(
        {{"label", names[best]}, {"probability", probabilities[best]}, {"probabilities", probabilities}});
  } else {
    fmt::print("{}\t{:.4f}\n", printable(names[best]), probabilities[best]);
  }
}

// An empty line keeps its place among the answers.
void answer_nothing(bool is_json, ordered_json& answers) {
  if (is_json) {
    answers.push_back(nullptr);
  } else {
    fmt::print("-\n");
  }
}

// All classes that are more probable than not.
void answer_classes(std::span<const float> told, const std::vector<std::string>& names, bool is_json,
                    ordered_json& answers) {
  std::vector<double> probabilities;
  std::vector<std::string> labels;
  std::string line;
  for (std::size_t c = 0; c < names.size(); ++c) {
    probabilities.push_back(1 / (1 + std::exp(-double{told[c]})));
    if (told[c] <= 0) continue;
    labels.push_back(names[c]);
    line += fmt::format("{}{}\t{:.4f}", line.empty() ? "" : "\t", printable(names[c]), probabilities[c]);
  }
  if (is_json) answers.push_back({{"labels", labels}, {"probabilities", probabilities}});
  if (!is_json) fmt::print("{}\n", line.empty() ? "-" : line);
}

// A line per word, with its label, and an empty one behind a sentence. A word that was cut has none.
void answer_words(SentenceModel& model, std::vector<SentenceExample> lines, bool is_json,
                  ordered_json& answers) {
  std::vector<std::vector<std::string>> words;
  for (SentenceExample& line : lines) {
    if (!line.second.empty()) throw UsageError("this model tells labels of words: a line is one sentence");
    line.words = split_at_spaces(line.first);
    words.push_back(line.words);
  }
  std::erase_if(lines, [](const SentenceExample& line) { return line.words.empty(); });
  const std::vector<SentenceModel::WordOutputs> told = model.word_outputs(std::move(lines));
  for (std::size_t i = 0, next = 0; i < words.size(); ++i) {
    ordered_json labels = ordered_json::array(), probabilities = ordered_json::array();
    for (std::size_t w = 0; w < words[i].size(); ++w) {
      const std::vector<float>& of_word = told[next][w];
      const std::size_t best = of_word.empty() ? 0 : place_of_largest(of_word);
      const std::string label = of_word.empty() ? "-" : model.class_names()[best];
      if (!is_json) fmt::print("{}\t{}\n", printable(words[i][w]), printable(label));
      labels.push_back(of_word.empty() ? ordered_json() : ordered_json(label));
      probabilities.push_back(of_word.empty() ? ordered_json()
                                              : ordered_json(probabilities_of(of_word)[best]));
    }
    if (!words[i].empty()) ++next;
    if (!is_json) fmt::print("\n");
    if (is_json) {
      answers.push_back({{"words", words[i]}, {"labels", labels}, {"probabilities", probabilities}});
    }
  }
}

int classify_sentences(const SentenceArguments& o) {
  SentenceModel model(o.path, o.threads, o.compute, false);
  ordered_json answers = ordered_json::array();
  const auto width = static_cast<std::size_t>(model.classes());
  const Tells tells = model.tells();
  for_each_line(o.file, false, [&](std::vector<SentenceExample> lines, bool are_pairs) {
    if (tells == Tells::kWords) return answer_words(model, std::move(lines), o.json, answers);
    std::vector<bool> is_read;
    std::vector<SentenceExample> read;
    for (SentenceExample& line : lines) {
      is_read.push_back(model.reads(line));
      if (is_read.back()) read.push_back(std::move(line));
    }
    const std::vector<float> outputs = model.outputs(std::move(read), are_pairs);
    std::size_t next = 0;
    for (const bool has_answer : is_read) {
      if (!has_answer) {
        answer_nothing(o.json, answers);
        continue;
      }
      const auto told = std::span(outputs).subspan(next++ * width, width);
      if (tells == Tells::kNumber) answer_number(told, o.json, answers);
      if (tells == Tells::kClass) answer_class(told, model.class_names(), o.json, answers);
      if (tells == Tells::kClasses) answer_classes(told, model.class_names(), o.json, answers);
    }
    flush_output();
  });
  if (!o.json) return kDone;
  ordered_json answer = {{"checkpoint", model.checkpoint()}};
  if (width > 1) answer["labels"] = model.class_names();
  answer["answers"] = answers;
  print_answer(answer, true);
  return kDone;
}

// ---- pictures --------------------------------------------------------------------------------------------
// The most probable classes of one picture, as JSON or printed.
class Answers {
 public:
  Answers(const std::vector<std::string>& names, int top, bool is_json)
      : names_(names),
        top_(std::min<std::size_t>(names.size(), static_cast<std::size_t>(top))),
        is_json_(is_json) {}
  void add(const std::string& file, std::span<const double> probabilities) {
    std::vector<std::size_t> order(names_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(top_), std::greater<>(),
                              [&](std::size_t i) { return std::pair(probabilities[i], names_.size() - i); });
    ordered_json all = ordered_json::array();
    for (const std::size_t i : std::span(order).first(top_)) {
      if (is_json_) all.push_back({{"label", names_[i]}, {"probability", probabilities[i]}});
      if (!is_json_) fmt::print("{}\t{}\t{:.4f}\n", printable(file), printable(names_[i]), probabilities[i]);
    }
    if (!is_json_) return;
    json_.push_back({{"file", file},
                     {"label", names_[order[0]]},
                     {"probability", probabilities[order[0]]},
                     {"top", std::move(all)}});
  }
  const ordered_json& json() const { return json_; }

 private:
  const std::vector<std::string>& names_;
  std::size_t top_;
  bool is_json_;
  ordered_json json_ = ordered_json::array();
};

std::vector<std::string> pictures_of(const std::vector<std::string>& files, Progress& progress) {
  std::vector<std::string> paths;
  LeftOut none;
  for (const std::string& file : files) {
    const std::vector<std::string> some = pictures_below(file, none);
    paths.insert(paths.end(), some.begin(), some.end());
  }
  if (none.count > 0) {
    progress.warn(
        fmt::format("{} files are no pictures and were left out, the first is {}", none.count, none.first));
  }
  if (paths.empty()) throw RunError(fmt::format("{}: holds no pictures", files.front()));
  return paths;
}

// Adds the answers for those that decode, and returns why the others do not.
std::vector<std::string> classify_some(ImageModel& model, std::span<const std::string> paths,
                                       const PictureFrame& frame, Answers& answers) {
  std::vector<FramedPicture> pictures = framed_pictures(paths, frame, model.pool());
  std::vector<std::string> good, errors;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string& error = pictures[i].error;
    error.empty() ? good.push_back(paths[i]) : errors.push_back(error);
  }
  std::erase_if(pictures, [](const FramedPicture& picture) { return !picture.error.empty(); });
  const std::vector<double> probabilities = model.probabilities(pictures);
  const std::size_t width = model.class_names().size();
  for (std::size_t i = 0; i < good.size(); ++i) {
    answers.add(good[i], std::span(probabilities).subspan(i * width, width));
  }
  return errors;
}

int classify_pictures(const ClassifyArguments& o, const std::string& checkpoint) {
  const SentenceArguments& common = o.sentences;
  if (!common.file.empty()) {
    throw UsageError(fmt::format("--file is for models of sentences; name pictures behind {}", common.path));
  }
  if (o.files.empty()) {
    throw UsageError(
        fmt::format("{}: reads images: name pictures, or folders of them, behind it", common.path));
  }
  // Lines of answers and a line that is redrawn do not go together on one terminal.
  Progress progress(common.json || ::isatty(STDOUT_FILENO) == 1);
  const InterruptGuard guard;
  const std::vector<std::string> paths = pictures_of(o.files, progress);
  ImageModel model(checkpoint, common.threads, common.compute, o.frame);
  PictureFrame frame = model.frame();
  if (!o.orient.empty()) frame.as_stored = o.orient == kOrientStored;
  Answers answers(model.class_names(), o.top == 0 ? kUsualTop : o.top, common.json);
  ordered_json left_out = ordered_json::array();
  const ProgressCall tell_progress = pictures_per_second(progress, "classifying");
  const auto begin = std::chrono::steady_clock::now();
  const auto all = std::ssize(paths);
  for (std::int64_t first = 0; first < all; first += kPicturesAtOnce) {
    InterruptGuard::check();
    const auto count = static_cast<std::size_t>(std::min(kPicturesAtOnce, all - first));
    const auto some = std::span(paths).subspan(static_cast<std::size_t>(first), count);
    for (const std::string& error : classify_some(model, some, frame, answers)) {
      left_out.push_back(error);
      progress.warn("left out: " + error);
    }
    flush_output();
    tell_progress(first + static_cast<std::int64_t>(count), all);
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  const double rate = static_cast<double>(all) / time.count();
  if (common.json) {
    print_answer({{"checkpoint", checkpoint},
                  {"answers", answers.json()},
                  {"left_out", left_out},
                  {"images_per_second", rate}},
                 true);
  } else if (all > kPicturesAtOnce) {
    tell(fmt::format("{} pictures in {}, {:.0f} per second\n", all, format_time(time.count()), rate));
  }
  return left_out.empty() ? kDone : kRunFailed;
}

int run_classify(const ClassifyArguments& o) {
  const std::string checkpoint = find_checkpoint(o.sentences.path);
  const RunConfig config = load_config(config_beside(checkpoint), with_families());
  if (&task_of(config.model) == &kImageTask) return classify_pictures(o, checkpoint);
  const bool is_for_pictures =
      !o.files.empty() || o.top > 0 || !o.orient.empty() || o.frame.side > 0 || o.frame.scale_to > 0;
  if (is_for_pictures) {
    throw UsageError(fmt::format(
        "{}: is a {}, which reads {}; FILES, --top, --orient, --size and --scale-to are for models of "
        "images (sentences come from standard input or --file)",
        checkpoint, config.model.name, task_of(config.model).reads));
  }
  return classify_sentences(o.sentences);
}

}  // namespace

void add_classify_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<ClassifyArguments>();
  CLI::App* command = program.add_subcommand(
      "classify", "Tell the class of pictures, of sentences or pairs, or the number, by a trained model");
  add_sentence_arguments(*command, o->sentences);
  command->add_option("FILES", o->files, "pictures, JPEGs or PNGs, or folders of them, for models of images");
  command
      ->add_option("--top", o->top, "pictures: so many classes of each, the most probable first (default: 5)")
      ->check(CLI::Range(1, kMostImageClasses).description(""))
      ->type_name("K");
  command
      ->add_option(
          "--orient", o->orient,
          "exif or as-stored: whether pictures that a camera stored turned are turned (default: as the "
          "run's were)")
      ->check(CLI::IsMember({kOrientExif, kOrientStored}).description(""));
  command
      ->add_option("--size", o->frame.side, "pixels of a side that the model reads (default: as the run's)")
      ->check(CLI::Range(1, kMostImageSide).description(""));
  command
      ->add_option(
          "--scale-to", o->frame.scale_to,
          "what the shorter side of a picture is scaled to before the middle is cut out (default: as "
          "the run's)")
      ->check(CLI::Range(1, kMostImageSide).description(""));
  command->add_flag("--json", o->sentences.json,
                    "print one JSON object: checkpoint, answers, of pictures (file, label, probability, top) "
                    "and left_out, of "
                    "sentences (label, probability, probabilities; labels of several; words, labels, "
                    "probabilities; or the number) and labels");
  command->footer(
      R"(Pictures: prints of each its file, a label, and how probable the model finds it, with tabs between; a
line for each of the K labels. They are scaled, cut out and normalised as in the run's training and in
`lpmm eval`. Files that are no pictures are left out; one that was named, or is damaged, is named and
makes the exit code 1.
Sentences: reads one a line, or two with a tab between, and prints the label, a tab, and how probable
it is; a model that tells a number prints that, one that tells several labels all that are more
probable than not (- where none is), one that tells labels of words each word with its label, and an
empty line between sentences. Labels have the names that the data gave them. An empty line that the
model has no token for gets a -, with --json a null.
Examples:
  lpmm classify runs/flowers photo.jpg more_photos/ --top 1
  echo "a gripping, funny film" | lpmm classify runs/sst2)");
  on_selected(*command, action, o, run_classify);
}

}  // namespace lpmm
