// chorale: the command line client of a Chorale server.
#include <unistd.h>

#include "client/cli/run.h"

// Part of AddressSanitizer, null in other builds. NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" void __lsan_do_leak_check() __attribute__((weak));

int main(int argc, char** argv) {
  const int exit_code = chorale::client::Run(argc, argv);
  if (__lsan_do_leak_check != nullptr) __lsan_do_leak_check();
  // Skips exit handlers. OpenSSL's frees locks that a thread of gRPC may need for a connection that
  // it is still opening.
  _exit(exit_code);
}
