#include "experiments/data_sets.h"

#include <fmt/format.h>

#include <string_view>

#include "lpmm/error.h"
#include "lpmm/text.h"

namespace lpmm {

const std::vector<DataSet>& data_sets() {
  static const std::vector<DataSet> table = {
      {"cifar10",
       "https://www.cs.toronto.edu/~kriz",
       "cifar-10-batches-bin",
       {{"data_batch_1.bin", 30730000, "5dd7e06a14cb22eb9f671a540d1b7c25"},
        {"data_batch_2.bin", 30730000, "5ea93a67294ea407fff1d09f752e9692"},
        {"data_batch_3.bin", 30730000, "942cd6a4bcdd0dd3c604fbe906cb4421"},
        {"data_batch_4.bin", 30730000, "ae636b3ba5c66a11e91e8cb52e771fcb"},
        {"data_batch_5.bin", 30730000, "53f37980c15c3d472c316c40844f3f0d"},
        {"test_batch.bin", 30730000, "803d5f7f4d78ea53de84dbe85f74fb6d"}},
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

const DataSet& find_data_set(const std::string& name) {
  std::vector<std::string_view> names;
  for (const DataSet& set : data_sets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  throw UsageError(fmt::format("there is no data set {}; did you mean {}?", name, nearest_name(name, names)));
}

}  // namespace lpmm
