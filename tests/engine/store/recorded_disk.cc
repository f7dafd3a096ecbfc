#include "tests/engine/store/recorded_disk.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace chorale {
namespace {

// What the functions below do besides calling those of the C library.
struct Interception {
  std::recursive_mutex mutex;  // CopyAtOnce calls the functions below
  std::string recorded;        // empty: nothing is recorded
  std::vector<DiskCall> calls;
  std::map<ino_t, uint64_t> files;  // the current file of an inode, which the system uses again
  uint64_t next_file = 1;
  std::string hooked;  // empty: no hook
  std::shared_ptr<const BeforeEachCall::Function> hook;
  std::atomic<bool> without_sync{false};
  std::atomic<bool> short_writes{false};
};

Interception& State() {
  static auto* state = new Interception;
  return *state;
}

// The path below `folder`, or nullopt.
std::optional<std::string> Below(const std::string& path, const std::string& folder) {
  if (folder.empty() || !absl::StartsWith(path, folder)) return std::nullopt;
  if (path.size() == folder.size()) return "";
  if (path[folder.size()] != '/') return std::nullopt;
  return path.substr(folder.size() + 1);
}

std::string PathOf(int descriptor) {
  char path[4096];
  const std::string link = absl::StrCat("/proc/self/fd/", descriptor);
  const ssize_t size = readlink(link.c_str(), path, sizeof(path));
  return size < 0 ? "" : std::string(path, static_cast<size_t>(size));
}

uint64_t FileOf(int descriptor) {
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  return State().files[info.st_ino];
}

// Returns the errno with which the call must fail, or 0.
int RunHook(const std::string& call, const std::string& path) {
  Interception& state = State();
  std::optional<std::string> relative;
  std::shared_ptr<const BeforeEachCall::Function> hook;
  {
    const std::lock_guard lock(state.mutex);
    relative = Below(path, state.hooked);
    hook = state.hook;
  }
  return relative.has_value() ? (*hook)(call, *relative) : 0;
}

// Runs a call, and records it with `note` if it succeeds. Both under one mutex, so that the order
// of the recording is that of the calls.
template <typename Call, typename Note>
auto Intercept(const char* name, const std::string& path, const Call& call, const Note& note)
    -> decltype(call()) {
  if (const int error = RunHook(name, path); error != 0) {
    errno = error;
    return -1;
  }
  Interception& state = State();
  const std::lock_guard lock(state.mutex);
  const auto result = call();
  if (const auto relative = Below(path, state.recorded); relative.has_value() && result >= 0) {
    const int saved = errno;
    note(*relative, result);
    errno = saved;
  }
  return result;
}

template <typename Function>
Function* Original(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void Add(DiskCall call) { State().calls.push_back(std::move(call)); }

// Whether a call of open has a third argument. O_TMPFILE includes the bit of O_DIRECTORY.
bool HasMode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

int Open(const char* path, int flags, mode_t mode) {
  static auto* const original = Original<int(const char*, int, ...)>("open64");
  if ((flags & (O_CREAT | O_TRUNC)) == 0) return original(path, flags, mode);
  struct stat info;
  const bool existed = lstat(path, &info) == 0;
  return Intercept(
      "open", path, [&] { return original(path, flags, mode); },
      [&](const std::string& relative, int descriptor) {
        if (!existed) {
          fstat(descriptor, &info);
          State().files[info.st_ino] = State().next_file++;
          Add({.kind = DiskCall::Kind::kCreate, .path = relative, .file = FileOf(descriptor)});
        } else if ((flags & O_TRUNC) != 0 && info.st_size > 0) {
          Add({.kind = DiskCall::Kind::kResize, .path = relative, .file = FileOf(descriptor)});
        }
      });
}

ssize_t Write(int descriptor, const void* bytes, size_t size, std::optional<off64_t> at) {
  static auto* const write = Original<ssize_t(int, const void*, size_t)>("write");
  static auto* const pwrite = Original<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  if (State().short_writes && size > 1) size /= 2;
  // Pipes have no offset.
  const off64_t offset = at.has_value() ? *at : lseek64(descriptor, 0, SEEK_CUR);
  const auto call = [&] {
    return at.has_value() ? pwrite(descriptor, bytes, size, *at) : write(descriptor, bytes, size);
  };
  if (offset < 0) return call();
  return Intercept(
      "write", PathOf(descriptor), call, [&](const std::string& relative, ssize_t written) {
        Add({.kind = DiskCall::Kind::kWrite,
             .path = relative,
             .file = FileOf(descriptor),
             .offset = offset,
             .bytes = {static_cast<const char*>(bytes), static_cast<size_t>(written)}});
      });
}

int Sync(const char* function, int descriptor) {
  auto* const original = Original<int(int)>(function);
  return Intercept(
      "fsync", PathOf(descriptor), [&] { return State().without_sync ? 0 : original(descriptor); },
      [&](const std::string& relative, int) {
        Add({.kind = DiskCall::Kind::kSync, .path = relative, .file = FileOf(descriptor)});
      });
}

void NoteSize(const std::string& relative, int descriptor) {
  struct stat info;
  fstat(descriptor, &info);
  Add({.kind = DiskCall::Kind::kResize,
       .path = relative,
       .file = FileOf(descriptor),
       .size = info.st_size});
}

}  // namespace
}  // namespace chorale

// The functions of the C library, which SQLite also calls.
extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = chorale::HasMode(flags) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return chorale::Open(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = chorale::HasMode(flags) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return chorale::Open(path, flags, mode);
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  return chorale::Write(descriptor, bytes, size, std::nullopt);
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off64_t offset) {
  return chorale::Write(descriptor, bytes, size, offset);
}

int fsync(int descriptor) { return chorale::Sync("fsync", descriptor); }
int fdatasync(int descriptor) { return chorale::Sync("fdatasync", descriptor); }

int ftruncate64(int descriptor, off64_t size) noexcept {
  static auto* const original = chorale::Original<int(int, off64_t)>("ftruncate64");
  return chorale::Intercept(
      "resize", chorale::PathOf(descriptor), [&] { return original(descriptor, size); },
      [&](const std::string& relative, int) { chorale::NoteSize(relative, descriptor); });
}

int posix_fallocate(int descriptor, off_t offset, off_t size) {
  static auto* const original = chorale::Original<int(int, off_t, off_t)>("posix_fallocate");
  // Returns the error, and does not set errno.
  const int result = chorale::Intercept(
      "resize", chorale::PathOf(descriptor), [&] { return original(descriptor, offset, size); },
      [&](const std::string& relative, int) { chorale::NoteSize(relative, descriptor); });
  return result < 0 ? errno : result;
}

int truncate(const char* path, off_t size) noexcept {
  static auto* const original = chorale::Original<int(const char*, off_t)>("truncate");
  struct stat info = {};
  stat(path, &info);
  return chorale::Intercept(
      "resize", path, [&] { return original(path, size); },
      [&](const std::string& relative, int) {
        chorale::Add({.kind = chorale::DiskCall::Kind::kResize,
                      .path = relative,
                      .file = chorale::State().files[info.st_ino],
                      .size = size});
      });
}

int rename(const char* from, const char* to) noexcept {
  static auto* const original = chorale::Original<int(const char*, const char*)>("rename");
  return chorale::Intercept(
      "rename", from, [&] { return original(from, to); },
      [&](const std::string& relative, int) {
        const auto target = chorale::Below(to, chorale::State().recorded);
        if (!target.has_value()) {  // it leaves the folder
          chorale::Add({.kind = chorale::DiskCall::Kind::kUnlink, .path = relative});
          return;
        }
        chorale::Add({.kind = chorale::DiskCall::Kind::kRename, .path = relative, .to = *target});
      });
}

int unlink(const char* path) noexcept {
  static auto* const original = chorale::Original<int(const char*)>("unlink");
  return chorale::Intercept(
      "unlink", path, [&] { return original(path); },
      [](const std::string& relative, int) {
        chorale::Add({.kind = chorale::DiskCall::Kind::kUnlink, .path = relative});
      });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const original = chorale::Original<int(const char*, mode_t)>("mkdir");
  return chorale::Intercept(
      "mkdir", path, [&] { return original(path, mode); },
      [](const std::string& relative, int) {
        chorale::Add({.kind = chorale::DiskCall::Kind::kMakeFolder, .path = relative});
      });
}

}  // extern "C"

namespace chorale {

DiskRecording::DiskRecording(const std::string& folder) {
  Interception& state = State();
  const std::lock_guard lock(state.mutex);
  state.recorded = folder;
  state.calls.clear();
  state.files.clear();
}

DiskRecording::~DiskRecording() {
  const std::lock_guard lock(State().mutex);
  State().recorded.clear();
}

int64_t DiskRecording::count() const {
  const std::lock_guard lock(State().mutex);
  return static_cast<int64_t>(State().calls.size());
}

std::vector<DiskCall> DiskRecording::calls() const {
  const std::lock_guard lock(State().mutex);
  return State().calls;
}

BeforeEachCall::BeforeEachCall(const std::string& folder, Function function) {
  const std::lock_guard lock(State().mutex);
  State().hooked = folder;
  State().hook = std::make_shared<const Function>(std::move(function));
}

BeforeEachCall::~BeforeEachCall() {
  std::shared_ptr<const Function> hook;
  {
    const std::lock_guard lock(State().mutex);
    State().hooked.clear();
    hook = std::move(State().hook);
  }
  while (hook.use_count() > 1) std::this_thread::yield();
}

void CopyAtOnce(const std::string& from, const std::string& to) {
  const std::lock_guard lock(State().mutex);
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}

ShortWrites::ShortWrites() { State().short_writes = true; }
ShortWrites::~ShortWrites() { State().short_writes = false; }

WithoutSync::WithoutSync() { State().without_sync = true; }
WithoutSync::~WithoutSync() { State().without_sync = false; }

}  // namespace chorale
