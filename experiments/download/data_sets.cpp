#include "experiments/download/data_sets.h"

#include <fmt/format.h>

#include <string_view>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"

namespace lpmm {

const std::vector<DataSet>& data_sets() {
  static const std::vector<DataSet> table = {
      {"cifar10",
       "https://www.cs.toronto.edu/~kriz",
       "cifar-10-batches-bin",
       {{"data_batch_1.bin", 30730000, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
        {"data_batch_2.bin", 30730000, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
        {"data_batch_3.bin", 30730000, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
        {"data_batch_4.bin", 30730000, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
        {"data_batch_5.bin", 30730000, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
        {"test_batch.bin", 30730000, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}},
       DataFile{"cifar-10-binary.tar.gz", 170052171,
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}},
      {"tinyshakespeare",
       "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare",
       "tinyshakespeare",
       {{"input.txt", 1115394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"}},
       {}},
      {"wikitext2",
       "https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2",
       "wikitext2",
       {{"train.txt", 10797148, "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f"},
        {"valid.txt", 1121681, "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8"},
        {"test.txt", 1256449, "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0"}},
       {}},
      {"gpt2-bpe",
       "https://openaipublic.blob.core.windows.net/gpt-2/models/124M",
       "gpt2-bpe",
       {{"encoder.json", 1042301, "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"},
        {"vocab.bpe", 456318, "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"}},
       {}},
  };
  return table;
}

std::vector<std::string_view> data_set_names() {
  std::vector<std::string_view> names;
  for (const DataSet& set : data_sets()) names.push_back(set.name);
  return names;
}

const DataSet& find_data_set(const std::string& name) {
  for (const DataSet& set : data_sets()) {
    if (set.name == name) return set;
  }
  throw UsageError(fmt::format("there is no data set {}; there are {}{}", name, join(data_set_names()),
                               did_you_mean(nearest_name(name, data_set_names()))));
}

std::string by_hand(const DataSet& set, const std::string& folder, const std::vector<DataFile>& missing) {
  std::vector<std::string_view> names;
  for (const DataFile& file : missing) names.push_back(file.name);
  return fmt::format("by hand: put {} into {}{}", join(names), folder,
                     set.archive ? fmt::format(" ({} holds them)", set.archive->name) : "");
}

}  // namespace lpmm
