// A library to preload: it adds the seconds that the file CHORALE_CLOCK_SHIFT_FILE holds, as a
// 64-bit integer, to every time of day that the program is told, and takes them from every one at
// which the program asks to be woken, since the kernel's own clock does not jump. Clocks that never
// jump stay alone.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdlib>

namespace {

int64_t Shift() {
  static const volatile int64_t* const shift = [] {
    static const int64_t none = 0;
    const char* const path = getenv("CHORALE_CLOCK_SHIFT_FILE");  // NOLINT(concurrency-mt-unsafe)
    const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return &none;
    void* const memory = mmap(nullptr, sizeof(none), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? &none : static_cast<const int64_t*>(memory);
  }();
  return *shift;
}

timespec KernelTime(const timespec& of_day) {
  timespec time = of_day;
  time.tv_sec -= Shift();
  return time;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, struct timespec* now) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  const bool of_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result == 0 && of_day) now->tv_sec += Shift();
  return result;
}

int gettimeofday(struct timeval* now, void* /*zone*/) noexcept {
  timespec exact;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* now) noexcept {
  timespec exact = {};
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now != nullptr) *now = exact.tv_sec;
  return exact.tv_sec;
}

// Abseil, and with it gRPC, waits by the time of day.
// NOLINTNEXTLINE(cert-dcl50-cpp): as the C library has it
long syscall(long number, ...) noexcept {
  static auto* const next = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  timespec time;
  if (number == SYS_futex && (arguments[1] & FUTEX_CLOCK_REALTIME) != 0 && arguments[3] != 0) {
    time = KernelTime(*reinterpret_cast<const timespec*>(arguments[3]));
    arguments[3] = reinterpret_cast<long>(&time);
  }
  return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
              arguments[5]);
}

}  // extern "C"
