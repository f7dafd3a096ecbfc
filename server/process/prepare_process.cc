#include "server/process/prepare_process.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <initializer_list>

namespace chorale {
namespace {

void KeepStandardDescriptors() {
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR);  // the lowest number that is free
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
}

}  // namespace

void PrepareProcess() {
  KeepStandardDescriptors();
  for (const int number : {SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2}) (void)signal(number, SIG_IGN);
  sigset_t reload;
  sigemptyset(&reload);
  sigaddset(&reload, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &reload, nullptr);
}

}  // namespace chorale
