// Tests of the parts of `lpmm data get`, against a server of a few lines on loopback.
#include "experiments/download/download.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "experiments/download/digest.h"
#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/data/image_sets.h"
#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/files/files.h"
#include "tests/experiments/download/server.h"
#include "tests/experiments/program.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

std::string digest_of(const std::string& bytes) {
  Sha256 digest;
  digest.add(std::as_bytes(std::span(bytes)));
  return digest.hex();
}

DataFile file_of(const std::string& name, const std::string& bytes) {
  return {name, static_cast<std::int64_t>(bytes.size()), digest_of(bytes)};
}

struct Entry {
  std::string path, bytes;
  unsigned int type = AE_IFREG;
  std::string link = {};
};

std::string archive_of(const std::vector<Entry>& entries, bool is_zip) {
  const Scratch scratch;
  const std::string path = scratch / "archive";
  archive* out = archive_write_new();
  if (!is_zip) archive_write_add_filter_gzip(out);
  is_zip ? archive_write_set_format_zip(out) : archive_write_set_format_ustar(out);
  archive_write_open_filename(out, path.c_str());
  for (const Entry& e : entries) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, e.path.c_str());
    archive_entry_set_filetype(entry, e.type);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(e.bytes.size()));
    if (e.type == AE_IFLNK) archive_entry_set_symlink(entry, e.link.c_str());
    if (e.type == AE_IFREG && !e.link.empty()) archive_entry_set_hardlink(entry, e.link.c_str());
    EXPECT_EQ(archive_write_header(out, entry), ARCHIVE_OK) << archive_error_string(out);
    archive_write_data(out, e.bytes.data(), e.bytes.size());
    archive_entry_free(entry);
  }
  archive_write_close(out);
  archive_write_free(out);
  return read_file(path);
}

std::string tar_of(const std::vector<Entry>& entries) {
  return archive_of(entries, false);
}

class Download : public ::testing::Test {
 protected:
  Download() { ::setenv("no_proxy", "127.0.0.1", 1); }

  std::string path(const std::string& name) const { return scratch_ / name; }
  std::string folder() const { return scratch_ / "data"; }
  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  // Two files that come one by one.
  DataSet texts() const {
    return {"texts", "http://nowhere.invalid", "texts", {file_of("a.txt", a_), file_of("b.txt", b_)}, {}};
  }
  // Two files in an archive of these entries.
  DataSet packed(const std::string& archive) const {
    return {"packed", "http://nowhere.invalid", "set", texts().files, file_of("set.tar.gz", archive)};
  }
  Downloaded get(const DataSet& set, const std::string& url, long patience = 30) const {
    Progress quiet(true);
    return download(set, {folder(), url, patience}, quiet);
  }
  // One line with these words; nothing new below the folder but parts.
  void expect_error(const DataSet& set, const std::string& url, const std::vector<std::string>& words,
                    long patience = 30) const {
    const std::vector<std::string> before = files();
    try {
      get(set, url, patience);
      ADD_FAILURE() << "no error";
    } catch (const RunError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      for (const std::string& word : words)
        EXPECT_NE(text.find(word), std::string::npos) << word << ": " << text;
    }
    EXPECT_EQ(files(), before);
  }
  // The place where the downloaded part of a file stays.
  std::string part(const std::string& where, const DataFile& file) const {
    return fmt::format("{}/{}/.{}.{}.part", folder(), where, file.name, file.sha256.substr(0, 16));
  }
  // Every file below the folder of data sets, and every hidden folder; not what can be gone on with.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    if (!fs::is_directory(folder())) return names;
    for (const auto& entry : fs::recursive_directory_iterator(folder())) {
      if (entry.path().extension() == ".part") continue;
      const bool hidden = entry.path().filename().string().starts_with(".");
      if (!entry.is_directory() || hidden)
        names.push_back(entry.path().lexically_relative(folder()).string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  Scratch scratch_;
  std::string a_ = "the first\nfile\n", b_ = std::string(300000, 'b') + '\0' + "end";
};

using Names = std::vector<std::string>;

TEST_F(Download, ChecksumsAreTheKnownOnes) {
  EXPECT_EQ(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(Download, FilesOneByOne) {
  const Server server({{"/a.txt", good(a_)}, {"/b.txt", good(b_)}});
  const Downloaded first = get(texts(), server.url());
  EXPECT_EQ(first.files, (Names{folder() + "/texts/a.txt", folder() + "/texts/b.txt"}));
  EXPECT_EQ(first.present, Names());
  EXPECT_EQ(first.bytes, static_cast<std::int64_t>(a_.size() + b_.size()));
  EXPECT_EQ(read_file(folder() + "/texts/a.txt"), a_);
  EXPECT_EQ(read_file(folder() + "/texts/b.txt"), b_);
  EXPECT_EQ(files(), (Names{"texts/a.txt", "texts/b.txt"}));
  // A file that is there is left alone, and nobody is asked for it.
  fs::remove(folder() + "/texts/a.txt");
  const auto time = fs::last_write_time(folder() + "/texts/b.txt");
  const int requests = server.requests();
  const Downloaded second = get(texts(), server.url());
  EXPECT_EQ(second.files, Names{folder() + "/texts/a.txt"});
  EXPECT_EQ(second.present, Names{folder() + "/texts/b.txt"});
  EXPECT_EQ(second.bytes, static_cast<std::int64_t>(a_.size()));
  EXPECT_EQ(server.requests(), requests + 1);
  EXPECT_EQ(fs::last_write_time(folder() + "/texts/b.txt"), time);
}

TEST_F(Download, AnArchivesFolder) {
  const std::string archive = tar_of({{"set/", "", AE_IFDIR},
                                      {"set/a.txt", a_},
                                      {"set/readme.html", "not asked for"},
                                      {"other/b.txt", "another b"},
                                      {"./set/b.txt", b_}});
  const Server server({{"/set.tar.gz", good(archive)}});
  const Downloaded first = get(packed(archive), server.url());
  EXPECT_EQ(first.files, (Names{folder() + "/set/a.txt", folder() + "/set/b.txt"}));
  EXPECT_EQ(first.bytes, static_cast<std::int64_t>(archive.size()));
  EXPECT_EQ(files(), (Names{"set/a.txt", "set/b.txt"}));
  EXPECT_EQ(read_file(folder() + "/set/a.txt"), a_);
  EXPECT_EQ(read_file(folder() + "/set/b.txt"), b_);
  const Downloaded second = get(packed(archive), server.url());
  EXPECT_EQ(second.present, first.files);
  EXPECT_EQ(second.bytes, 0);
  EXPECT_EQ(server.requests(), 1);
}

// The set is like GLUE's: a folder in a folder, whose files have no checksum of their own.
TEST_F(Download, AZipVouchesForItsFiles) {
  const auto set_of = [&](const std::string& archive) {
    return DataSet{"set",
                   "http://nowhere.invalid",
                   "sets/set",
                   {{"a.txt", 100, ""}, {"b.txt", 400000, ""}},
                   file_of("set.zip", archive)};
  };
  const std::string archive =
      archive_of({{"set/a.txt", a_}, {"__MACOSX/set/._a.txt", "x"}, {"set/b.txt", b_}}, true);
  const Server server({{"/set.zip", good(archive)}});
  const Downloaded first = get(set_of(archive), server.url());
  EXPECT_EQ(files(), (Names{"sets/set/a.txt", "sets/set/b.txt"}));
  EXPECT_EQ(read_file(folder() + "/sets/set/b.txt"), b_);
  EXPECT_EQ(get(set_of(archive), server.url()).present, first.files);
  EXPECT_EQ(server.requests(), 1);
  // A file that is there is looked at a little, and may be compressed.
  write("data/sets/set/b.txt", "");
  expect_error(set_of(archive), server.url(), {"b.txt", "expected 1 to 400000 bytes, found 0 bytes"});
  fs::remove(folder() + "/sets/set/b.txt");
  write("data/sets/set/b.txt.gz", "of somebody's");
  EXPECT_EQ(get(set_of(archive), server.url()).present, first.files);
  fs::remove_all(folder());
  const std::string larger = archive_of({{"set/a.txt", std::string(101, 'a')}, {"set/b.txt", b_}}, true);
  const Server another({{"/set.zip", good(larger)}});
  expect_error(set_of(archive), another.url(), {"set.zip", fmt::format("{} bytes", archive.size())});
  expect_error(set_of(larger), another.url(), {"set.zip: a.txt: expected at most 100 bytes, found more"});
}

TEST_F(Download, SaysWhatIsThere) {
  write("data/texts/a.txt", a_);
  write("data/texts/b.txt", b_);
  ::testing::internal::CaptureStderr();
  {
    Progress progress(false);
    download(texts(), {folder(), "http://nowhere.invalid"}, progress);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(folder() + "/texts/a.txt: is there already"), std::string::npos) << said;
}

// Somebody's file is not replaced, and nothing is asked for.
TEST_F(Download, AnotherFileUnderTheNameStays) {
  const Server server({{"/a.txt", good(a_)}, {"/b.txt", good(b_)}});
  write("data/texts/b.txt", "mine");
  expect_error(texts(), server.url(), {"b.txt", "300004 bytes", "found 4", "remove it", "--to"});
  std::string other = b_;
  other[7] = 'B';
  write("data/texts/b.txt", other);
  expect_error(texts(), server.url(), {"b.txt", digest_of(b_), digest_of(other)});
  EXPECT_EQ(read_file(folder() + "/texts/b.txt"), other);
  write("data/set/a.txt", a_);
  expect_error(packed("x"), server.url(), {"data/set", "b.txt", "remove it"});
  fs::remove_all(path("data/set"));
  write("data/set", "");
  expect_error(packed("x"), server.url(), {"data/set: is no folder", "remove it"});
  // Links that lead nowhere, to a disk that is away for instance.
  fs::remove(path("data/set"));
  fs::create_symlink(path("away"), path("data/set"));
  expect_error(packed("x"), server.url(), {"data/set"});
  fs::remove(path("data/texts/b.txt"));
  fs::create_symlink(path("away"), path("data/texts/b.txt"));
  expect_error(texts(), server.url(), {"b.txt"});
  EXPECT_TRUE(fs::is_symlink(path("data/texts/b.txt")));
  EXPECT_EQ(server.requests(), 0);
}

TEST_F(Download, WrongContentIsRefused) {
  std::string other = a_;
  other[0] = 'T';
  const Server server({{"/wrong/a.txt", good(other)},
                       {"/short/a.txt", good("short")},
                       {"/long/a.txt", good(a_ + "and more")},
                       {"/endless/a.txt", {"HTTP/1.1 200 OK\r\n\r\n" + std::string(1 << 20, 'x')}},
                       {"/empty/a.txt", good("")}});
  const std::string bytes = fmt::format("{} bytes", a_.size());
  expect_error(
      texts(), server.url() + "/wrong",
      {server.url() + "/wrong/a.txt", "expected SHA-256 " + digest_of(a_), "found " + digest_of(other)});
  expect_error(texts(), server.url() + "/short", {"/short/a.txt", "expected " + bytes, "found 5"});
  expect_error(texts(), server.url() + "/long", {"/long/a.txt", "expected " + bytes, "found more"});
  expect_error(texts(), server.url() + "/endless", {"/endless/a.txt", "expected " + bytes, "found more"});
  expect_error(texts(), server.url() + "/empty", {"/empty/a.txt", "expected " + bytes, "found 0"});
}

TEST_F(Download, ABrokenNetworkSaysWhatToDo) {
  const std::string by_hand = "by hand: put a.txt, b.txt into " + folder() + "/texts";
  const std::string head = head_of(a_.size());
  const Server server({{"/cut/a.txt", {head + a_.substr(0, 5)}},
                       {"/mute/a.txt", {"", wait_for_hangup}},
                       {"/stalled/a.txt", {head + a_.substr(0, 5), wait_for_hangup}},
                       {"/nonsense/a.txt", {"hello\r\n\r\n"}}});
  expect_error(texts(), server.url() + "/nothing", {"/nothing/a.txt", "404", by_hand});
  expect_error(texts(), server.url() + "/cut", {"/cut/a.txt", by_hand});
  expect_error(texts(), server.url() + "/nonsense", {"/nonsense/a.txt", by_hand});
  expect_error(texts(), server.url() + "/mute", {"/mute/a.txt", "slow", by_hand}, 1);
  expect_error(texts(), server.url() + "/stalled", {"/stalled/a.txt", "slow", by_hand}, 1);
  const Port closed;
  fs::remove_all(folder());
  expect_error(texts(), closed.url(), {"a.txt"});
  EXPECT_FALSE(fs::exists(folder()));  // there is no folder if nothing came
  expect_error(texts(), closed.url(), {closed.url() + "/a.txt", by_hand});
  expect_error(packed("x"), closed.url(),
               {"set.tar.gz", "put a.txt, b.txt into " + folder() + "/set (set.tar.gz holds them)"});
  // The bytes that came before the break stay, and only the rest is asked for by hand.
  const Server half({{"/a.txt", good(a_)}});
  EXPECT_THROW(get(texts(), half.url()), RunError);
  EXPECT_EQ(files(), Names{"texts/a.txt"});
  expect_error(texts(), closed.url(), {"put b.txt into"});
}

TEST_F(Download, RedirectsStayOnTheWeb) {
  write("secret", a_);
  const Server server({{"/moved/a.txt", redirect("/a.txt")},
                       {"/moved/b.txt", redirect("/b.txt")},
                       {"/a.txt", good(a_)},
                       {"/b.txt", good(b_)},
                       {"/file/a.txt", redirect("file://" + path("secret"))},
                       {"/circle/a.txt", redirect("/circle/a.txt")}});
  expect_error(texts(), server.url() + "/file", {"/file/a.txt", "file"});
  expect_error(texts(), server.url() + "/circle", {"/circle/a.txt", "redirects"});
  expect_error(texts(), "file://" + scratch_.path(), {"file"});
  get(texts(), server.url() + "/moved");
  EXPECT_EQ(read_file(folder() + "/texts/a.txt"), a_);
}

TEST_F(Download, ArchivesThatAreNotAsKnown) {
  const auto refuse = [&](const std::vector<Entry>& entries, const std::vector<std::string>& words) {
    const std::string archive = tar_of(entries);
    const Server server({{"/set.tar.gz", good(archive)}});
    expect_error(packed(archive), server.url(), words);
    EXPECT_FALSE(fs::exists(folder() + "/set"));
  };
  const Entry a = {"set/a.txt", a_}, b = {"set/b.txt", b_};
  refuse({a, b, {"../out.txt", "x"}}, {"set.tar.gz", "../out.txt", "not a plain file"});
  refuse({a, b, {"set/../../out.txt", "x"}}, {"set/../../out.txt"});
  refuse({a, b, {path("out.txt"), "x"}}, {path("out.txt"), "not a plain file"});
  refuse({{"set", "", AE_IFLNK, scratch_.path()}, a, b}, {"holds set,"});
  refuse({{"set/a.txt", "", AE_IFLNK, "/etc/passwd"}, b}, {"holds set/a.txt,"});
  refuse({b, {"set/a.txt", "", AE_IFREG, "set/b.txt"}}, {"holds set/a.txt,"});
  refuse({{"set/a.txt", "", AE_IFIFO}, b}, {"holds set/a.txt,"});
  refuse({a}, {"lacks set/b.txt"});
  refuse({a, {"set/b.txt", b_ + "more"}}, {"b.txt: expected 300004 bytes, found more"});
  refuse({a, {"set/b.txt", "less"}}, {"b.txt: expected 300004 bytes, found 4"});
  const auto refuse_bytes = [&](const std::string& archive, const std::string& why) {
    const Server server({{"/set.tar.gz", good(archive)}});
    expect_error(packed(archive), server.url(), {"set.tar.gz: " + why});
  };
  const std::string whole = tar_of({a, b});
  refuse_bytes(whole.substr(0, whole.size() / 2), "truncated gzip input");
  refuse_bytes("not an archive", "Unrecognized archive format");
  refuse_bytes("", "Unrecognized archive format");
  EXPECT_FALSE(fs::exists(path("out.txt")));
}

// Folders and links called .download are the user's.
TEST_F(Download, NothingOfTheUserIsRemoved) {
  const Server server({{"/a.txt", good(a_)}, {"/b.txt", good(b_)}});
  const Port closed;
  write("data/texts/.download/notes", "mine");
  write("thesis/chapter", "mine too");
  fs::create_symlink(path("thesis"), path("data/.download"));
  expect_error(texts(), closed.url(), {"by hand"});
  expect_error(packed("x"), closed.url(), {"by hand"});
  get(texts(), server.url());
  const std::string archive = tar_of({{"set/a.txt", a_}, {"set/b.txt", b_}});
  const Server packed_server({{"/set.tar.gz", good(archive)}});
  get(packed(archive), packed_server.url());
  EXPECT_EQ(read_file(path("data/texts/.download/notes")), "mine");
  EXPECT_EQ(read_file(path("thesis/chapter")), "mine too");
  EXPECT_TRUE(fs::is_symlink(path("data/.download")));
}

TEST_F(Download, ABrokenDownloadGoesOn) {
  const DataFile b = texts().files[1];
  const std::size_t half = 150000;
  const std::string cut = head_of(b_.size()) + b_.substr(0, half);
  {
    const Server server({{"/a.txt", good(a_)}, {"/b.txt", {cut}}});
    expect_error({"texts", "", "texts", {b}, {}}, server.url(), {"/b.txt"});
  }
  EXPECT_TRUE(read_file(part("texts", b)) == b_.substr(0, half));
  const Server server({{"/a.txt", good(a_)}, {"/b.txt", with_parts(b_)}});
  const Downloaded rest = get(texts(), server.url());
  EXPECT_EQ(rest.bytes, static_cast<std::int64_t>(a_.size() + b_.size() - half));
  EXPECT_TRUE(read_file(folder() + "/texts/b.txt") == b_);
  EXPECT_FALSE(fs::exists(part("texts", b)));
}

// The file there may be whole, broken or too long, and the server may not know of parts.
TEST_F(Download, WhatCannotBeGoneOnWithComesAnew) {
  const DataFile b = texts().files[1];
  const Server server({{"/plain/b.txt", good(b_)}, {"/parts/b.txt", with_parts(b_)}});
  const DataSet set = {"texts", "", "texts", {b}, {}};
  const std::string other(150000, 'x');
  const auto bytes_of = [&](const std::string& before, const std::string& where) {
    write("data/texts/" + fs::path(part("texts", b)).filename().string(), before);
    const std::int64_t bytes = get(set, server.url() + where).bytes;
    EXPECT_TRUE(read_file(folder() + "/texts/b.txt") == b_);
    EXPECT_FALSE(fs::exists(part("texts", b)));
    fs::remove(folder() + "/texts/b.txt");
    return bytes;
  };
  const std::int64_t size = b.bytes;
  EXPECT_EQ(bytes_of(b_.substr(0, 1000), "/plain"), size);
  EXPECT_EQ(bytes_of(b_, "/plain"), 0);
  EXPECT_EQ(bytes_of(std::string(b_.size(), 'x'), "/parts"), size);
  EXPECT_EQ(bytes_of(b_ + "more", "/parts"), size);
  EXPECT_EQ(bytes_of(other, "/parts"), size + size - 150000);
}

TEST_F(Download, APartIsNoLinkAndNobodyElses) {
  const Server server({{"/a.txt", with_parts(a_)}, {"/b.txt", good(b_)}});
  const std::string part_a = part("texts", texts().files[0]);
  write("thesis", "mine");
  fs::create_directories(folder() + "/texts");
  fs::create_symlink(path("thesis"), part_a);
  expect_error(texts(), server.url(), {part_a, "no plain file"});
  EXPECT_EQ(read_file(path("thesis")), "mine");
  fs::remove(part_a);
  {
    File other(part_a, File::Mode::kAppend);
    ASSERT_TRUE(other.lock());
    expect_error(texts(), server.url(), {"data/texts/a.txt: another"});
  }
  get(texts(), server.url());
  EXPECT_EQ(files(), (Names{"texts/a.txt", "texts/b.txt"}));
}

// The files that a killed process has unpacked are cleared away, as far as they are of the set.
TEST_F(Download, LeftoversAreClearedAway) {
  const std::string archive = tar_of({{"set/a.txt", a_}, {"set/b.txt", b_}});
  const Server server({{"/set.tar.gz", good(archive)}});
  write("data/.set.unpacking.killed/set/a.txt", "half");
  write("data/.set.unpacking.mixed/set/a.txt", "half");
  write("data/.set.unpacking.mixed/set/mine", "mine");
  write("thesis/set/a.txt", "mine too");
  fs::create_symlink(path("thesis"), path("data/.set.unpacking.link"));
  get(packed(archive), server.url());
  EXPECT_FALSE(fs::exists(path("data/.set.unpacking.killed")));
  EXPECT_EQ(read_file(path("data/.set.unpacking.mixed/set/mine")), "mine");
  EXPECT_EQ(read_file(path("thesis/set/a.txt")), "mine too");
}

// The server presses Ctrl-C when half of the file is out.
TEST_F(Download, CtrlCLeavesWhatCanBeGoneOnWith) {
  const std::string head = head_of(b_.size());
  const auto interrupt = [](int socket) {
    ::kill(::getpid(), SIGINT);
    wait_for_hangup(socket);
  };
  const Server server({{"/a.txt", good(a_)}, {"/b.txt", {head + b_.substr(0, 150000), interrupt}}});
  {
    const InterruptGuard guard;
    EXPECT_THROW(get(texts(), server.url(), 3600), Interrupted);
  }
  EXPECT_TRUE(b_.starts_with(read_file(part("texts", texts().files[1]))));
  EXPECT_EQ(files(), Names{"texts/a.txt"});
}

TEST_F(Download, DisksThatDoNotTakeIt) {
  const Port closed;
  write("data", "a file");
  expect_error(texts(), closed.url(), {folder()});
  fs::remove(folder());
  DataSet huge = texts();
  huge.files[1].bytes = std::int64_t{1} << 60;
  expect_error(huge, closed.url(), {folder() + "/texts", "the disk has", "texts takes 1153 PB"});
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::remove_all(folder());
  fs::create_directory(folder());
  fs::permissions(folder(), fs::perms::owner_read | fs::perms::owner_exec);
  expect_error(texts(), closed.url(), {folder() + "/texts", "Permission denied"});
  expect_error(packed("x"), closed.url(), {folder(), "Permission denied"});
  fs::permissions(folder(), fs::perms::owner_all);
}

TEST(DataSets, TheTableIsWhatTheProgramReads) {
  for (const DataSet& set : data_sets()) {
    EXPECT_EQ(&find_data_set(set.name), &set);
    EXPECT_TRUE(set.address.starts_with("https://") && !set.address.ends_with("/")) << set.address;
    for (const DataFile& file : set.files) {
      EXPECT_TRUE(file.sha256.size() == 64 || (set.archive && file.sha256.empty())) << file.name;
    }
    EXPECT_EQ(set.archive.value_or(DataFile{"", 0, std::string(64, '0')}).sha256.size(), 64U);
  }
  const Scratch scratch;
  fs::create_directory(scratch / find_data_set("cifar10").folder);
  EXPECT_TRUE(has_cifar10(scratch.path()));
  EXPECT_EQ(find_data_set("cifar10").files.size(), 6U);
  EXPECT_EQ(find_data_set("gpt2-bpe").folder, "gpt2-bpe");
  for (const NamedSentences& sentences : named_sentence_sets()) {
    if (sentences.name == "mrpc") continue;  // its sets are not published as files of their own
    EXPECT_EQ(find_data_set(std::string(sentences.name)).folder, sentences.folder);
  }
  for (const NamedImages& images : named_image_sets()) {
    EXPECT_EQ(find_data_set(std::string(images.name)).folder, images.folder);
  }
}

}  // namespace
}  // namespace lpmm
