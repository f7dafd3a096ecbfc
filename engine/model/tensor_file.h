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

// A whole file, read into memory of its own: what happens to the file later does no harm. Movable.
class FileBytes {
 public:
  // NotFound, or InvalidArgument for what is not a regular file, or shrinks, grows or is written to
  // while it is read; the message names the path, and both sizes.
  static absl::StatusOr<FileBytes> Read(const std::string& path);

  FileBytes() = default;
  FileBytes(FileBytes&& other) noexcept { *this = std::move(other); }
  FileBytes& operator=(FileBytes&& other) noexcept;
  ~FileBytes();

  absl::Span<const uint8_t> bytes() const { return {memory_, size_}; }
  // Gives the memory of these bytes back to the system, but for pages that hold others as well.
  // They must not be read after this.
  void Release(absl::Span<const uint8_t> bytes);

 private:
  uint8_t* memory_ = nullptr;  // [size_], host
  size_t size_ = 0;
};

// The tensors of one file, in memory. Thread-safe but for Release.
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

  // The tensor's data will not be read again. Who takes the tensors one after the other so needs no
  // more memory than the file and one tensor. No-op after Parse.
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
