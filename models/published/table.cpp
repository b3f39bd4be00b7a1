#include "models/published/table.h"

#include <algorithm>

#include "lpmm/base/text.h"

namespace lpmm {
namespace {

constexpr std::string_view kLlamas = "llama mistral qwen2 qwen3 smollm3 phi3 olmo2 granite",
                           kBerts = "bert roberta xlm-roberta camembert",
                           kEncoders = "bert roberta xlm-roberta camembert distilbert",
                           kMarianType = "marian";

constexpr FileRow kHuggingFaceFiles[] = {
    {"config.json", Use::kWritten, "sizes and settings of the model"},
    {"model.safetensors", Use::kWritten, "weights"},
    {"model-*.safetensors", Use::kWritten, "a shard of the weights"},
    {"model.safetensors.index.json", Use::kWritten, "which shard has which tensor"},
    {"model.gguf", Use::kWritten, "weights of a GGUF, while it is imported"},
    {"lpmm_tokenizer.json", Use::kWritten, "lpmm's description of the tokenizer", Beside::kTokenizer},
    {"generation_config.json", Use::kRead, "tokens that begin and end a text, settings of sampling"},
    {"tokenizer.json", Use::kRead, "the whole tokenizer", Beside::kTokenizer},
    {"vocab.txt", Use::kRead, "WordPiece tokens", Beside::kTokenizer},
    {"vocab.json", Use::kRead, "tokens and their ids", Beside::kTokenizer},
    {"merges.txt", Use::kRead, "merges of BPE", Beside::kTokenizer},
    {"encoder.json", Use::kRead, "OpenAI's name of vocab.json", Beside::kTokenizer},
    {"vocab.bpe", Use::kRead, "OpenAI's name of merges.txt", Beside::kTokenizer},
    {"sentencepiece.bpe.model", Use::kRead, "a SentencePiece model that fairseq numbers", Beside::kTokenizer},
    {"tokenizer.model", Use::kRead, "a SentencePiece model", Beside::kTokenizer},
    {"source.spm", Use::kRead, "SentencePiece model of the source", Beside::kTokenizer},
    {"target.spm", Use::kRead, "SentencePiece model of the target", Beside::kTokenizer},
    {"tokenizer_config.json", Use::kRead, "letter case, special and added tokens", Beside::kTokenizer},
    {"special_tokens_map.json", Use::kRead, "names of special tokens", Beside::kTokenizer},
    {"added_tokens.json", Use::kRead, "tokens added beside the vocabulary", Beside::kTokenizer},
    {"chat_template.jinja", Use::kKept, "how a dialogue becomes a text", Beside::kTokenizer},
    {"chat_template.json", Use::kKept, "how a dialogue becomes a text", Beside::kTokenizer},
    {"additional_chat_templates/*.jinja", Use::kKept, "more of these", Beside::kTokenizer},
    {"modules.json", Use::kRead, "what makes the vector of a sentence", Beside::kSentences},
    {"*_Pooling/config.json", Use::kRead, "the mean of all positions, or the first", Beside::kSentences},
    {"*_Normalize/config.json", Use::kKept, "vectors of length 1", Beside::kSentences},
    {"sentence_bert_config.json", Use::kRead, "the longest sentence", Beside::kSentences},
    {"config_sentence_transformers.json", Use::kKept, "prompts and versions", Beside::kSentences},
    {"LICENSE*", Use::kKept, "the licence"},
    {"NOTICE*", Use::kKept, "what the licence asks for"},
    {"USE_POLICY.md", Use::kKept, "what the licence asks for"},
    {"README.md", Use::kUnused, "the card of the model as it was published"},
    {".gitattributes", Use::kUnused, "how git stored it"},
    {"pytorch_model*.bin", Use::kUnused, "the weights as a pickle"},
    {"pytorch_model.bin.index.json", Use::kUnused, "the weights as pickles"},
    {"tf_model.h5", Use::kUnused, "the weights for TensorFlow"},
    {"flax_model.msgpack", Use::kUnused, "the weights for Flax"},
    {"training_args.bin", Use::kUnused, "how it was trained, as a pickle"},
};

constexpr KeyRow kHuggingFaceKeys[] = {
    {"model_type", "", Use::kWritten, "which kind of model"},
    {"architectures", "", Use::kWritten, "which class of the library"},
    {"torch_dtype", "", Use::kWritten, "type of the weights"},
    {"dtype", "", Use::kWritten, "type of the weights, since transformers 5"},
    {"transformers_version", "", Use::kKept, "what wrote it"},
    {"_name_or_path", "", Use::kKept, "where it was loaded from"},
    {"auto_map", "", Use::kUnused, "code of its own"},
    {"use_cache", "", Use::kKept, "generation keeps keys and values"},
    {"initializer_range", "", Use::kKept, "deviation of new weights"},
    {"init_std", kMarianType, Use::kKept, "deviation of new weights"},
    {"output_hidden_states", "", Use::kKept, "what a call returns"},
    {"output_attentions", "", Use::kKept, "what a call returns"},
    {"output_past", "", Use::kKept, "what a call returns"},
    {"return_dict", "", Use::kKept, "what a call returns"},
    {"chunk_size_feed_forward", "", Use::kKept, "memory against time"},
    {"gradient_checkpointing", "", Use::kKept, "memory against time"},
    {"task_specific_params", "", Use::kKept, "settings of generation"},
    {"vocab_size", "", Use::kRead, "tokens"},
    {"bos_token_id", "llama mistral", Use::kWritten, "begins a text", "1"},
    {"eos_token_id", "llama mistral", Use::kWritten, "ends a text", "2"},
    {"bos_token_id", "gpt2", Use::kWritten, "begins a text", "50256"},
    {"eos_token_id", "gpt2", Use::kWritten, "ends a text", "50256"},
    {"bos_token_id", "smollm3", Use::kWritten, "begins a text", "128000"},
    {"eos_token_id", "smollm3", Use::kWritten, "ends a text", "128001"},
    {"pad_token_id", "smollm3", Use::kWritten, "fills up", "128004"},
    {"bos_token_id", "", Use::kWritten, "begins a text"},
    {"eos_token_id", "", Use::kWritten, "ends a text"},
    {"pad_token_id", "", Use::kWritten, "fills up; of RoBERTa the row before the first position"},
    {"sep_token_id", "", Use::kKept, "stands between sentences"},
    {"cls_token_id", "", Use::kKept, "begins a sentence"},
    {"is_encoder_decoder", "", Use::kRead, "reads pairs"},
    {"is_decoder", "", Use::kRead, "must be false", "false"},
    {"add_cross_attention", "", Use::kRead, "must be false", "false"},
    {"tie_word_embeddings", "llama mistral qwen2 qwen3 phi3 olmo2 granite", Use::kRead,
     "output and embedding are one", "false"},
    {"tie_word_embeddings", "smollm3 gpt2 bert roberta xlm-roberta camembert distilbert marian", Use::kRead,
     "output and embedding are one", "true"},
    {"id2label", "", Use::kRead, "names of the classes"},
    {"label2id", "", Use::kRead, "names of the classes"},
    {"num_labels", "", Use::kRead, "how many classes"},
    {"_num_labels", "", Use::kRead, "how many classes"},
    {"problem_type", "", Use::kRead, "what the head tells"},
    {"finetuning_task", "", Use::kRead, "what the head tells"},
    {"quantization_config", kLlamas, Use::kRead, "must be absent"},
    // Llama and its kin.
    {"hidden_size", kLlamas, Use::kRead, "channels"},
    {"intermediate_size", kLlamas, Use::kRead, "channels inside an MLP"},
    {"num_hidden_layers", kLlamas, Use::kRead, "layers"},
    {"num_attention_heads", kLlamas, Use::kRead, "heads"},
    {"num_key_value_heads", "llama phi3 olmo2 granite", Use::kRead,
     "heads of keys; absent: as many as heads"},
    {"num_key_value_heads", "qwen2 qwen3", Use::kRead, "heads of keys", "32"},
    {"num_key_value_heads", "mistral", Use::kRead, "heads of keys", "8"},
    {"num_key_value_heads", "smollm3", Use::kRead, "heads of keys", "4"},
    {"head_dim", "qwen3", Use::kRead, "channels of a head", "128"},
    {"head_dim", kLlamas, Use::kRead, "channels of a head; absent: channels / heads"},
    {"hidden_act", kLlamas, Use::kRead, "activation", "\"silu\""},
    {"max_position_embeddings", kLlamas, Use::kRead, "positions"},
    {"rms_norm_eps", "llama mistral qwen2 qwen3 smollm3 granite", Use::kRead, "of the norms", "1e-6"},
    {"rms_norm_eps", "phi3 olmo2", Use::kRead, "of the norms", "1e-5"},
    {"rope_theta", "llama mistral qwen2 qwen3 phi3 olmo2 granite", Use::kWritten, "base of rotary positions",
     "10000.0"},
    {"rope_theta", "smollm3", Use::kWritten, "base of rotary positions", "2000000.0"},
    {"rope_scaling", kLlamas, Use::kWritten, "scaling of rotary positions; counts before rope_parameters"},
    {"rope_parameters", kLlamas, Use::kWritten, "the same and its base, since transformers 5"},
    {"rope_*.rope_type", kLlamas, Use::kWritten, "default, dynamic, linear, llama3 or yarn"},
    {"rope_*.type", kLlamas, Use::kWritten, "its older name"},
    {"rope_*.rope_theta", kLlamas, Use::kWritten, "base of rotary positions"},
    {"rope_*.factor", kLlamas, Use::kWritten, "how much longer the waves are"},
    {"rope_*.*_freq_factor", kLlamas, Use::kWritten, "which waves are made longer"},
    {"rope_*.beta_*", kLlamas, Use::kWritten, "the same of YaRN"},
    {"rope_*.truncate", kLlamas, Use::kWritten, "must be true"},
    {"rope_*.attention_factor", kLlamas, Use::kWritten, "YaRN's factor on what is rotated"},
    {"rope_*.mscale*", kLlamas, Use::kWritten, "what that follows from where it is absent"},
    {"rope_*.original_max_position_embeddings", kLlamas, Use::kWritten, "positions before scaling"},
    {"rope_*.partial_rotary_factor", kLlamas, Use::kWritten, "must be 1"},
    {"partial_rotary_factor", kLlamas, Use::kRead, "must be 1"},
    {"attention_bias", kLlamas, Use::kRead, "biases of attention", "false"},
    {"mlp_bias", kLlamas, Use::kRead, "biases of the MLP", "false"},
    {"attention_dropout", kLlamas, Use::kKept, "rate of dropout where its library trains"},
    {"embedding_multiplier", "granite", Use::kRead, "factor on embeddings", "1.0"},
    {"residual_multiplier", "granite", Use::kRead, "factor on what layers add", "1.0"},
    {"attention_multiplier", "granite", Use::kRead, "factor on products of queries and keys", "1.0"},
    {"logits_scaling", "granite", Use::kRead, "divides logits", "1.0"},
    {"original_max_position_embeddings", "phi3", Use::kKept, "positions before they were extended"},
    {"resid_pdrop", "phi3", Use::kKept, "rate of dropout where its library trains"},
    {"embd_pdrop", "phi3", Use::kKept, "rate of dropout where its library trains"},
    {"pretraining_tp", "llama", Use::kKept, "how its library once split products"},
    {"sliding_window", kLlamas, Use::kRead, "how far back is attended"},
    {"use_sliding_window", kLlamas, Use::kRead, "whether that counts", "false"},
    {"max_window_layers", kLlamas, Use::kKept, "which layers have windows, where they count"},
    {"layer_types", kLlamas, Use::kRead, "which layers have windows: none may"},
    {"no_rope_layers", "smollm3", Use::kRead, "layers without rotary positions"},
    {"no_rope_layer_interval", "smollm3", Use::kRead, "every how many layers", "4"},
    // GPT-2.
    {"n_embd", "gpt2", Use::kRead, "channels"},
    {"n_layer", "gpt2", Use::kRead, "layers"},
    {"n_head", "gpt2", Use::kRead, "heads"},
    {"n_positions", "gpt2", Use::kRead, "positions"},
    {"n_ctx", "gpt2", Use::kRead, "positions, again"},
    {"n_inner", "gpt2", Use::kRead, "channels inside an MLP; absent: 4 times the channels"},
    {"activation_function", "gpt2", Use::kRead, "activation", "\"gelu_new\""},
    {"layer_norm_epsilon", "gpt2", Use::kRead, "of the norms", "1e-5"},
    {"scale_attn_weights", "gpt2", Use::kRead, "must be true", "true"},
    {"scale_attn_by_inverse_layer_idx", "gpt2", Use::kRead, "must be false", "false"},
    {"reorder_and_upcast_attn", "gpt2", Use::kKept, "precision of its library"},
    {"resid_pdrop", "gpt2", Use::kKept, "rate of dropout where its library trains", "0.1"},
    {"embd_pdrop", "gpt2", Use::kKept, "rate of dropout where its library trains", "0.1"},
    {"attn_pdrop", "gpt2", Use::kKept, "rate of dropout where its library trains", "0.1"},
    {"summary_*", "gpt2", Use::kKept, "of a head that lpmm does not have"},
    // BERT and its kin.
    {"hidden_size", kBerts, Use::kRead, "channels"},
    {"intermediate_size", kBerts, Use::kRead, "channels inside an MLP"},
    {"num_hidden_layers", kBerts, Use::kRead, "layers"},
    {"num_attention_heads", kBerts, Use::kRead, "heads"},
    {"hidden_act", kBerts, Use::kRead, "activation", "\"gelu\""},
    {"hidden_dropout_prob", kBerts, Use::kKept, "rate of dropout where its library trains", "0.1"},
    {"attention_probs_dropout_prob", kBerts, Use::kKept, "rate of dropout where its library trains", "0.1"},
    {"classifier_dropout", kBerts, Use::kKept, "rate of dropout where its library trains"},
    {"max_position_embeddings", kEncoders, Use::kRead, "rows of positions", "512"},
    {"type_vocab_size", kBerts, Use::kRead, "kinds of sentences", "2"},
    {"layer_norm_eps", kBerts, Use::kRead, "of the norms", "1e-12"},
    {"position_embedding_type", kEncoders, Use::kRead, "must be absolute"},
    {"dim", "distilbert", Use::kRead, "channels"},
    {"hidden_dim", "distilbert", Use::kRead, "channels inside an MLP"},
    {"n_layers", "distilbert", Use::kRead, "layers"},
    {"n_heads", "distilbert", Use::kRead, "heads"},
    {"activation", "distilbert", Use::kRead, "activation", "\"gelu\""},
    {"dropout", "distilbert", Use::kKept, "rate of dropout where its library trains", "0.1"},
    {"attention_dropout", "distilbert", Use::kKept, "rate of dropout where its library trains", "0.1"},
    {"qa_dropout", "distilbert", Use::kKept, "rate of dropout where its library trains"},
    {"seq_classif_dropout", "distilbert", Use::kKept, "rate of dropout where its library trains", "0.2"},
    {"sinusoidal_pos_embds", "distilbert", Use::kKept, "what positions were drawn as"},
    {"tie_weights_", "distilbert", Use::kKept, "of a head that lpmm does not have"},
    // Marian.
    {"d_model", kMarianType, Use::kRead, "channels"},
    {"encoder_layers", kMarianType, Use::kRead, "layers"},
    {"decoder_layers", kMarianType, Use::kRead, "layers"},
    {"num_hidden_layers", kMarianType, Use::kKept, "encoder_layers, again"},
    {"encoder_attention_heads", kMarianType, Use::kRead, "heads"},
    {"decoder_attention_heads", kMarianType, Use::kRead, "heads"},
    {"encoder_ffn_dim", kMarianType, Use::kRead, "channels inside an MLP"},
    {"decoder_ffn_dim", kMarianType, Use::kRead, "channels inside an MLP"},
    {"max_position_embeddings", kMarianType, Use::kRead, "positions"},
    {"max_length", kMarianType, Use::kKept, "settings of generation"},
    {"num_beams", kMarianType, Use::kKept, "settings of generation"},
    {"bad_words_ids", kMarianType, Use::kKept, "settings of generation"},
    {"decoder_vocab_size", kMarianType, Use::kRead, "tokens; must be as many"},
    {"activation_function", kMarianType, Use::kRead, "activation", "\"gelu\""},
    {"scale_embedding", kMarianType, Use::kRead, "must be true", "false"},
    {"share_encoder_decoder_embeddings", kMarianType, Use::kRead, "must be true", "true"},
    {"static_position_embeddings", kMarianType, Use::kRead, "must be true"},
    {"normalize_before", kMarianType, Use::kRead, "must be false"},
    {"normalize_embedding", kMarianType, Use::kRead, "must be false"},
    {"add_final_layer_norm", kMarianType, Use::kRead, "must be false"},
    {"add_bias_logits", kMarianType, Use::kRead, "must be false"},
    {"extra_pos_embeddings", kMarianType, Use::kRead, "must be 0"},
    {"decoder_start_token_id", kMarianType, Use::kRead, "begins a translation"},
    {"forced_eos_token_id", kMarianType, Use::kRead, "ends a translation"},
    {"dropout", kMarianType, Use::kKept, "rate of dropout where its library trains", "0.1"},
    {"attention_dropout", kMarianType, Use::kKept, "rate of dropout where its library trains"},
    {"activation_dropout", kMarianType, Use::kKept, "rate of dropout where its library trains"},
    {"classif_dropout", kMarianType, Use::kKept, "rate of dropout where its library trains"},
    {"classifier_dropout", kMarianType, Use::kKept, "rate of dropout where its library trains"},
    {"encoder_layerdrop", kMarianType, Use::kKept, "rate of dropout where its library trains"},
    {"decoder_layerdrop", kMarianType, Use::kKept, "rate of dropout where its library trains"},
    {"quantization_config", kMarianType, Use::kRead, "must be absent"},
};

constexpr FileRow kImageFiles[] = {
    {"config.json", Use::kWritten, "sizes and settings of the model"},
    {"model.safetensors", Use::kWritten, "weights"},
    {"model-*.safetensors", Use::kWritten, "a shard of the weights"},
    {"model.safetensors.index.json", Use::kWritten, "which shard has which tensor"},
    {"preprocessor_config.json", Use::kRead,
     "mean and deviation of the channels of pictures, size, crop, interpolation"},
    {"LICENSE*", Use::kKept, "the licence"},
    {"README.md", Use::kUnused, "the card of the model as it was published"},
    {".gitattributes", Use::kUnused, "how git stored it"},
    {"pytorch_model*.bin", Use::kUnused, "the weights as a pickle"},
};

constexpr KeyRow kImageKeys[] = {
    {"architecture", "", Use::kKept, "what timm makes of it"},
    {"num_classes", "", Use::kWritten, "how many classes"},
    {"num_features", "", Use::kKept, "channels before the head"},
    {"torch_dtype", "", Use::kWritten, "type of the weights"},
    {"dtype", "", Use::kWritten, "type of the weights"},
    {"label_names", "", Use::kRead, "names of the classes"},
    {"label_descriptions", "", Use::kRead, "more about the classes"},
    {"pretrained_cfg", "", Use::kRead, "how pictures are prepared"},
    {"pretrained_cfg.mean", "", Use::kRead, "mean of the channels of pictures"},
    {"pretrained_cfg.std", "", Use::kRead, "deviation of the channels of pictures"},
    {"pretrained_cfg.num_classes", "", Use::kWritten, "how many classes"},
    {"pretrained_cfg.input_size", "", Use::kRead, "channels, height and width of pictures"},
    {"pretrained_cfg.crop_pct", "", Use::kRead, "share of a scaled picture's side that is cut out"},
    {"pretrained_cfg.interpolation", "", Use::kRead, "how pictures are scaled"},
    {"pretrained_cfg.*", "", Use::kKept, "where it came from"},
    {"global_pool", "vit", Use::kRead, "token, or avg without a class token", "\"token\""},
    {"global_pool", "resnet", Use::kRead, "must be avg", "\"avg\""},
    {"model_args.global_pool", "resnet", Use::kRead, "must be avg"},
    {"model_args.num_classes", "", Use::kWritten, "how many classes"},
    {"model_args.in_chans", "", Use::kRead, "channels of pictures"},
    {"model_args.*drop*", "", Use::kKept, "rate of dropout where its library trains"},
    {"model_args", "", Use::kRead, "settings of the architecture"},
    {"model_args.class_token", "vit", Use::kRead, "whether there is a class token"},
    {"model_args.global_pool", "vit", Use::kRead, "token, or avg without a class token"},
    {"model_args.img_size", "vit", Use::kRead, "side of pictures"},
    {"model_args.patch_size", "vit", Use::kRead, "side of a patch"},
    {"model_args.embed_dim", "vit", Use::kRead, "channels"},
    {"model_args.depth", "vit", Use::kRead, "layers"},
    {"model_args.num_heads", "vit", Use::kRead, "heads"},
    {"model_args.reg_tokens", "vit", Use::kRead, "registers"},
    {"model_args.no_embed_class", "vit", Use::kRead, "whether only patches have positions"},
    {"model_args.init_values", "vit", Use::kRead, "what factors on what layers add begin with"},
    {"model_args.mlp_ratio", "vit", Use::kRead, "channels inside an MLP per channel"},
    {"model_args.dynamic_img_*", "vit", Use::kKept, "pictures of other sizes"},
    {"model_args.strict_img_size", "vit", Use::kKept, "pictures of other sizes"},
    {"model_args.block", "resnet", Use::kRead, "kind of a block"},
    {"model_args.layers", "resnet", Use::kRead, "blocks of each stage"},
    {"model_args.zero_init_last", "resnet", Use::kKept, "how new weights are drawn"},
    // transformers' ViT and ResNet.
    {"model_type", "", Use::kWritten, "which kind of model"},
    {"architectures", "", Use::kWritten, "which class of the library"},
    {"torch_dtype", "", Use::kWritten, "type of the weights"},
    {"dtype", "", Use::kWritten, "type of the weights, since transformers 5"},
    {"transformers_version", "", Use::kKept, "what wrote it"},
    {"_name_or_path", "", Use::kKept, "where it was loaded from"},
    {"id2label", "", Use::kRead, "names of the classes"},
    {"label2id", "", Use::kRead, "names of the classes"},
    {"num_labels", "", Use::kRead, "how many classes"},
    {"_num_labels", "", Use::kRead, "how many classes"},
    {"problem_type", "", Use::kRead, "what the head tells"},
    {"finetuning_task", "", Use::kRead, "what it was trained for"},
    {"num_channels", "", Use::kRead, "channels of pictures"},
    {"hidden_act", "", Use::kRead, "activation"},
    {"hidden_size", "vit", Use::kRead, "channels"},
    {"num_hidden_layers", "vit", Use::kRead, "layers"},
    {"num_attention_heads", "vit", Use::kRead, "heads"},
    {"intermediate_size", "vit", Use::kRead, "must be 4 times the channels"},
    {"image_size", "vit", Use::kRead, "side of pictures"},
    {"patch_size", "vit", Use::kRead, "side of a patch"},
    {"layer_norm_eps", "vit", Use::kRead, "of the norms; absent: 1e-12"},
    {"qkv_bias", "vit", Use::kRead, "must be true"},
    {"initializer_range", "", Use::kKept, "deviation of new weights"},
    {"hidden_dropout_prob", "vit", Use::kKept, "rate of dropout where its library trains"},
    {"attention_probs_dropout_prob", "vit", Use::kKept, "rate of dropout where its library trains"},
    {"encoder_stride", "vit", Use::kKept, "of a head that lpmm does not have"},
    {"pooler_*", "vit", Use::kKept, "of a head that lpmm does not have"},
    {"embedding_size", "resnet", Use::kRead, "channels behind the stem"},
    {"hidden_sizes", "resnet", Use::kRead, "channels of the stages"},
    {"depths", "resnet", Use::kRead, "blocks of the stages"},
    {"layer_type", "resnet", Use::kRead, "whether blocks are bottlenecks"},
    {"downsample_in_first_stage", "resnet", Use::kRead, "must be false"},
    {"downsample_in_bottleneck", "resnet", Use::kRead, "must be false"},
    {"out_features", "resnet", Use::kKept, "what a call returns"},
    {"out_indices", "resnet", Use::kKept, "what a call returns"},
    {"stage_names", "resnet", Use::kKept, "what a call returns"},
};

constexpr Publisher kPublishers[] = {
    {"transformers", kHuggingFaceFiles, kHuggingFaceKeys, {}, {}},
    {"timm", kImageFiles, kImageKeys, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
    {"torchvision", kImageFiles, kImageKeys, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
};

}  // namespace

bool is_among(std::string_view type, std::string_view types) {
  for (std::size_t at = 0; at < types.size();) {
    const std::size_t end = std::min(types.find(' ', at), types.size());
    if (types.substr(at, end - at) == type) return true;
    at = end + 1;
  }
  return false;
}

std::string_view to_string(Use use) {
  constexpr std::string_view kNames[] = {"read", "read, written anew", "kept", "not used"};
  return kNames[static_cast<std::size_t>(use)];
}

std::span<const Publisher> publishers() {
  return kPublishers;
}

const Publisher& publisher_of(std::string_view name) {
  const auto at = std::ranges::find(kPublishers, name, &Publisher::name);
  return at == std::end(kPublishers) ? kPublishers[0] : *at;
}

const FileRow* find_file(const Publisher& publisher, std::string_view name) {
  if (name.ends_with('/')) return nullptr;
  const auto at = std::ranges::find_if(publisher.files,
                                       [&](const FileRow& row) { return matches_pattern(row.name, name); });
  return at == publisher.files.end() ? nullptr : &*at;
}

bool is_of(const KeyRow& row, std::string_view type) {
  return row.types.empty() || is_among(type, row.types);
}

const KeyRow* find_key(const Publisher& publisher, std::string_view type, std::string_view key) {
  const auto at = std::ranges::find_if(
      publisher.keys, [&](const KeyRow& row) { return is_of(row, type) && matches_pattern(row.key, key); });
  return at == publisher.keys.end() ? nullptr : &*at;
}

}  // namespace lpmm
