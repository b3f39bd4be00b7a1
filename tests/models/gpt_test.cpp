#include <gtest/gtest.h>

#include <map>

#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "tests/models/parameters.h"

namespace lpmm {
namespace {

// The published sizes: Radford et al. 2019 with the output tied to the embedding.
TEST(Gpt, ParameterCounts) {
  const std::map<std::string, std::int64_t> counts = {
      {"gpt2", 124439808}, {"gpt2-medium", 354823168}, {"gpt2-large", 774030080}, {"gpt2-xl", 1557611200}};
  for (const auto& [name, count] : counts)
    EXPECT_EQ(parameters(*make_model(model_config(name))), count) << name;
}

TEST(Gpt, NamesAndShapes) {
  const auto model = make_model(model_config("gpt2"));
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const TensorInfo& t : model->tensors()) shapes[t.name] = t.shape;
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shapes.size(), 12U * 12 + 4);
  EXPECT_EQ(shapes.at("wte.weight"), (Shape{50257, 768}));
  EXPECT_EQ(shapes.at("wpe.weight"), (Shape{1024, 768}));
  EXPECT_EQ(shapes.at("h.11.ln_1.bias"), (Shape{768}));
  EXPECT_EQ(shapes.at("h.0.attn.c_attn.weight"), (Shape{2304, 768}));
  EXPECT_EQ(shapes.at("h.0.attn.c_proj.weight"), (Shape{768, 768}));
  EXPECT_EQ(shapes.at("h.0.mlp.c_fc.weight"), (Shape{3072, 768}));
  EXPECT_EQ(shapes.at("h.0.mlp.c_proj.weight"), (Shape{768, 3072}));
  EXPECT_EQ(shapes.at("ln_f.weight"), (Shape{768}));
  EXPECT_TRUE(model->buffers().empty());
  for (const TensorInfo& t : model->tensors()) {
    EXPECT_EQ(t.kind == TensorKind::kEmbedding, t.name == "wte.weight" || t.name == "wpe.weight") << t.name;
    EXPECT_NE(t.kind, TensorKind::kHead) << "it is tied to the embedding";
    EXPECT_EQ(t.parts, t.name.find("c_attn.weight") != std::string::npos ? 3 : 1) << t.name;
  }
}

TEST(Gpt, ImpossibleShapesAreRefused) {
  ModelConfig config = model_config("gpt");
  EXPECT_THROW(make_model(config), UsageError);  // gpt has no sizes of its own
  config.set("layers", 2);
  config.set("heads", 3);
  config.set("embedding", 64);
  config.set(kContext, 32);
  config.set(kVocabulary, 100);
  EXPECT_THROW(make_model(config), UsageError);  // 64 channels for 3 heads
  config.set("heads", 4);
  EXPECT_EQ(make_model(config)->tensors().size(), 2U * 12 + 4);
  config.length = 33;
  EXPECT_THROW(make_model(config), UsageError);  // longer than the context
}

TEST(Gpt, NamesDecideWhatIsLeftOpen) {
  ModelConfig config = model_config("gpt2");
  config.set("layers", 3);
  config = complete(config);
  EXPECT_EQ(config.integer("layers"), 3);
  EXPECT_EQ(config.integer("heads"), 12);
  EXPECT_EQ(config.integer(kVocabulary), 50257);
  EXPECT_EQ(config.length, 1024);
  EXPECT_EQ(complete(model_config("gpt")).integer("layers"), 0);
}

}  // namespace
}  // namespace lpmm
