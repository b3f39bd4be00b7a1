#include "models/published/unknown.h"

#include <fmt/format.h>

#include "lpmm/base/terminal.h"
#include "models/published/config.h"
#include "models/published/table.h"

namespace lpmm {
namespace {

struct UnknownRow {
  std::string_view types;  // of config.json, with spaces between
  std::string_view has;
  std::string_view nearest;  // the model to take in its place
};
constexpr UnknownRow kUnknown[] = {
    {"deberta deberta-v2", "its attention takes contents and positions apart", "roberta"},
    {"albert", "its layers share their weights", "bert"},
    {"electra", "its embedding and its head are otherwise", "bert"},
    {"xlm", "its positions and its head are otherwise", "xlm-roberta"},
    {"xlm-roberta-xl roberta-prelayernorm", "its norms stand before each part", "xlm-roberta"},
    {"longformer big_bird", "its attention is of windows and some positions that all see", "roberta"},
    {"nomic_bert", "its biases and its gated MLP are otherwise", "modernbert"},
    {"modernbert-decoder", "it is a ModernBERT that reads from left to right", "llama"},
    {"t5 mt5 umt5 longt5", "its attention has a bias of relative positions", "marian"},
    {"bart mbart pegasus m2m_100 blenderbot", "its norms or its positions are not those of Marian", "marian"},
    {"gemma gemma2", "its norms are others, or its logits are capped", "gemma3_text"},
    {"gemma3n", "it reads images and sound, and its layers have more parts", "gemma3_text"},
    {"mixtral qwen2_moe olmoe granitemoe deepseek_v2 deepseek_v3 gpt_oss dbrx phimoe llama4 qwen3_next",
     "its layers choose among experts otherwise", "qwen3_moe"},
    {"gpt_neox phi gptj codegen falcon", "attention and MLP stand side by side in its layers",
     "llama or gpt2"},
    {"gpt_neo", "some of its layers attend to windows, without a scale", "gpt2"},
    {"opt", "its positions begin at the third row", "gpt2"},
    {"bloom mpt", "its attention has slopes (ALiBi) in place of positions", "gpt2"},
    {"gpt_bigcode", "its heads share one key", "gpt2"},
    {"stablelm cohere cohere2 starcoder2 olmo nemotron", "its norms are not RMS norms", "llama or olmo2"},
    {"olmo3 ministral", "some of its layers have windows, others not", "olmo2 or mistral"},
    {"glm glm4 chatglm minicpm internlm2 exaone", "its matrices or rotary positions are otherwise", "llama"},
    {"mamba mamba2 falcon_mamba rwkv jamba recurrent_gemma", "it is no transformer alone", "llama"},
    {"deit beit dinov2 dinov2_with_registers swin swinv2 convnext convnextv2 segformer",
     "its layers, or their names in transformers, are otherwise", "vit or resnet"},
    {"vit_mae", "it has a decoder of pixels behind its encoder", "vit"},
    {"clip_vision_model siglip_vision_model siglip2_vision_model",
     "its first or last layers are not those of ViT", "vit"},
    {"clip siglip siglip2 chinese_clip blip", "it reads images and texts", "vit"},
    {"qwen2_vl qwen2_5_vl llava llava_next mllama paligemma idefics3 smolvlm gemma3",
     "it reads images and texts", "the text model that it was made from"},
    {"whisper wav2vec2 hubert", "it reads sound", "none"},
};

}  // namespace

std::string why_not_here(std::string_view model_type) {
  for (const UnknownRow& row : kUnknown) {
    if (is_among(model_type, row.types))
      return fmt::format(": {}, which is not here; the nearest is {}", row.has, row.nearest);
  }
  return "";
}

std::string head_not_here(const std::string& path) {
  if (!PublishedConfig::is_beside(path)) return "";
  const std::string said = printable(PublishedConfig(PublishedConfig::beside(path)).architecture());
  if (said.find("For") == std::string::npos) return "";
  return fmt::format(
      "; it is a {0}, whose head is not here: import the model without it "
      "({0}.from_pretrained(FOLDER).base_model.save_pretrained(OTHER))",
      said);
}

}  // namespace lpmm
