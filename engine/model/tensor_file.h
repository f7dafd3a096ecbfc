// Reads tensor files in the safetensors format: eight bytes of header length (little-endian), a
// JSON header, then the data of all tensors back to back.
//
// The file is not trusted: nothing is read before its range is known to lie inside the file, and
// what the format forbids is refused (duplicate names, overlaps, gaps, lengths that do not match
// the shape). Format: https://huggingface.co/docs/safetensors, section "Format".
#ifndef CHORALE_ENGINE_MODEL_TENSOR_FILE_H_
#define CHORALE_ENGINE_MODEL_TENSOR_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace chorale {

enum class DType { kF64, kF32, kF16, kBF16 };

// "F32", as the format spells it.
absl::string_view DTypeName(DType dtype);
int64_t DTypeSize(DType dtype);

// One tensor, row-major, little-endian. Does not own the bytes, which may be unaligned.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;      // empty for a scalar
  int64_t elements = 0;            // product of shape
  absl::Span<const uint8_t> data;  // elements * DTypeSize(dtype) bytes
};

// "[4, 17, 8]"
std::string ShapeString(absl::Span<const int64_t> shape);

// The values as float32, exactly. InvalidArgument for F64, which would have to be rounded.
absl::StatusOr<std::vector<float>> ReadFloat32(const TensorView& view);

// The values as float64, exactly.
std::vector<double> ReadFloat64(const TensorView& view);

// A mapping of a whole file into memory, read-only. Movable; unmapped with the object.
class MappedFile {
 public:
  // NotFound, or InvalidArgument for what is not a regular file. The message names the path.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return bytes_; }

 private:
  absl::Span<const uint8_t> bytes_;
};

// The tensors of one file. Immutable and thread-safe. The file must not be truncated while open.
class TensorFile {
 public:
  using TensorMap = std::map<std::string, TensorView, std::less<>>;
  using Metadata = std::map<std::string, std::string, std::less<>>;

  static constexpr uint64_t kMaxHeaderBytes = 16 << 20;

  // NotFound, or InvalidArgument naming the file, the tensor and the reason.
  static absl::StatusOr<TensorFile> Open(const std::string& path);

  // The same from memory, which outlives the result; `name` stands for the file in messages.
  static absl::StatusOr<TensorFile> Parse(absl::Span<const uint8_t> bytes,
                                          absl::string_view name = "tensor file");

  // NotFound naming file and tensor.
  absl::StatusOr<TensorView> Find(absl::string_view name) const;

  const TensorMap& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  absl::Span<const uint8_t> bytes() const { return bytes_; }  // the whole file
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  MappedFile file_;  // empty after Parse
  absl::Span<const uint8_t> bytes_;
  TensorMap tensors_;
  Metadata metadata_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_MODEL_TENSOR_FILE_H_
