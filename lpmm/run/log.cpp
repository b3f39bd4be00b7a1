#include "lpmm/run/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

// The wish to stop, as a file beside the log.
std::string wish_of(const std::string& path) {
  return (std::filesystem::path(path).parent_path() / "stop").string();
}

}  // namespace

RunLog::RunLog(const std::string& path) : path_(path), file_(path, File::Mode::kAppend) {
  if (!file_.lock() || !file_.has_name())
    throw RunError(fmt::format("{}: another process is writing this run", path));
  bytes_ = file_.size();
  ::unlink(wish_of(path_).c_str());  // meant for a process that was killed
}

RunLog::~RunLog() {
  ::unlink(wish_of(path_).c_str());
  if (bytes_ == 0) ::unlink(path_.c_str());  // still locked: nobody else writes it
}

void RunLog::cut(std::uint64_t bytes, std::optional<std::uint32_t> crc32, const std::string& checkpoint) {
  const auto refuse = [&](const std::string& what) {
    throw RunError(
        fmt::format("{}: {}. Put the log back as it was, or start a new run from the checkpoint's weights "
                    "(--init {}) in another folder (--out)",
                    file_.path(), what, checkpoint));
  };
  if (bytes_ < bytes) refuse(fmt::format("{} bytes, the checkpoint was saved at {}", bytes_, bytes));
  std::byte last{'\n'};
  if (bytes > 0) file_.read(bytes - 1, {&last, 1});
  if (last != std::byte{'\n'}) {
    refuse(fmt::format("no record ends at byte {}, where the checkpoint was saved", bytes));
  }
  const std::uint32_t found = file_.checksum(bytes);
  if (crc32 && found != *crc32) {
    refuse(
        fmt::format("is damaged: the checksum of its first {} bytes is {:08x}, it was {:08x} when the "
                    "checkpoint was saved",
                    bytes, found, *crc32));
  }
  file_.truncate(bytes);
  bytes_ = bytes;
  crc32_ = found;
}

void RunLog::write(const Json& record) {
  const std::string line = record.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  try {
    file_.write(std::as_bytes(std::span(line)));
  } catch (const RunError&) {
    if (file_.size() > bytes_) file_.truncate(bytes_);  // no half record before the next one
    throw;
  }
  bytes_ += line.size();
  crc32_ = crc32(std::as_bytes(std::span(line)), crc32_);
}

void RunLog::sync() {
  file_.sync();
}

void RunLog::check_place() const {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path_, error);
  // Network file systems may give it another inode number, or fail for a while.
  if (file_.has_name() || size == bytes_ || (error && error != std::errc::no_such_file_or_directory)) return;
  throw RunError(fmt::format(
      "{}: is {}: the log or its folder was moved, removed or replaced while the run wrote it. Put it back, "
      "or name the folder where it lies now (--out), and go on from its newest checkpoint (--resume)",
      path_, error ? "gone" : "another file"));
}

bool RunLog::is_to_stop() const {
  return ::access(wish_of(path_).c_str(), F_OK) == 0;
}

bool ask_to_stop(const std::string& path) {
  if (File(path, File::Mode::kAppend).lock()) return false;
  const std::string wish = wish_of(path);
  std::error_code none;
  if (!std::filesystem::exists(std::filesystem::symlink_status(wish, none))) {
    const File made(wish, File::Mode::kNew);
  }
  return true;
}

std::vector<Json> read_log(const std::string& path) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(path, ignored);
  std::ifstream in(is_file ? path : "", std::ios::binary);
  if (!in) throw RunError(fmt::format("{}: cannot be opened; is this a run's folder?", path));
  std::vector<Json> records;
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // no newline: the writer was stopped in the middle
    Json record;
    try {
      record = parse_json(line);
    } catch (const std::exception&) {
      record = nullptr;
    }
    if (!record.is_object() || !record.contains("type") || !record["type"].is_string()) {
      throw RunError(fmt::format("{}:{}: is no log record", path, records.size() + 1));
    }
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace lpmm
