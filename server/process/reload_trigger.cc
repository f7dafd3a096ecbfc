#include "server/process/reload_trigger.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace chorale {
namespace {

sigset_t ReloadSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

std::string FileVersion(const std::string& path) {
  struct stat file = {};
  if (path.empty() || stat(path.c_str(), &file) != 0) return "";
  return absl::StrCat(file.st_dev, " ", file.st_ino, " ", file.st_size, " ", file.st_mtim.tv_sec,
                      ".", file.st_mtim.tv_nsec, " ", file.st_ctim.tv_sec, ".",
                      file.st_ctim.tv_nsec);
}

ReloadTrigger::ReloadTrigger(std::string file, std::string version, std::vector<std::string> others)
    : file_(std::move(file)), others_(std::move(others)), read_(std::move(version)) {
  for (const std::string& other : others_) absl::StrAppend(&read_, "\n", FileVersion(other));
  seen_ = read_;
  const sigset_t set = ReloadSignal();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

ReloadTrigger::~ReloadTrigger() { Stop(); }

void ReloadTrigger::Start(absl::Duration period, std::function<void()> reload) {
  thread_ = std::thread([this, period, reload = std::move(reload)] { Run(period, reload); });
}

void ReloadTrigger::RequestStop() {
  MutexLock lock(&mutex_);
  stopping_ = true;
}

void ReloadTrigger::Stop() {
  if (!thread_.joinable()) return;
  RequestStop();
  // The thread consumes this signal with sigtimedwait, so it terminates nothing.
  pthread_kill(thread_.native_handle(), SIGHUP);
  thread_.join();
}

bool ReloadTrigger::stop_requested() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

std::string ReloadTrigger::FilesVersion() const {
  std::string version = FileVersion(file_);
  for (const std::string& other : others_) absl::StrAppend(&version, "\n", FileVersion(other));
  return version;
}

bool ReloadTrigger::FilesHaveSettled() {
  const std::string now = FilesVersion();
  const std::string before = std::exchange(seen_, now);
  return now == before && now != read_;
}

void ReloadTrigger::Run(absl::Duration period, const std::function<void()>& reload) {
  const sigset_t set = ReloadSignal();
  const timespec wait = absl::ToTimespec(period);
  while (!stop_requested()) {
    const bool asked = sigtimedwait(&set, nullptr, &wait) > 0;
    if (stop_requested()) return;
    if (!asked && !FilesHaveSettled()) continue;
    // What is read is this version or a later one, which then is read once more.
    read_ = FilesVersion();
    seen_ = read_;
    reload();
  }
}

}  // namespace chorale
