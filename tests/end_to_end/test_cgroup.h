// A cgroup for servers of tests, where this process may make one.
#ifndef CHORALE_TESTS_END_TO_END_TEST_CGROUP_H_
#define CHORALE_TESTS_END_TO_END_TEST_CGROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace chorale::end_to_end {

// Folders below this process's own cgroups, or below the outermost ones that it sees, of version 1
// or 2. Removed, when empty, with the object. Not thread-safe.
class TestCgroup {
 public:
  // `processors`: the quota; 0: none. An error says why there can be none here.
  static absl::StatusOr<std::unique_ptr<TestCgroup>> Make(int64_t memory_bytes, double processors);
  ~TestCgroup();
  TestCgroup(const TestCgroup&) = delete;
  TestCgroup& operator=(const TestCgroup&) = delete;

  // Another limit, from now on. False if the kernel does not take it.
  bool SetMemory(int64_t memory_bytes) const;

  const std::vector<std::string>& folders() const { return folders_; }

 private:
  TestCgroup() = default;

  std::vector<std::string> folders_;
};

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_TEST_CGROUP_H_
