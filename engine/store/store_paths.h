// The paths of files and folders in a store's folder.
#ifndef CHORALE_ENGINE_STORE_STORE_PATHS_H_
#define CHORALE_ENGINE_STORE_STORE_PATHS_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace chorale {

struct StorePaths {
  explicit StorePaths(const std::string& folder)
      : database(absl::StrCat(folder, "/contexts.db")),
        lock(absl::StrCat(folder, "/LOCK")),
        reserve(absl::StrCat(folder, "/RESERVE")),
        datasets(absl::StrCat(folder, "/datasets")),
        lost(absl::StrCat(folder, "/lost")) {}

  // Files.
  std::string database;
  std::string lock;
  std::string reserve;
  // Folders.
  std::string datasets;
  std::string lost;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_STORE_PATHS_H_
