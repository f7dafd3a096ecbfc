#include "engine/model/weight_reader.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/require.h"
#include "base/status_macros.h"

namespace chorale {

std::vector<float> WeightReader::Take(absl::string_view name,
                                      std::initializer_list<int64_t> shape) {
  std::vector<float> values = Read(name, shape);
  parameters_ += static_cast<int64_t>(values.size());
  return values;
}

void WeightReader::CheckUnused(absl::string_view name, std::initializer_list<int64_t> shape) {
  Read(name, shape);
}

std::vector<float> WeightReader::Read(absl::string_view name,
                                      std::initializer_list<int64_t> shape) {
  if (!status_.ok()) return {};
  const auto fail = [&](absl::string_view what) {
    status_ =
        absl::InvalidArgumentError(absl::StrCat(file_.name(), ": tensor '", name, "': ", what));
    return std::vector<float>();
  };
  absl::StatusOr<TensorView> view = file_.Find(name);
  if (!view.ok()) {
    // The file exists, but does not belong to this kind of model.
    status_ = absl::InvalidArgumentError(view.status().message());
    return {};
  }
  if (!std::equal(shape.begin(), shape.end(), view->shape.begin(), view->shape.end())) {
    return fail(absl::StrCat("shape ", ShapeString(view->shape), " where ", ShapeString(shape),
                             " must be"));
  }
  absl::StatusOr<std::vector<float>> values = ReadFloat32(*view);
  if (!values.ok()) return fail(values.status().message());
  for (size_t i = 0; i < values->size(); ++i) {
    if (!std::isfinite((*values)[i])) return fail(absl::StrCat("element ", i, " is not finite"));
  }
  Require(checked_.emplace(name).second, "a tensor is taken once: its bytes are given back");
  file_.Release(*view);
  return *std::move(values);
}

absl::Status WeightReader::Finish() const {
  RETURN_IF_ERROR(status_);
  for (const auto& [name, view] : file_.tensors()) {
    if (!checked_.contains(name)) {
      return absl::InvalidArgumentError(absl::StrCat(file_.name(), ": tensor '", name,
                                                     "' does not belong to this kind of model"));
    }
  }
  return absl::OkStatus();
}

}  // namespace chorale
