// The JSON header of a tensor file, as written, before it is checked against the file.
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
  std::vector<uint64_t> offsets;  // two of them
};

struct TensorHeader {
  std::vector<TensorHeaderEntry> tensors;  // names are distinct
  std::map<std::string, std::string, std::less<>> metadata;
};

// Accepts exactly
//   {"__metadata__": {string: string, ...}, NAME: {"dtype": string, "shape": [n, ...],
//    "data_offsets": [begin, end]}, ...}
// with non-negative integers. InvalidArgument says what else was found. Memory stays in proportion
// to the length of the text, whatever it holds.
absl::StatusOr<TensorHeader> ParseTensorHeader(absl::string_view json);

}  // namespace chorale

#endif  // CHORALE_ENGINE_MODEL_TENSOR_HEADER_H_
