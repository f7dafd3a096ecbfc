// The JSON header of a tensor file, not yet checked against the file.
#ifndef CHORALE_ENGINE_MODEL_TENSOR_HEADER_H_
#define CHORALE_ENGINE_MODEL_TENSOR_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale {

struct TensorHeaderEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;  // begin and end
};

struct TensorHeader {
  std::vector<TensorHeaderEntry> tensors;  // names are distinct
  std::map<std::string, std::string, std::less<>> metadata;
};

// Parses a header of exactly this form:
//   {"__metadata__": {string: string, ...}, NAME: {"dtype": string, "shape": [n, ...],
//    "data_offsets": [begin, end]}, ...}
// with non-negative integers. Returns InvalidArgument with the deviation for any other text. Memory
// is proportional to the length of the text.
absl::StatusOr<TensorHeader> ParseTensorHeader(absl::string_view json);

}  // namespace chorale

#endif  // CHORALE_ENGINE_MODEL_TENSOR_HEADER_H_
