#include "lpmm/run/log.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"

namespace lpmm {

RunLog::RunLog(const std::string& path) : file_(path, File::Mode::kAppend) {
  if (!file_.lock()) throw RunError(fmt::format("{}: another process is writing this run", path));
  bytes_ = file_.size();
}

void RunLog::cut(std::uint64_t bytes) {
  if (bytes_ < bytes) {
    throw RunError(fmt::format(
        "{}: {} bytes, the checkpoint was saved at {}; the log was changed since: put it back as it was",
        file_.path(), bytes_, bytes));
  }
  std::byte last{'\n'};
  if (bytes > 0) file_.read(bytes - 1, {&last, 1});
  if (last != std::byte{'\n'}) {
    throw RunError(fmt::format(
        "{}: no record ends at byte {}, where the checkpoint was saved; the log was changed since: put "
        "it back as it was",
        file_.path(), bytes));
  }
  file_.truncate(bytes);
  bytes_ = bytes;
}

void RunLog::write(const Json& record) {
  const std::string line = record.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  file_.write(std::as_bytes(std::span(line)));
  bytes_ += line.size();
}

void RunLog::sync() {
  file_.sync();
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
