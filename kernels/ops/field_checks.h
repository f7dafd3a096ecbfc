// Checks of parameter fields. Errors name the field and the limit.
#ifndef CHORALE_KERNELS_OPS_FIELD_CHECKS_H_
#define CHORALE_KERNELS_OPS_FIELD_CHECKS_H_

#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chorale::kernels {

// A field of a parameter struct, with its name for errors.
struct SizeField {
  absl::string_view name;
  int64_t value = 0;
};

struct PointerField {
  absl::string_view name;
  const void* value = nullptr;
};

absl::Status RequirePositive(std::initializer_list<SizeField> fields);
absl::Status RequireNotNegative(std::initializer_list<SizeField> fields);
absl::Status RequireNotNull(std::initializer_list<PointerField> fields);

// For strides: field.value >= minimum.
absl::Status RequireAtLeast(SizeField field, int64_t minimum);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_FIELD_CHECKS_H_
