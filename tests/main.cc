// The main function of every test program. Built with it, once for all of them: the headers that
// they share (tests/CMakeLists.txt).
#include "gmock/gmock.h"

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
