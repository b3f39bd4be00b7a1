// Whole trainings on the emulated GPU, whose every packed kernel is held against the CPU's: same bytes from
// the same bytes and gradients. The rest, sums in another order, is held to the CPU's losses.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/emulated.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/packed_vector.h"
#include "lpmm/memory/policy.h"
#include "lpmm/program/family.h"
#include "lpmm/run/config.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/train_step.h"
#include "lpmm/run/trainer.h"
#include "models/families.h"
#include "tests/lpmm/scratch.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

constexpr const char* kImages = R"(
  [data]
  set = "drawn"
  train_images = 64
  test_images = 16
  [train]
  steps = 3
  batch = 16
  microbatches = 2
)";
constexpr const char* kText = R"(
  [data]
  set = "text"
  path = "{}"
  tokenizer = "bytes"
  validation_share = 0.2
  [train]
  steps = 3
  batch = 4
  microbatches = 2
)";
constexpr const char* kPairs = R"(
  [data]
  set = "pairs"
  path = "{}"
  tokenizer = "bytes"
  [train]
  steps = 3
  batch = 6
  microbatches = 2
)";
constexpr const char* kAdamW = "[optimizer]\nrule = \"adamw\"\nlearning_rate = 0.01\nclip_norm = 1.0\n";
constexpr const char* kMuon = "[optimizer]\nrule = \"muon\"\nlearning_rate = 0.01\n";
constexpr const char* kSgd = "[optimizer]\nrule = \"sgd\"\nmomentum = 0.9\nlearning_rate = 0.05\n";

// A role of a tensor as it was before a kernel, in memory of the CPU.
class Before {
 public:
  Before(Device& device, CpuDevice& cpu, const kernels::RoleView& role)
      : device_(device), there_(role), view_(role) {
    if (role.codes == nullptr) return;
    codes_ = cpu.allocate(codes());
    steps_ = cpu.allocate(steps() + 1);
    view_.codes = reinterpret_cast<std::uint8_t*>(codes_.get());
    view_.steps = reinterpret_cast<std::uint16_t*>(steps_.get());
    device.download(codes_.get(), role.codes, codes());
    device.download(steps_.get(), role.steps, steps());
  }
  const kernels::RoleView& view() const { return view_; }
  // True if the device's result equals the CPU's.
  bool is_same() const {
    if (view_.codes == nullptr) return true;
    std::vector<std::byte> codes_now(static_cast<std::size_t>(codes())),
        steps_now(static_cast<std::size_t>(steps()));
    device_.download(codes_now.data(), there_.codes, codes());
    device_.download(steps_now.data(), there_.steps, steps());
    return std::equal(codes_now.begin(), codes_now.end(), codes_.get()) &&
           std::equal(steps_now.begin(), steps_now.end(), steps_.get());
  }

 private:
  std::int64_t codes() const { return code_bytes(view_.codec.format, view_.elements); }
  std::int64_t steps() const { return step_bytes(view_.codec, view_.elements); }
  Device& device_;
  kernels::RoleView there_, view_;
  DeviceMemory codes_, steps_;
};

// A fold that the CPU has made of what there was before.
class FoldOfCpu {
 public:
  FoldOfCpu(Device& device, CpuDevice& cpu, const kernels::Fold& f)
      : before_(device, cpu, f.accumulator), found_(f.result) {
    std::vector<std::byte> values(static_cast<std::size_t>(f.gradient.bytes()));
    device.download(values.data(), f.gradient.data, f.gradient.bytes());
    kernels::Fold there = f;
    there.accumulator = before_.view();
    there.gradient.data = values.data();
    there.args.stats = nullptr;
    there.result = &wanted_;
    cpu.fold({&there, 1});
  }
  void expect_same() const {
    EXPECT_TRUE(before_.is_same());
    EXPECT_EQ(found_->finite, wanted_.finite);
    EXPECT_EQ(found_->square_sum, wanted_.square_sum);
  }

 private:
  Before before_;
  const kernels::FoldResult* found_;
  kernels::FoldResult wanted_;
};

// The emulated device, each of whose changes of packed memory is made by the CPU as well.
class Checked final : public kernels::EmulatedCuda {
 public:
  Checked() : EmulatedCuda(2, false) {}
  int updates = 0, folds = 0, calls = 0, together = 0;

  void fold(std::span<const kernels::Fold> all) override {
    std::vector<std::unique_ptr<FoldOfCpu>> wanted;
    for (const kernels::Fold& f : all) wanted.push_back(std::make_unique<FoldOfCpu>(*this, cpu_, f));
    EmulatedCuda::fold(all);
    for (const auto& one : wanted) one->expect_same();
    if (all.size() == 1) return void(++folds);
    ++calls;
    together += static_cast<int>(all.size());
  }
  void square_sum(const kernels::RoleView& src, std::int64_t first, std::int64_t count,
                  double* sum) override {
    const Before before(*this, cpu_, src);
    double wanted = 0;
    cpu_.square_sum(before.view(), first, count, &wanted);
    EmulatedCuda::square_sum(src, first, count, sum);
    EXPECT_EQ(*sum, wanted);
  }
  void update(std::span<const kernels::TensorUpdate> tensors) override {
    std::vector<RoleArray<std::unique_ptr<Before>>> before(tensors.size());
    std::vector<kernels::TensorUpdate> wanted(tensors.begin(), tensors.end());
    std::vector<char> storable(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      wanted[i].args.stats = nullptr;
      wanted[i].storable = reinterpret_cast<bool*>(&storable[i]);
      for (const Role r : kEveryRole) {
        before[i][r] = std::make_unique<Before>(*this, cpu_, tensors[i].args.roles[r]);
        wanted[i].args.roles[r] = before[i][r]->view();
      }
    }
    cpu_.update(wanted);
    EmulatedCuda::update(tensors);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (const Role r : kEveryRole) EXPECT_TRUE(before[i][r]->is_same()) << to_string(r);
      EXPECT_EQ(*tensors[i].storable, storable[i] != 0);
    }
    ++updates;
  }

 private:
  CpuDevice cpu_{1};
};

// The losses of the steps of a run.
std::vector<double> losses_on(Device& device, const RunConfig& config) {
  const Setup setup = open_data(config);
  const auto model = make_model(setup.config);
  const auto data = load_data(setup, device.host_pool());
  ModelMemory memory(model->tensors(), config.policy, config.optimizer, config.train.seed,
                     config.train.microbatches, device);
  Buffers buffers(model->buffers(), device);
  model->initialize(memory, config.train.seed, {});
  const auto program =
      model->build(config.train.batch / config.train.microbatches, config.train.compute, device);
  Prefetcher batches(*data, {config.train.seed, config.train.batch, config.train.microbatches, false}, 0, 0);
  std::vector<double> losses;
  for (std::uint32_t step = 1; step <= config.train.steps; ++step) {
    StepOptions options;
    options.step = step;
    options.learning_rate = peak_rate(config.optimizer);
    options.want_stats = step == 2;
    const StepResult done = train_step(*program, memory, buffers, batches, options);
    EXPECT_TRUE(done.report.applied) << done.report.failed_tensor;
    losses.push_back(done.meter.loss());
  }
  return losses;
}

class Runs : public testing::Test {
 protected:
  void SetUp() override {
    std::string words;
    for (int i = 0; i < 400; ++i) words += fmt::format("{} lines of text, ", i * i % 97);
    write_text(scratch_ / "text.txt", words);
    std::string source, target;  // their lines differ in length
    for (std::size_t i = 0; i < 24; ++i) {
      source += words.substr(i, 2 + i * 5 % 17) + ".\n";
      target += words.substr(i + 3, 1 + i * 7 % 11) + "!\n";
    }
    std::filesystem::create_directories(scratch_ / "pairs");
    for (const char* part : {"train", "dev"}) {
      write_text(scratch_ / (std::string("pairs/") + part + ".en"), source);
      write_text(scratch_ / (std::string("pairs/") + part + ".de"), target);
    }
  }
  RunConfig config_of(const std::string& model, const std::string& optimizer, std::string_view preset,
                      const std::string& device, const std::vector<std::string>& more = {}) const {
    const auto is = [&](const char* name) { return model.find(name) != std::string::npos; };
    const std::string data = is("gpt") || is("llama")
                                 ? fmt::format(fmt::runtime(kText), scratch_ / "text.txt")
                             : is("transformer") ? fmt::format(fmt::runtime(kPairs), scratch_ / "pairs")
                                                 : kImages;
    std::vector<std::string> settings = {"train.threads=2", "train.device=" + device};
    settings.insert(settings.end(), more.begin(), more.end());
    return parse_config(model + data + optimizer, "run.toml",
                        with_families({std::string(preset), "", settings}));
  }
  Scratch scratch_;
};
class Devices : public Runs, public testing::WithParamInterface<std::string_view> {};

constexpr const char* kMlp = "[model]\nname = \"mlp\"\nhidden = [8]\n";
constexpr const char* kResNet = "[model]\nname = \"resnet8\"\n";
constexpr const char* kBottlenecks =
    "[model]\nname = \"resnet50\"\nblocks = [1, 1, 1, 1]\nwidth = 4\nzero_last_norm = true\n";
constexpr const char* kGpt =
    "[model]\nname = \"gpt\"\nlayers = 1\nheads = 2\nembedding = 32\ncontext = 24\nvocabulary = 256\n";

constexpr const char* kLlama =
    "[model]\nname = \"llama\"\nlayers = 1\nheads = 2\nkv_heads = 1\nembedding = 32\nmlp_width = 48\n"
    "context = 24\nvocabulary = 256\n";
constexpr const char* kExperts =
    "qk_norm = true\nexperts = 5\nexperts_per_token = 2\nexpert_width = 24\nexperts_normed = true\n"
    "balance_loss = 0.01\n";
constexpr const char* kVit = "[model]\nname = \"vit\"\nlayers = 1\nheads = 2\nembedding = 32\npatch = 8\n";
constexpr const char* kTranslator =
    "[model]\nname = \"transformer\"\nlayers = 1\ndecoder_layers = 1\nheads = 2\nembedding = 32\nmlp_width = "
    "32\n"
    "context = 24\nvocabulary = 256\nend_token = 0\nstart_token = 0\nlabel_smoothing = 0.1\ndropout = 0.1\n"
    "attention_dropout = 0.1\n";

void expect_same_losses(const RunConfig& config, const std::string& model) {
  CpuDevice cpu(2);
  Checked emulated;
  const std::vector<double> wanted = losses_on(cpu, config), found = losses_on(emulated, config);
  EXPECT_EQ(emulated.updates, 3);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 0.02 * wanted[i]) << model;
}

// Models with parts that those above lack.
TEST_F(Runs, OthersTrainTheSameOnTheDevice) {
  for (const std::string& model : {std::string(kGpt) + "stable_embedding = true\n", std::string(kBottlenecks),
                                   std::string(kTranslator), std::string(kLlama) + kExperts}) {
    const RunConfig config = config_of(model, kAdamW, "lpmm-min", "cuda-emulated");
    expect_same_losses(config, model);
  }
}

TEST_F(Runs, ConversationsTrainTheSameOnTheDevice) {
  std::string lines;
  for (std::size_t i = 0; i < 80; ++i) {
    lines +=
        fmt::format("{{\"text\": \"{}\"}}\n", std::string(3 + i * 7 % 15, static_cast<char>('a' + i % 5)));
  }
  write_text(scratch_ / "chat.jsonl", lines);
  for (const char* model : {kGpt, kLlama}) {
    const RunConfig config = config_of(model, kAdamW, "lpmm-min", "cuda-emulated",
                                       {"data.set=conversations", "data.path=" + (scratch_ / "chat.jsonl")});
    expect_same_losses(config, model);
  }
}

TEST_P(Devices, PackedBytesAreTheCpusAtEveryStep) {
  const auto presets = preset_names();
  const auto at = std::find(presets.begin(), presets.end(), GetParam()) - presets.begin();
  // Every preset with every rule, on one model each: CudaFused has the updates of all together.
  const char* const model = std::array{kMlp, kResNet, kGpt}[static_cast<std::size_t>(at) % 3];
  for (const char* optimizer : {kAdamW, kSgd, kMuon}) {
    const RunConfig config = config_of(model, optimizer, GetParam(), "cuda-emulated");
    CpuDevice cpu(2);
    Checked emulated;
    const std::vector<double> wanted = losses_on(cpu, config), found = losses_on(emulated, config);
    // Initial values of parameters in two terms are an update of each tensor.
    if (has_compensation(config.policy.specs)) {
      EXPECT_GT(emulated.updates, 3);
    } else {
      EXPECT_EQ(emulated.updates, 3);
    }
    EXPECT_GE(emulated.folds, 3 * 2 * 2);  // folds of weights
    EXPECT_GE(emulated.together, 3 * 2 * 2);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(found[i], wanted[i], 0.02 * wanted[i]) << model << optimizer << " step " << i + 1;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Presets, Devices, testing::ValuesIn(preset_names()), [](const auto& preset) {
  std::string name(preset.param);
  std::erase(name, '-');
  return name;
});

// The same device, as if it had nothing to gain from folds that wait.
class Hasty final : public kernels::EmulatedCuda {
 public:
  Hasty() : EmulatedCuda(2, false) {}
  bool gathers_folds() const override { return false; }
};

// Gradients of one-dimensional tensors lie untouched until they are folded, with all others of a microbatch;
// what that takes is planned.
TEST_F(Runs, GradientsThatWaitTrainAsThoseFoldedAtOnceDo) {
  for (const std::string& model : {std::string(kMlp), std::string(kBottlenecks), std::string(kGpt),
                                   kGpt + std::string("recompute = true\n"), std::string(kTranslator)}) {
    const RunConfig config = config_of(model, kAdamW, "lpmm-min", "cuda-emulated");
    Hasty hasty;
    Checked gathering;
    EXPECT_EQ(losses_on(gathering, config), losses_on(hasty, config)) << model;
    EXPECT_EQ(gathering.calls, 3 * 2) << model;
    const auto of_model = make_model(config.model);
    int vectors = 0;
    std::int64_t room = 0;
    for (const TensorInfo& info : of_model->tensors()) {
      // A bias of the vocabulary is as large as a matrix.
      if (info.shape.size() != 1 || info.name == "final_logits_bias") continue;
      ++vectors;
      room += kernels::aligned(4 * info.elements());
    }
    EXPECT_EQ(gathering.together, 3 * 2 * vectors) << model;
    const auto early = of_model->build(8, config.train.compute, hasty),
               late = of_model->build(8, config.train.compute, gathering);
    EXPECT_GE(late->activation_bytes(), early->activation_bytes()) << model;
    EXPECT_LE(late->activation_bytes(), early->activation_bytes() + room) << model;
    EXPECT_LE(late->workspace_bytes(), early->workspace_bytes()) << model;
  }
}

// Weights that backward has not read yet would be the new ones already, if an op took them too early.
TEST_F(Runs, GradientsAppliedAtOnceTrainAsFp32AccumulatorsDo) {
  const std::string gpt = kGpt, llama = kLlama;
  for (const std::string& model : {std::string(kMlp), std::string(kResNet), std::string(kBottlenecks),
                                   std::string(kVit), gpt, gpt + "recompute = true\n", llama,
                                   llama + "tied = true\n", llama + kExperts, std::string(kTranslator)}) {
    const auto losses = [&](Device& device, const char* preset, const std::string& accumulator) {
      return losses_on(device, config_of(model, kAdamW, preset, "cpu",
                                         {"train.microbatches=1", "optimizer.clip_norm=0",
                                          "memory.accumulator=" + accumulator}));
    };
    CpuDevice cpu(2);
    for (const char* preset : {"lpmm", "lpmm-min"}) {
      EXPECT_EQ(losses(cpu, preset, "none"), losses(cpu, preset, "fp32")) << model;
    }
    Checked emulated;
    losses(emulated, "lpmm-min", "none");
    EXPECT_GT(emulated.updates, 3 * 4);
    EXPECT_EQ(emulated.folds, 0);
  }
}

// A tied embedding may keep an accumulator all the same.
TEST_F(Runs, AnOverrideGivesATiedEmbeddingItsAccumulator) {
  const std::string tied = "[[memory.override]]\npattern = \"wte.weight\"\naccumulator = \"int8\"\n";
  Checked emulated;
  losses_on(emulated,
            config_of(kGpt, kAdamW + tied, "lpmm-min", "cpu",
                      {"train.microbatches=1", "optimizer.clip_norm=0", "memory.accumulator=none"}));
  EXPECT_EQ(emulated.folds, 3 * 2);
}

// Runs on the emulated device, and on a GPU if there is one.
class RunsOn : public Runs, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    for (const BackendInfo& b : backends()) {
      if (b.name == GetParam() && !b.is_available()) GTEST_SKIP() << b.why_not;
    }
    Runs::SetUp();
  }
};
const auto name_of_device = [](const auto& device) {
  std::string name = device.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
};
INSTANTIATE_TEST_SUITE_P(, RunsOn, testing::Values("cuda-emulated"), name_of_device);
INSTANTIATE_TEST_SUITE_P(Gpu, RunsOn, testing::Values("cuda"), name_of_device);

// A NaN in the second microbatch: nothing that is stored changes, and the next step goes on.
TEST_P(RunsOn, NanInOneMicrobatchChangesNothing) {
  for (const char* preset : {"lpmm", "lpmm-nano"}) {
    RunConfig config = config_of(kResNet, kSgd, preset, GetParam());
    const lpmm::Setup setup = open_data(config);
    const auto device = make_device(GetParam(), 2);
    const auto model = make_model(config.model);
    const auto data = load_data(setup, device->host_pool());
    ModelMemory memory(model->tensors(), config.policy, config.optimizer, 1, 2, *device);
    Buffers buffers(model->buffers(), *device);
    model->initialize(memory, 1, {});
    const auto program = model->build(8, config.train.compute, *device);
    const auto step = [&](std::uint32_t number, bool poison) {
      Step this_step = memory.begin_step({number, 0.05});
      buffers.begin();
      for (int k = 0; k < 2; ++k) {
        Batch batch;
        data->make_batch({1, 16, 2, false}, 0, 0, k, batch);
        if (poison && k == 1) batch.images[77] = std::numeric_limits<float>::quiet_NaN();
        program->train(memory, this_step, buffers, batch, k);
      }
      const StepReport report = std::move(this_step).commit();
      EXPECT_EQ(buffers.failed_proposal().empty(), !poison);
      return report;
    };
    const auto parameters = [&] {
      std::vector<std::vector<float>> all;
      for (int i = 0; i < memory.tensors(); ++i) {
        all.emplace_back(static_cast<std::size_t>(memory.info(i).elements()));
        memory.read(i, 0, all.back());
      }
      return all;
    };
    EXPECT_TRUE(step(1, false).applied);
    const auto before = parameters();
    const StepReport failed = step(2, true);
    EXPECT_FALSE(failed.applied);
    EXPECT_EQ(failed.failed_tensor, "the loss");
    EXPECT_TRUE(parameters() == before) << preset;
    EXPECT_TRUE(step(3, false).applied);
    EXPECT_FALSE(parameters() == before) << preset;
  }
}

// A checkpoint of one device is where the other goes on, and a run that was stopped ends as it would have.
TEST_P(RunsOn, RunsGoOnFromTheCpusCheckpoints) {
  const auto bytes = [&](const std::string& out) {
    return read_text(out + "/checkpoints/step_00000003/model.safetensors", 1 << 28);
  };
  for (const char* model : {kMlp, kResNet, kGpt}) {
    const auto run = [&](const std::string& out, const std::string& device, int steps, bool resume) {
      RunConfig config = config_of(model, kAdamW, "lpmm", device);
      config.train.steps = steps;
      train(open_data(config), *make_model(config.model), {out, resume, true});
    };
    const std::string whole = scratch_ / "whole", stopped = scratch_ / "stopped", moved = scratch_ / "moved";
    for (const std::string& out : {whole, stopped, moved}) std::filesystem::remove_all(out);
    run(whole, GetParam(), 3, false);
    run(stopped, GetParam(), 2, false);
    run(stopped, GetParam(), 3, true);
    EXPECT_TRUE(bytes(whole) == bytes(stopped)) << model;
    run(moved, "cpu", 2, false);
    EXPECT_NO_THROW(run(moved, GetParam(), 3, true)) << model;
  }
}

// The memory of a device holds the bits that the host's does, and either goes on from the other's file.
TEST_P(RunsOn, PackedVectorsHoldTheBitsOfTheHosts) {
  const auto device = make_device(GetParam(), 1);
  const OptimizerConfig adam = {.rule = "adam", .learning_rate = 0.05};
  const auto start = normal_values(700, 3, 1), gradient = normal_values(700, 4, 1);
  const DeviceMemory room = device->allocate(4 * 700);
  device->upload(room.get(), gradient.data(), 4 * 700);
  const std::span<const float> there(reinterpret_cast<const float*>(room.get()), 700);
  const auto values = [](const PackedVector& w) { return static_cast<std::vector<float>>(w); };
  for (const char* preset : {"fp32", "lpmm", "lpmm-min", "states8"}) {
    PackedVector a(start, preset, adam, 7, 2), b(start, preset, adam, *device, 7);
    a.step(gradient), b.step(there);
    EXPECT_EQ(values(a), values(b)) << preset;
    a.save(scratch_ / "a.safetensors"), b.save(scratch_ / "b.safetensors");
    EXPECT_EQ(read_text(scratch_ / "a.safetensors", 1 << 20), read_text(scratch_ / "b.safetensors", 1 << 20));
    PackedVector c(std::vector<float>(700), preset, adam, *device, 7);
    c.load(scratch_ / "a.safetensors");
    a.step(gradient), c.step(there);
    EXPECT_EQ(values(a), values(c)) << preset;
  }
}

}  // namespace
}  // namespace lpmm
