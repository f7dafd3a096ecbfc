// Reads tensor files in the safetensors format: eight bytes of header length (little-endian), a
// JSON header, then the data of all tensors back to back.
//
// The file is not trusted: every range is checked against the size of the file before it is read,
// and violations of the format are rejected (duplicate names, overlaps, gaps, lengths that do not
// match the shape). Format: https://huggingface.co/docs/safetensors, section "Format".
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

// The name of the type in the format, such as "F32".
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

// The values as float32, exactly. Returns InvalidArgument for F64, which would require rounding.
absl::StatusOr<std::vector<float>> ReadFloat32(const TensorView& view);

// The values as float64, exactly.
std::vector<double> ReadFloat64(const TensorView& view);

// The content of a file in memory. Later changes of the file have no effect. Movable.
class FileBytes {
 public:
  // Reads a file. Returns NotFound if it does not exist. Returns InvalidArgument if it is not a
  // regular file, cannot be read, or changes while it is read. The message contains the path and,
  // after a change, both sizes.
  static absl::StatusOr<FileBytes> Read(const std::string& path);

  FileBytes() = default;
  FileBytes(FileBytes&& other) noexcept { *this = std::move(other); }
  FileBytes& operator=(FileBytes&& other) noexcept;
  ~FileBytes();

  absl::Span<const uint8_t> bytes() const { return {memory_, size_}; }
  // Returns the memory of these bytes to the system, except pages that also contain other bytes.
  // The bytes must not be read afterwards.
  void Release(absl::Span<const uint8_t> bytes);

 private:
  uint8_t* memory_ = nullptr;  // [size_], host
  size_t size_ = 0;
};

// The tensors of one file, in memory. Thread-safe except for Release.
class TensorFile {
 public:
  using TensorMap = std::map<std::string, TensorView, std::less<>>;
  using Metadata = std::map<std::string, std::string, std::less<>>;

  static constexpr uint64_t kMaxHeaderBytes = 16 << 20;

  // Returns NotFound, or InvalidArgument with the file, the tensor and the reason.
  static absl::StatusOr<TensorFile> Open(const std::string& path);

  // Like Open, for bytes in memory, which outlive the result. `name` identifies the file in
  // messages.
  static absl::StatusOr<TensorFile> Parse(absl::Span<const uint8_t> bytes,
                                          absl::string_view name = "tensor file");

  // Returns NotFound, with the file and the tensor, if there is no such tensor.
  absl::StatusOr<TensorView> Find(absl::string_view name) const;

  // Call when the tensor's data will not be read again. A caller that takes one tensor after the
  // other then requires no more memory than the file and one tensor. No-op after Parse.
  void Release(const TensorView& view) { file_.Release(view.data); }

  const TensorMap& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  absl::Span<const uint8_t> bytes() const { return bytes_; }  // the whole file
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  FileBytes file_;  // empty after Parse
  absl::Span<const uint8_t> bytes_;
  TensorMap tensors_;
  Metadata metadata_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_MODEL_TENSOR_FILE_H_
