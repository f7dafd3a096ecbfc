#include "kernels/ops/field_checks.h"

#include "absl/strings/str_cat.h"

namespace chorale::kernels {

absl::Status RequirePositive(std::initializer_list<SizeField> fields) {
  for (const SizeField& field : fields) {
    if (field.value < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(field.name, " is ", field.value, ", must be at least 1"));
    }
  }
  return absl::OkStatus();
}

absl::Status RequireNotNegative(std::initializer_list<SizeField> fields) {
  for (const SizeField& field : fields) {
    if (field.value < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(field.name, " is ", field.value, ", must be at least 0"));
    }
  }
  return absl::OkStatus();
}

absl::Status RequireNotNull(std::initializer_list<PointerField> fields) {
  for (const PointerField& field : fields) {
    if (field.value == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(field.name, " is null"));
    }
  }
  return absl::OkStatus();
}

absl::Status RequireAtLeast(SizeField field, int64_t minimum) {
  if (field.value >= minimum) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field.name, " is ", field.value, ", must be at least ", minimum));
}

}  // namespace chorale::kernels
