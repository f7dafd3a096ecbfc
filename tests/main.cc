// The main function of every test program. Built with it, once for all of them: the headers that
// they share (tests/CMakeLists.txt).
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "gmock/gmock.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// The sanitizer does not see how copies of an absl::Status count their references, because the
// distribution builds Abseil without it. It therefore takes the end of the last copy for a race
// with whatever read another copy before, in another thread.
extern "C" const char* __tsan_default_suppressions();   // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:absl::*Status::Unref\n"
         "race:inlined_vector_internal::Storage<absl::*status_internal::Payload\n";
}
#endif
#endif

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  // testing::TempDir() is this process's own, so that runs side by side do not meet in it.
  std::string folder = testing::TempDir() + "chorale_test_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr || setenv("TEST_TMPDIR", folder.c_str(), 1) != 0) {
    std::perror(folder.c_str());
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return result;
}
