// The files of published models, for table.cpp.
#pragma once

#include <string_view>

#include "models/published/table.h"

namespace lpmm {

// Settings of sampling are none of them: `lpmm sample` has its own.
inline constexpr std::string_view kGenerationKeys =
    "_from_model_config transformers_version output_* return_dict* use_cache cache_implementation "
    "bos_token_id eos_token_id pad_token_id decoder_start_token_id forced_eos_token_id bad_words_ids "
    "do_sample";
inline constexpr std::string_view kTokenizerKeys =
    "tokenizer_class processor_class backend auto_map name_or_path model_input_names *_token *_tokens "
    "added_tokens_decoder chat_template model_max_length max_length max_len stride truncation* padding* "
    "pad_to_multiple_of pad_token_type_id return_token_type_ids vocab_size vocab_file merges_file "
    "tokenizer_file special_tokens_map_file use_fast from_slow is_local local_files_only do_lower_case "
    "do_basic_tokenize never_split strip_accents tokenize_chinese_chars clean_up_tokenization_spaces "
    "split_special_tokens spaces_between_special_tokens add_prefix_space trim_offsets errors legacy "
    "legacy_behaviour sp_model_kwargs use_default_system_prompt separate_vocabs source_lang target_lang";
inline constexpr std::string_view kPictureKeys =
    "image_processor_type feature_extractor_type processor_class do_* image_mean image_std rescale_factor "
    "size resample crop_size crop_pct pad_size default_to_square data_format input_data_format "
    "return_tensors device disable_grouping lpmm_*";

inline constexpr FileRow kHuggingFaceFiles[] = {
    {"config.json", Use::kWritten, "sizes and settings of the model"},
    {"model.safetensors", Use::kWritten, "weights"},
    {"model-*.safetensors", Use::kWritten, "a shard of the weights"},
    {"model.safetensors.index.json", Use::kWritten, "which shard has which tensor"},
    {"model.gguf", Use::kWritten, "weights of a GGUF, while it is imported"},
    {"lpmm_tokenizer.json", Use::kWritten, "lpmm's description of the tokenizer", Beside::kTokenizer},
    {"generation_config.json", Use::kRead, "tokens that begin and end a text", Beside::kModel,
     kGenerationKeys},
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
    {"tokenizer_config.json", Use::kRead, "letter case, special and added tokens", Beside::kTokenizer,
     kTokenizerKeys},
    {"special_tokens_map.json", Use::kRead, "names of special tokens", Beside::kTokenizer,
     "*_token *_tokens"},
    {"added_tokens.json", Use::kRead, "tokens added beside the vocabulary", Beside::kTokenizer},
    {"chat_template.jinja", Use::kKept, "how a dialogue becomes a text", Beside::kTokenizer},
    {"chat_template.json", Use::kKept, "how a dialogue becomes a text", Beside::kTokenizer},
    {"additional_chat_templates/*.jinja", Use::kKept, "more of these", Beside::kTokenizer},
    {"modules.json", Use::kRead, "what makes the vector of a sentence", Beside::kSentences,
     "idx name path type kwargs"},
    {"*_Pooling/config.json", Use::kRead, "which positions: a mean of all, the first or the last",
     Beside::kSentences, "*embedding_dimension pooling_mode* include_prompt"},
    {"*_Normalize/config.json", Use::kKept, "vectors of length 1", Beside::kSentences},
    {"sentence_bert_config.json", Use::kRead, "the longest sentence", Beside::kSentences,
     "max_seq_length do_lower_case transformer_task modality_config module_output_name"},
    {"config_sentence_transformers.json", Use::kRead, "prompt, width of vectors", Beside::kSentences,
     "__version__ default_prompt_name prompts similarity_fn_name truncate_dim model_type"},
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

inline constexpr FileRow kImageFiles[] = {
    {"config.json", Use::kWritten, "sizes and settings of the model"},
    {"model.safetensors", Use::kWritten, "weights"},
    {"model-*.safetensors", Use::kWritten, "a shard of the weights"},
    {"model.safetensors.index.json", Use::kWritten, "which shard has which tensor"},
    {"preprocessor_config.json", Use::kRead,
     "mean and deviation of the channels of pictures, size, crop, interpolation", Beside::kModel,
     kPictureKeys},
    {"LICENSE*", Use::kKept, "the licence"},
    {"README.md", Use::kUnused, "the card of the model as it was published"},
    {".gitattributes", Use::kUnused, "how git stored it"},
    {"pytorch_model*.bin", Use::kUnused, "the weights as a pickle"},
};

}  // namespace lpmm
