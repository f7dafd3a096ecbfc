// Owns a file descriptor.
#ifndef CHORALE_BASE_FILE_DESCRIPTOR_H_
#define CHORALE_BASE_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace chorale {

// Closes the descriptor when it is destroyed. Not thread-safe.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor() { Reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = other.Release();
    }
    return *this;
  }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Gives up ownership: the caller closes the returned descriptor.
  [[nodiscard]] int Release() { return std::exchange(fd_, -1); }
  void Reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

}  // namespace chorale

#endif  // CHORALE_BASE_FILE_DESCRIPTOR_H_
