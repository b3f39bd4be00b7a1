// A file that one process holds at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lpmm/files/files.h"

namespace lpmm {

// Opened or made, and locked until it goes or the process ends, however that happens.
class LockedFile {
 public:
  // Throws RunError: "`name`: `busy`" where another process holds it, and where something else than a plain
  // file lies there, a link for instance.
  LockedFile(const std::string& path, const std::string& name, const std::string& busy);
  // The same, but waits where another process holds it, after `is_held` was called once.
  LockedFile(const std::string& path, const std::string& name, const std::function<void()>& is_held);
  File& file() { return *file_; }
  // Takes its name away, while it is held.
  void remove();

 private:
  // Until it is one that has its name: the process that held it may just have taken that away. `is_held` may
  // throw.
  void open(const std::string& name, const std::function<void()>& is_held);
  std::string path_;
  std::optional<File> file_;
};

// Keeps a folder for one process: a file in it that is there as long as this lives.
class FolderLock {
 public:
  // Makes the folder. `work` says what goes on in it: "a sweep".
  FolderLock(const std::string& folder, const std::string& work);
  ~FolderLock() { file_.remove(); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  LockedFile file_;
};

}  // namespace lpmm
