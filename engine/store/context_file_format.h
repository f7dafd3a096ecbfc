// The format of a file with an encoded context:
//
//   "CHORALE KV 1\n"                        kContextFileMagic
//   lengths of head, state and K/V          3 x uint64, little-endian
//   head                                    the id as JSON
//   state of the row encoder
//   keys and values
//   SHA-256 of all bytes before it          32 bytes
#ifndef CHORALE_ENGINE_STORE_CONTEXT_FILE_FORMAT_H_
#define CHORALE_ENGINE_STORE_CONTEXT_FILE_FORMAT_H_

#include <openssl/evp.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"
#include "engine/store/context_files.h"

namespace chorale {

inline constexpr absl::string_view kContextFileMagic = "CHORALE KV 1\n";
inline constexpr int64_t kContextFileDigestBytes = 32;

struct ContextFileLengths {
  int64_t head = 0;
  int64_t state = 0;
  int64_t kv = 0;
};
inline constexpr int64_t kContextFileHeadOffset =
    static_cast<int64_t>(kContextFileMagic.size() + sizeof(ContextFileLengths));

// The head of a file, and the id in a head; empty if the head is incomplete.
std::string HeadOf(const EncodedContextId& id);
std::optional<EncodedContextId> IdFromHead(const std::string& head);

// An incremental SHA-256.
class Sha256 {
 public:
  Sha256();

  void Add(absl::string_view bytes);
  std::string Finish();  // 32 bytes

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

// An open file, read from its beginning. The methods return DataLoss if the file does not have the
// format.
class ContextFileReader {
 public:
  // Returns NotFound if there is no such file.
  static absl::StatusOr<ContextFileReader> Open(const std::string& path);

  int64_t bytes() const { return bytes_; }
  absl::Time modified() const { return modified_; }

  absl::Status Read(absl::Span<char> to);
  absl::StatusOr<std::string> Read(int64_t bytes);
  // Reads the lengths, and checks that they add up to the size of the file.
  absl::StatusOr<ContextFileLengths> ReadLengths();
  // Checks that the next bytes of the file are the digest of all bytes read before.
  absl::Status CheckDigest();

 private:
  ContextFileReader(std::string path, FileDescriptor file, const struct stat& info);

  std::string path_;
  FileDescriptor file_;
  int64_t bytes_;
  absl::Time modified_;
  Sha256 digest_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_CONTEXT_FILE_FORMAT_H_
