// Any bytes given to the tensor file reader are either refused or give tensors that lie inside
// them and can be read to the last element.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/model/tensor_file.h"

namespace chorale {
namespace {

void CheckTensor(const TensorFile& file, const std::string& name, const TensorView& view) {
  const absl::Span<const uint8_t> all = file.bytes();
  if (view.elements < 0) std::abort();
  const size_t size = static_cast<size_t>(view.elements * DTypeSize(view.dtype));
  if (view.data.size() != size) std::abort();
  if (size > 0 &&
      (view.data.data() < all.data() || view.data.data() + size > all.data() + all.size())) {
    std::abort();
  }
  if (ReadFloat64(view).size() != static_cast<size_t>(view.elements)) std::abort();
  const absl::StatusOr<std::vector<float>> floats = ReadFloat32(view);
  if (floats.ok() != (view.dtype != DType::kF64)) std::abort();
  if (!file.Find(name).ok()) std::abort();
}

}  // namespace
}  // namespace chorale

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of exactly this size, so that reading past its end is seen.
  const std::vector<uint8_t> bytes(data, data + size);
  const absl::StatusOr<chorale::TensorFile> file = chorale::TensorFile::Parse(bytes);
  if (!file.ok()) {
    if (file.status().message().empty()) std::abort();
    return 0;
  }
  for (const auto& [name, view] : file->tensors()) chorale::CheckTensor(*file, name, view);
  return 0;
}
