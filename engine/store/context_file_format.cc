#include "engine/store/context_file_format.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/require.h"
#include "base/status_macros.h"
#include "engine/store/posix_file.h"

namespace chorale {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "lengths, keys and values are stored raw");

constexpr int64_t kMaxHeadBytes = 64 << 10;
constexpr int64_t kReadBytes = 4 << 20;  // the most bytes of one read

}  // namespace

std::string HeadOf(const EncodedContextId& id) {
  return Json{{"tenant", id.tenant},       {"name", id.name},
              {"dataset", id.dataset},     {"created_ns", id.created_ns},
              {"model", id.model},         {"model_digest", id.model_digest},
              {"kv_format", id.kv_format}, {"kv_bytes", id.kv_bytes}}
      .dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

std::optional<EncodedContextId> IdFromHead(const std::string& head) {
  const Json json = Json::parse(head, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  EncodedContextId id;
  const auto text = [&json](const char* key, std::string* out) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) return false;
    *out = found->get<std::string>();
    return true;
  };
  const auto number = [&json](const char* key, int64_t* out) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number_integer()) return false;
    *out = found->get<int64_t>();
    return true;
  };
  const bool complete = text("tenant", &id.tenant) && text("name", &id.name) &&
                        text("dataset", &id.dataset) && number("created_ns", &id.created_ns) &&
                        text("model", &id.model) && text("model_digest", &id.model_digest) &&
                        text("kv_format", &id.kv_format) && number("kv_bytes", &id.kv_bytes);
  return complete ? std::optional(std::move(id)) : std::nullopt;
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  Require(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
          "SHA-256 is built in");
}

void Sha256::Add(absl::string_view bytes) {
  Require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1,
          "SHA-256 takes any bytes");
}

std::string Sha256::Finish() {
  std::string digest(kContextFileDigestBytes, '\0');
  unsigned int length = 0;
  Require(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()),
                             &length) == 1 &&
              length == kContextFileDigestBytes,
          "a SHA-256 has 32 bytes");
  return digest;
}

ContextFileReader::ContextFileReader(std::string path, FileDescriptor file, const struct stat& info)
    : path_(std::move(path)),
      file_(std::move(file)),
      bytes_(info.st_size),
      modified_(absl::TimeFromTimespec(info.st_mtim)) {}

absl::StatusOr<ContextFileReader> ContextFileReader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(FileDescriptor file, OpenToRead(path));
  struct stat info;
  if (fstat(file.get(), &info) != 0) return FileError(errno, "stat", path);
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return ContextFileReader(path, std::move(file), info);
}

absl::Status ContextFileReader::Read(absl::Span<char> to) {
  while (!to.empty()) {
    const size_t chunk = std::min<size_t>(to.size(), kReadBytes);
    const ssize_t got = read(file_.get(), to.data(), chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, "read", path_);
    if (got == 0) return absl::DataLossError(absl::StrCat(path_, ": ends too early"));
    digest_.Add({to.data(), static_cast<size_t>(got)});
    to.remove_prefix(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ContextFileReader::Read(int64_t bytes) {
  std::string content(static_cast<size_t>(bytes), '\0');
  RETURN_IF_ERROR(Read(absl::MakeSpan(content)));
  return content;
}

absl::StatusOr<ContextFileLengths> ContextFileReader::ReadLengths() {
  ASSIGN_OR_RETURN(std::string fixed, Read(std::min(kContextFileHeadOffset, bytes_)));
  ContextFileLengths lengths;
  if (bytes_ < kContextFileHeadOffset + kContextFileDigestBytes ||
      !absl::StartsWith(fixed, kContextFileMagic)) {
    return absl::DataLossError(absl::StrCat(path_, ": has another version, or is incomplete"));
  }
  std::memcpy(&lengths, fixed.data() + kContextFileMagic.size(), sizeof(lengths));
  int64_t rest = bytes_ - kContextFileHeadOffset - kContextFileDigestBytes;
  for (const int64_t length : {lengths.head, lengths.state, lengths.kv}) {
    if (length < 0 || length > rest) rest = -1;
    if (rest >= 0) rest -= length;
  }
  if (rest != 0 || lengths.head > kMaxHeadBytes) {
    return absl::DataLossError(absl::StrCat(path_, ": its size does not match its header"));
  }
  return lengths;
}

absl::Status ContextFileReader::CheckDigest() {
  const std::string expected = digest_.Finish();
  std::string found(kContextFileDigestBytes, '\0');
  if (pread(file_.get(), found.data(), found.size(), bytes_ - kContextFileDigestBytes) !=
          kContextFileDigestBytes ||
      found != expected) {
    return absl::DataLossError(absl::StrCat(path_, ": the content does not match its checksum"));
  }
  return absl::OkStatus();
}

}  // namespace chorale
