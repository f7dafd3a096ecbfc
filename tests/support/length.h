// The two lengths of tests/run.sh, for tests that look at fewer cases in the short one.
#ifndef CHORALE_TESTS_SUPPORT_LENGTH_H_
#define CHORALE_TESTS_SUPPORT_LENGTH_H_

#include <cstdlib>
#include <string_view>

namespace chorale {

// True in the full length, and where CHORALE_TEST_LENGTH=full is set by hand.
inline bool FullLength() {
  const char* length = std::getenv("CHORALE_TEST_LENGTH");
  return length != nullptr && std::string_view(length) == "full";
}

}  // namespace chorale

#endif  // CHORALE_TESTS_SUPPORT_LENGTH_H_
