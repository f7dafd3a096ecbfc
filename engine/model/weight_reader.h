// Takes named tensors from a file one by one, checks each, and keeps the first error, so that the
// code that loads a model reads as a list of its tensors.
#ifndef CHORALE_ENGINE_MODEL_WEIGHT_READER_H_
#define CHORALE_ENGINE_MODEL_WEIGHT_READER_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/model/tensor_file.h"

namespace chorale {

// Thread contract: used by one thread.
class WeightReader {
 public:
  // The file outlives the reader, and gives the memory of what is taken back to the system.
  explicit WeightReader(TensorFile& file) : file_(file) {}

  // The tensor's values in row-major order. It must have this shape, and every value must be
  // finite. Empty after an error.
  std::vector<float> Take(absl::string_view name, std::initializer_list<int64_t> shape);

  // Checks a tensor as Take does. For tensors of the file format that the model does not use; they
  // do not count as parameters.
  void CheckUnused(absl::string_view name, std::initializer_list<int64_t> shape);

  bool ok() const { return status_.ok(); }

  // The first error of Take or CheckUnused, or InvalidArgument if the file has a tensor that
  // neither was called for.
  absl::Status Finish() const;

  // Elements of the tensors taken.
  int64_t parameters() const { return parameters_; }

 private:
  std::vector<float> Read(absl::string_view name, std::initializer_list<int64_t> shape);

  TensorFile& file_;
  std::set<std::string, std::less<>> checked_;
  int64_t parameters_ = 0;
  absl::Status status_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_MODEL_WEIGHT_READER_H_
