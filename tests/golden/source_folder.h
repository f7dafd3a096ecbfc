// Where tests find the files of the repository.
#ifndef CHORALE_TESTS_GOLDEN_SOURCE_FOLDER_H_
#define CHORALE_TESTS_GOLDEN_SOURCE_FOLDER_H_

#include <cstdlib>
#include <string>

namespace chorale {

// The one that was built from; CHORALE_SOURCE_DIR in the environment names another, for a test
// program that runs on another machine than it was built on.
inline std::string SourceFolder() {
  const char* elsewhere = std::getenv("CHORALE_SOURCE_DIR");
  return elsewhere == nullptr ? CHORALE_SOURCE_DIR : elsewhere;
}

}  // namespace chorale

#endif  // CHORALE_TESTS_GOLDEN_SOURCE_FOLDER_H_
