/* A control for soak.py: preloaded, it loses memory or descriptors whenever the server reads from a
 * connection. CHORALE_LEAK_BYTES, CHORALE_LEAK_FILES_OF: a descriptor in so many reads; 0: none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static long Setting(const char* name) {
  const char* const text = getenv(name);
  return text == NULL ? 0 : atol(text);
}

ssize_t recvmsg(int socket, struct msghdr* message, int flags) {
  static ssize_t (*next)(int, struct msghdr*, int);
  static atomic_long reads;
  static long bytes = -1, files_of;
  if (bytes < 0) {
    next = (ssize_t(*)(int, struct msghdr*, int))dlsym(RTLD_NEXT, "recvmsg");
    files_of = Setting("CHORALE_LEAK_FILES_OF");
    bytes = Setting("CHORALE_LEAK_BYTES");
  }
  if (bytes > 0) {
    void* volatile lost = malloc((size_t)bytes);
    memset(lost, 1, (size_t)bytes); /* so that it is resident */
  }
  if (files_of > 0 && atomic_fetch_add(&reads, 1) % files_of == 0) (void)!dup(socket);
  return next(socket, message, flags);
}
