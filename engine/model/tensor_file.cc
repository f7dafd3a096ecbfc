#include "engine/model/tensor_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "engine/model/tensor_header.h"

namespace chorale {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian");

constexpr DType kDTypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

std::optional<DType> ParseDType(absl::string_view name) {
  for (DType dtype : kDTypes) {
    if (DTypeName(dtype) == name) return dtype;
  }
  return std::nullopt;
}

template <typename T>
T Load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

float HalfToFloat(uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int fraction = half & 0x3ff;
  float magnitude;
  if (exponent == 0x1f) {
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  }
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

float BFloatToFloat(uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat) << 16);
}

// Element i of a tensor of any type but F64.
float FloatElement(const TensorView& view, int64_t i) {
  const uint8_t* bytes = view.data.data();
  switch (view.dtype) {
    case DType::kF16:
      return HalfToFloat(Load<uint16_t>(bytes + 2 * i));
    case DType::kBF16:
      return BFloatToFloat(Load<uint16_t>(bytes + 2 * i));
    default:
      return Load<float>(bytes + 4 * i);
  }
}

// The size that `entry` must have in bytes, or nullopt if it does not fit into 63 bits. Sets
// view->elements.
std::optional<int64_t> CheckedBytes(const TensorHeaderEntry& entry, TensorView* view) {
  int64_t elements = 1;
  bool overflow = false;
  for (uint64_t n : entry.shape) {
    if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    overflow |= __builtin_mul_overflow(elements, static_cast<int64_t>(n), &elements);
    view->shape.push_back(static_cast<int64_t>(n));
  }
  int64_t bytes = 0;
  overflow |= __builtin_mul_overflow(elements, DTypeSize(view->dtype), &bytes);
  if (overflow) return std::nullopt;
  view->elements = elements;
  return bytes;
}

absl::StatusOr<TensorView> CheckEntry(const TensorHeaderEntry& entry,
                                      absl::Span<const uint8_t> data) {
  TensorView view;
  const std::optional<DType> dtype = ParseDType(entry.dtype);
  if (!dtype) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dtype '", entry.dtype, "' is not supported; it must be F64, F32, F16 or BF16"));
  }
  view.dtype = *dtype;
  const std::optional<int64_t> bytes = CheckedBytes(entry, &view);
  if (!bytes) return absl::InvalidArgumentError("the product of the shape overflows");
  const uint64_t begin = entry.offsets[0];
  const uint64_t end = entry.offsets[1];
  if (begin > end || end > data.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data_offsets [", begin, ", ", end, "] lie outside the ", data.size(), " bytes of data"));
  }
  if (end - begin != static_cast<uint64_t>(*bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(end - begin, " bytes of data, but shape ",
                                                   ShapeString(view.shape), " of ", entry.dtype,
                                                   " takes ", *bytes));
  }
  view.data = data.subspan(begin, end - begin);
  return view;
}

// The format requires that the tensors cover the data section exactly: no overlap, no gap, no
// remainder.
absl::Status CheckCoverage(std::vector<TensorHeaderEntry> entries, uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.offsets < b.offsets; });
  uint64_t covered = 0;
  for (const TensorHeaderEntry& entry : entries) {
    if (entry.offsets[0] != covered) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", entry.name, "': begins at byte ", entry.offsets[0],
                       " of the data, but the preceding tensor ends at ", covered));
    }
    covered = entry.offsets[1];
  }
  if (covered != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensors cover ", covered, " of ", data_bytes, " bytes of data"));
  }
  return absl::OkStatus();
}

absl::Status InFile(absl::string_view file, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
}

}  // namespace

absl::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "F64";
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
  }
  return "";
}

int64_t DTypeSize(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 8;
    case DType::kF32:
      return 4;
    default:
      return 2;
  }
}

std::string ShapeString(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<std::vector<float>> ReadFloat32(const TensorView& view) {
  if (view.dtype == DType::kF64) {
    return absl::InvalidArgumentError("has dtype F64, but F32, F16 or BF16 is required");
  }
  std::vector<float> values(view.elements);
  for (int64_t i = 0; i < view.elements; ++i) values[i] = FloatElement(view, i);
  return values;
}

std::vector<double> ReadFloat64(const TensorView& view) {
  std::vector<double> values(view.elements);
  for (int64_t i = 0; i < view.elements; ++i) {
    values[i] =
        view.dtype == DType::kF64 ? Load<double>(view.data.data() + 8 * i) : FloatElement(view, i);
  }
  return values;
}

absl::StatusOr<FileBytes> FileBytes::Read(const std::string& path) {
  const auto failed = [&](absl::string_view what, int error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot ", what, ": ", std::generic_category().message(error)));
  };
  // Non-blocking: do not wait for the writer of a FIFO.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const absl::Status status = failed("open", errno);
    return errno == ENOENT || errno == ENOTDIR ? absl::NotFoundError(status.message()) : status;
  }
  const absl::Cleanup close_fd = [fd] { close(fd); };
  struct stat before;
  if (fstat(fd, &before) != 0 || !S_ISREG(before.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  FileBytes file;
  if (before.st_size == 0) return file;
  void* memory =
      mmap(nullptr, before.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return failed("allocate memory for the file", errno);
  file.memory_ = static_cast<uint8_t*>(memory);
  file.size_ = static_cast<size_t>(before.st_size);
  for (size_t done = 0; done < file.size_;) {
    const ssize_t got = pread(fd, file.memory_ + done, file.size_ - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  struct stat after;
  if (fstat(fd, &after) != 0) return failed("stat", errno);
  if (after.st_size != before.st_size || after.st_mtim.tv_sec != before.st_mtim.tv_sec ||
      after.st_mtim.tv_nsec != before.st_mtim.tv_nsec) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": changed while it was read: it had ",
                                                   before.st_size, " bytes, and now has ",
                                                   after.st_size));
  }
  return file;
}

FileBytes& FileBytes::operator=(FileBytes&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

FileBytes::~FileBytes() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

void FileBytes::Release(absl::Span<const uint8_t> bytes) {
  if (memory_ == nullptr) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (begin < end)
    madvise(memory_ + (begin - reinterpret_cast<uintptr_t>(memory_)), end - begin, MADV_DONTNEED);
}

absl::StatusOr<TensorFile> TensorFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(FileBytes read, FileBytes::Read(path));
  absl::StatusOr<TensorFile> file = Parse(read.bytes(), path);
  if (file.ok()) file->file_ = std::move(read);
  return file;
}

absl::StatusOr<TensorFile> TensorFile::Parse(absl::Span<const uint8_t> bytes,
                                             absl::string_view name) {
  const auto invalid = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", what));
  };
  if (bytes.size() < 8) return invalid("the file is shorter than the 8 bytes of the header length");
  const uint64_t header_bytes = Load<uint64_t>(bytes.data());
  if (header_bytes > kMaxHeaderBytes) {
    return invalid(absl::StrCat("header of ", header_bytes, " bytes; at most ", kMaxHeaderBytes));
  }
  if (header_bytes > bytes.size() - 8) {
    return invalid(absl::StrCat("header of ", header_bytes, " bytes exceeds the file"));
  }
  const absl::string_view json(reinterpret_cast<const char*>(bytes.data()) + 8, header_bytes);
  if (json.empty() || json.front() != '{') return invalid("header does not begin with '{'");
  absl::StatusOr<TensorHeader> header = ParseTensorHeader(json);
  if (!header.ok()) return InFile(name, header.status());

  TensorFile file;
  file.name_ = std::string(name);
  file.bytes_ = bytes;
  const absl::Span<const uint8_t> data = bytes.subspan(8 + header_bytes);
  for (const TensorHeaderEntry& entry : header->tensors) {
    absl::StatusOr<TensorView> view = CheckEntry(entry, data);
    if (!view.ok()) {
      return invalid(absl::StrCat("tensor '", entry.name, "': ", view.status().message()));
    }
    file.tensors_.emplace(entry.name, *std::move(view));
  }
  const absl::Status coverage = CheckCoverage(std::move(header->tensors), data.size());
  if (!coverage.ok()) return InFile(name, coverage);
  file.metadata_ = std::move(header->metadata);
  return file;
}

absl::StatusOr<TensorView> TensorFile::Find(absl::string_view name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    return absl::NotFoundError(absl::StrCat(name_, ": tensor '", name, "' is missing"));
  }
  return it->second;
}

}  // namespace chorale
