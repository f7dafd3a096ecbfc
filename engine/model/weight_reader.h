// Takes and checks named tensors of a file one by one, and keeps the first error, so that the code
// that loads a model is a list of its tensors.
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
  // `file` outlives the reader. Take and CheckUnused release the memory of the tensor in `file`.
  explicit WeightReader(TensorFile& file) : file_(file) {}

  // Returns the tensor's values in row-major order. The tensor must have this shape, and every
  // value must be finite. Returns an empty vector after an error.
  std::vector<float> Take(absl::string_view name, std::initializer_list<int64_t> shape);

  // Checks a tensor like Take. For tensors of the file format that the model does not use; they do
  // not count as parameters.
  void CheckUnused(absl::string_view name, std::initializer_list<int64_t> shape);

  bool ok() const { return status_.ok(); }

  // Returns the first error of Take or CheckUnused, or InvalidArgument if the file has a tensor for
  // which neither was called.
  absl::Status Finish() const;

  // Elements of the tensors that Take returned.
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
