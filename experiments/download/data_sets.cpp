#include "experiments/download/data_sets.h"

#include <fmt/format.h>

#include <string_view>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"

namespace lpmm {
namespace {

// Krizhevsky 2009.
DataSet cifar10() {
  return {"cifar10",
          "https://www.cs.toronto.edu/~kriz",
          "cifar-10-batches-bin",
          {{"data_batch_1.bin", 30730000, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
           {"data_batch_2.bin", 30730000, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
           {"data_batch_3.bin", 30730000, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
           {"data_batch_4.bin", 30730000, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
           {"data_batch_5.bin", 30730000, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
           {"test_batch.bin", 30730000, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}},
          DataFile{"cifar-10-binary.tar.gz", 170052171,
                   "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}};
}

// Task 1 of the challenge: Elliott et al. 2016.
DataSet multi30k() {
  return {
      "multi30k",
      "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw",
      "multi30k",
      {{"train.en.gz", 568929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"},
       {"train.de.gz", 637044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"},
       {"val.en.gz", 21650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"},
       {"val.de.gz", 24681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"},
       {"test_2016_flickr.en.gz", 21077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"},
       {"test_2016_flickr.de.gz", 22890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"}},
      {}};
}

// Some tasks of GLUE (Wang et al. 2019, https://gluebenchmark.com); checksums are those of TensorFlow
// Datasets.
DataSet glue(const std::string& name, const std::string& folder, std::int64_t bytes,
             const std::string& sha256) {
  constexpr std::int64_t kMost = 1 << 26;
  return {name,
          "https://dl.fbaipublicfiles.com/glue/data",
          "glue/" + folder,
          {{"train.tsv", kMost, ""}, {"dev.tsv", kMost, ""}},
          DataFile{folder + ".zip", bytes, sha256}};
}

}  // namespace

const std::vector<DataSet>& data_sets() {
  static const std::vector<DataSet> table = {
      cifar10(),
      {"fashion-mnist",
       "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
       "fashion-mnist",
       {{"train-images-idx3-ubyte.gz", 26421880,
         "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
        {"train-labels-idx1-ubyte.gz", 29515,
         "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
        {"t10k-images-idx3-ubyte.gz", 4422102,
         "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
        {"t10k-labels-idx1-ubyte.gz", 5148,
         "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}},
       {}},
      {"mnist",
       "https://ossci-datasets.s3.amazonaws.com/mnist",
       "mnist",
       {{"train-images-idx3-ubyte.gz", 9912422,
         "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
        {"train-labels-idx1-ubyte.gz", 28881,
         "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
        {"t10k-images-idx3-ubyte.gz", 1648877,
         "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
        {"t10k-labels-idx1-ubyte.gz", 4542,
         "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}},
       {}},
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
      multi30k(),
      glue("sst2", "SST-2", 7439277, "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
      glue("cola", "CoLA", 376971, "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"),
      glue("rte", "RTE", 697150, "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),
      glue("stsb", "STS-B", 802872, "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85"),
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
