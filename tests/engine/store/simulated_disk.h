// A disk that loses power, or whose process ends, after any system call.
#ifndef CHORALE_TESTS_ENGINE_STORE_SIMULATED_DISK_H_
#define CHORALE_TESTS_ENGINE_STORE_SIMULATED_DISK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace chorale {

// A system call that changes a file or a folder.
struct DiskCall {
  enum class Kind { kCreate, kMakeFolder, kWrite, kResize, kSync, kRename, kUnlink };
  Kind kind;
  std::string path;    // relative to the recorded folder; of a folder: "" or "a/b"
  uint64_t file = 0;   // distinguishes a file from others of the same name; 0: a folder
  std::string to;      // kRename
  int64_t offset = 0;  // kWrite
  std::string bytes;   // kWrite
  int64_t size = 0;    // kResize

  std::string ToString() const;
};

// What a crash leaves of what was not synced. POSIX guarantees nothing of it: names and
// contents become durable independently, and writes in any order.
enum class Crash {
  kOfTheProcess,     // everything
  kAllLost,          // nothing
  kContentsLost,     // names, of files that are empty or have their last synced content
  kNamesLost,        // contents, of the files that have a durable name
  kTorn,             // all but the second half of the last write of each file
  kLastWritesFirst,  // names, and of each file the last write alone
};
constexpr Crash kCrashes[] = {Crash::kOfTheProcess, Crash::kAllLost, Crash::kContentsLost,
                              Crash::kNamesLost,    Crash::kTorn,    Crash::kLastWritesFirst};

// A folder after some of its calls. Folders end in "/"; they have no content.
using DiskImage = std::map<std::string, std::string>;  // content by path

// The state of a disk to which calls are applied one by one.
class SimulatedDisk {
 public:
  void Apply(const DiskCall& call);
  DiskImage After(Crash crash) const;

 private:
  struct File {
    std::string durable;
    std::vector<DiskCall> unsynced;  // kWrite and kResize
  };
  using Names = std::map<std::string, uint64_t>;  // 0: a folder

  static std::string Content(const File& file, Crash crash);

  std::map<uint64_t, File> files_;
  Names names_;
  Names durable_names_;
};

// Writes an image below `folder`, which must be empty.
void WriteImage(const DiskImage& image, const std::string& folder);
// The image of `folder`.
DiskImage ReadImage(const std::string& folder);

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_STORE_SIMULATED_DISK_H_
