// Tests which pictures are found in folders and by tables, and what is said of the rest.
#include "experiments/pack/picture_list.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

// Lists are made of the first bytes of files.
class PictureLists : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes = "\x89PNG") const {
    fs::create_directories((fs::path(scratch_.path()) / name).parent_path());
    write_text(scratch_ / name, bytes);
    return scratch_ / name;
  }
  void some(const std::string& folder, int count) const {
    for (int i = 0; i < count; ++i) write(folder + "/" + std::to_string(i) + ".png");
  }
  PictureSource source(const std::string& name) const {
    PictureSource s;
    s.path = scratch_ / name;
    return s;
  }
  PictureList list(const std::string& name) const { return list_pictures(source(name)); }
  template <class Error = RunError>
  static void refused(const PictureSource& s, const std::vector<std::string>& words) {
    try {
      list_pictures(s);
      FAIL() << "no error";
    } catch (const Error& error) {
      for (const std::string& word : words) {
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << word << " in " << error.what();
      }
    }
  }
  Scratch scratch_;
};

TEST_F(PictureLists, OfAFlatFolderKeepAShareOfEachClassForTests) {
  some("flat/a", 10);
  some("flat/b", 2);
  some("flat/10", 30);
  PictureSource s = source("flat");
  s.validation_share = 0.2;
  const PictureList drawn = list_pictures(s);
  EXPECT_EQ(drawn.names, (std::vector<std::string>{"10", "a", "b"}));
  EXPECT_EQ(drawn.train, 24 + 8 + 1);
  std::vector<int> tests(3);
  for (std::size_t i = static_cast<std::size_t>(drawn.train); i < drawn.paths.size(); ++i)
    ++tests[drawn.labels[i]];
  EXPECT_EQ(tests, (std::vector<int>{6, 2, 1}));
  EXPECT_EQ(std::set(drawn.paths.begin(), drawn.paths.end()).size(), 42U);
  EXPECT_EQ(drawn.tested, "20 % of each class, drawn");
  EXPECT_EQ(list_pictures(s).paths, drawn.paths);
  s.seed = 2;
  EXPECT_NE(list_pictures(s).paths, drawn.paths);
  s.validation_share = 0;
  refused<UsageError>(s, {"a share of 0", "data.validation_share"});
  write("flat/c/1.png");
  refused(source("flat"), {"class c has 1 pictures"});
}

TEST_F(PictureLists, KnowTheirPartsByTheUsualNames) {
  for (const char* test : {"test", "val", "validation", "valid", "dev", "VAL"}) {
    fs::remove_all(scratch_ / "set");
    write("set/Train/a/deep/er/1.JPG", "\xFF\xD8\xFF");
    some("set/Train/b", 2);
    some(std::string("set/") + test + "/a", 1);
    some(std::string("set/") + test + "/b", 1);
    const PictureList found = list("set");
    EXPECT_EQ(found.train, 3) << test;
    EXPECT_EQ(found.labels, (std::vector<std::uint16_t>{0, 1, 1, 0, 1})) << test;
    EXPECT_EQ(found.tested, std::string("those of ") + test);
  }
  // Two of them: the first in that order, or the one that is asked for. The other is named.
  some("set/test/a", 1);
  some("set/test/b", 3);
  some("set/more/c", 3);
  EXPECT_EQ(list("set").paths.size(), 3U + 4);
  EXPECT_EQ(list("set").not_used, (std::vector<std::string>{"VAL", "more"}));
  PictureSource s = source("set");
  s.test = "val";
  EXPECT_EQ(list_pictures(s).paths.size(), 3U + 2);
  s.test = "dev";
  refused<UsageError>(s, {"no folder dev"});
  s = source("set");
  s.asks_share = true;
  refused<UsageError>(s, {"has test pictures"});
  fs::remove_all(scratch_ / "set/Train");
  refused(source("set"), {"folder test", "no folder train"});
}

TEST_F(PictureLists, AClassMayBeCalledTrain) {
  some("traffic/car", 3);
  some("traffic/train", 3);
  EXPECT_EQ(list("traffic").names, (std::vector<std::string>{"car", "train"}));
}

TEST_F(PictureLists, CountWhatIsNoPicture) {
  some("set/a", 3);
  some("set/b", 3);
  for (const char* name :
       {"set/a/Thumbs.db", "set/b/.DS_Store", "set/desktop.ini", "set/.git/x.png", "set/b/._1.png"})
    write(name, "text");
  const PictureList found = list("set");
  EXPECT_EQ(found.paths.size(), 6U);
  EXPECT_EQ(found.no_pictures.count, 5);
  EXPECT_EQ(fs::path(found.no_pictures.first).filename(), ".git");
}

TEST_F(PictureLists, NameOtherFormatsAndWhatToDo) {
  some("set/a", 3);
  some("set/b", 3);
  const std::pair<const char*, std::string> files[] = {{"WebP", std::string("RIFF\1\0\0\0WEBPVP8 ", 16)},
                                                       {"GIF", "GIF89a"},
                                                       {"BMP", std::string("BM\x46\0\0\0\0\0\0\0", 10)},
                                                       {"TIFF", std::string("II*\0\x08", 5)},
                                                       {"HEIC", std::string("\0\0\0\x18"
                                                                            "ftypheic",
                                                                            12)},
                                                       {"AVIF", std::string("\0\0\0\x18"
                                                                            "ftypavif",
                                                                            12)}};
  for (const auto& [format, bytes] : files) {
    write("set/a/photo.jpg", bytes);  // whatever its name says
    refused(source("set"),
            {scratch_ / "set/a/photo.jpg", std::string("is a ") + format, "mogrify", "There are 1"});
  }
  PictureSource s = source("set");
  s.skips_others = true;
  EXPECT_EQ(list_pictures(s).other_formats.count, 1);
  EXPECT_EQ(list_pictures(s).paths.size(), 6U);
}

TEST_F(PictureLists, SayWhatIsWrongWithFolders) {
  refused(source("nowhere"), {"nowhere", "cannot be read"});
  some("set/train/Cat", 2);
  refused(source("set"), {"1 class (Cat)"});
  some("set/train/dog", 2);
  some("set/test/cat", 1);
  some("set/test/dog", 1);
  refused(source("set"), {"called Cat among the training pictures and cat among the test ones"});
  fs::rename(scratch_ / "set/test/cat", scratch_ / "set/test/Cat");
  EXPECT_EQ(list("set").paths.size(), 6U);
  fs::create_directory(scratch_ / "set/train/owl");
  refused(source("set"), {"set/train/owl", "holds no pictures"});
  some("set/train/owl", 1);
  refused(source("set"), {"class owl has training images but no test images: give it some"});
  fs::remove_all(scratch_ / "set/train/owl");
  write("set/train/1.png");
  refused(source("set"), {"set/train/1.png", "lies in no folder of a class", ".csv"});
}

TEST_F(PictureLists, OfATableGoByTheNamesOfItsColumns) {
  for (const char* name : {"t/p/1.jpg", "t/p/2.jpg", "t/p/3, x.jpg", "t/p/4.jpg", "t/p/5.jpg", "t/p/6.jpg"})
    write(name);
  const std::string table = write("t/labels.csv",
                                  "\xEF\xBB\xBFid, Filename ,LABEL\r\n1,p/1.jpg,10\r\n2,p/2.jpg,9\r\n"
                                  "3,\"p/3, x.jpg\",10\r\n4,p/4.jpg,9\r\n5,p/5.jpg,9\r\n");
  const PictureList found = list("t/labels.csv");
  EXPECT_EQ(found.names, (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(found.train, 3);
  EXPECT_EQ(found.labels, (std::vector<std::uint16_t>{0, 0, 1, 0, 1}));
  write("t/parts.tsv",
        "image\tclass\tsplit\np/1.jpg\ta\ttrain\np/2.jpg\tb\tTrain\np/3, x.jpg\ta\tval\np/4.jpg\tb\tval\n"
        "p/5.jpg\tb\tother\n");
  const PictureList parts = list("t/parts.tsv");
  EXPECT_EQ(parts.train, 2);
  EXPECT_EQ(parts.paths.size(), 4U);
  EXPECT_EQ(parts.tested, "those of val");
  EXPECT_EQ(parts.not_used, (std::vector<std::string>{"other"}));
  PictureSource s = source("t/labels.csv");
  s.columns = "Filename,id";
  s.validation_share = 0.5;
  refused(s, {"class 1 has 1 pictures"});
  s.columns = "Filename,nothing";
  refused(s, {"no column nothing"});
  s.columns = "Filename";
  refused<UsageError>(s, {"FILE,LABEL"});
  // Test pictures that lie elsewhere, in a folder here.
  s.columns = "";
  some("tests/9", 2);
  some("tests/10", 1);
  s.test_path = scratch_ / "tests";
  EXPECT_EQ(list_pictures(s).train, 5);
  EXPECT_EQ(list_pictures(s).paths.size(), 8U);
  EXPECT_EQ(list_pictures(s).tested, "those of " + s.test_path);
  const auto wrong = [&](const std::string& text, const std::vector<std::string>& words) {
    write("t/wrong.csv", text);
    refused(source("t/wrong.csv"), words);
  };
  wrong("", {"wrong.csv"});
  wrong("id,label\n1,a\n",
        {"the columns id, label", "no column file or filename", "data.columns=FILE,LABEL"});
  wrong("file,label\nnone.jpg,a\n", {"line 2 names none.jpg", "no file"});
  wrong("file,label\np/1.jpg,a\np/1.jpg,b\n", {"line 3 names p/1.jpg again, as b; line 2 has it as a"});
  wrong("file,label\np/1.jpg,\n", {"line 2 has no file or no label", "data.skip_broken"});
  write("t/some.csv",
        "file,label\nnone.jpg,a\np/1.jpg,a\np/2.jpg,a\np/1.jpg,b\np/4.jpg\np/4.jpg,b\np/5.jpg,b\n");
  PictureSource some = source("t/some.csv");
  some.skips_others = true;
  testing::internal::CaptureStderr();
  EXPECT_EQ(list_pictures(some).paths.size(), 4U);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("3 of 7 cannot be read and are left out"), std::string::npos) << told;
  EXPECT_NE(told.find("some.csv: line 2 names none.jpg"), std::string::npos) << told;
  wrong("file,label\np/1.jpg,a\np/2.jpg,a\n", {"1 class (a)"});
  wrong("file,label,split\np/1.jpg,a,1\np/2.jpg,a,2\n", {"has no row to train on"});
  write("t/lines.jsonl",
        "{\"image\": \"p/1.jpg\", \"label\": 3}\n{\"image\": \"p/2.jpg\", \"label\": 3}\n"
        "{\"image\": \"p/4.jpg\", \"label\": 12}\n{\"image\": \"p/5.jpg\", \"label\": 12}\n");
  EXPECT_EQ(list("t/lines.jsonl").names, (std::vector<std::string>{"3", "12"}));
}

}  // namespace
}  // namespace lpmm
