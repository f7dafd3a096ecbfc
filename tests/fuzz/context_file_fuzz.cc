// Any bytes in place of the file of an encoded context are either removed, or are, with a digest
// that fits, the keys and values that a read returns.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/context_files.h"
#include "spdlog/spdlog.h"

namespace {

namespace fs = std::filesystem;
using chorale::ContextFiles;
using chorale::EncodedContextId;

constexpr size_t kKvBytes = 16;
constexpr size_t kDigestBytes = 32;

void Check(bool condition) {
  if (!condition) std::abort();
}

// In memory where there is such a folder.
const std::string& Folder() {
  static const std::string folder =
      absl::StrCat(fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string(),
                   "/context_file_fuzz-", getpid());
  return folder;
}

}  // namespace

// The first byte says whether a digest that fits is appended.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  spdlog::set_level(spdlog::level::off);
  const EncodedContextId id = {"t", "contexts/a", "d", 7, "m", "md", "f", kKvBytes};
  const std::string path = absl::StrCat(
      Folder(), "/", chorale::ContentDigest(absl::StrCat(id.tenant, std::string(1, '\0'), id.name)),
      ".kv");
  std::string content(reinterpret_cast<const char*>(data + 1), size - 1);
  const bool sealed = data[0] % 2 == 1;
  if (sealed) content += absl::HexStringToBytes(chorale::ContentDigest(content));
  fs::create_directories(Folder());
  std::ofstream(path, std::ios::binary) << content;

  ContextFiles files(Folder(), 1 << 20);
  Check(files.Open([](const EncodedContextId&) { return ContextFiles::Found::kKeep; }).ok());
  std::array<char, kKvBytes> kv;
  const absl::StatusOr<std::string> state = files.Read(id, absl::MakeSpan(kv));
  if (state.ok()) {
    Check(files.bytes() == static_cast<int64_t>(content.size()));
    const size_t end = content.size() - kDigestBytes;
    Check(std::equal(kv.begin(), kv.end(), content.begin() + end - kKvBytes));
    Check(content.compare(end - kKvBytes - state->size(), state->size(), *state) == 0);
    Check(content.substr(end) ==
          absl::HexStringToBytes(chorale::ContentDigest(content.substr(0, end))));
  } else if (absl::IsDataLoss(state.status())) {
    Check(!fs::exists(path) && files.bytes() == 0);
  } else {
    Check(absl::IsNotFound(state.status()));
  }
  fs::remove_all(Folder());
  return 0;
}
