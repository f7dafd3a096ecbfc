// Early return on an error status.
#ifndef CHORALE_BASE_STATUS_MACROS_H_
#define CHORALE_BASE_STATUS_MACROS_H_

#include "absl/status/status.h"

// Returns from the enclosing function when an expression of type absl::Status is not OK. The
// function returns absl::Status or absl::StatusOr. Variadic, because an expression may have commas
// in braces.
#define RETURN_IF_ERROR(...)                                                     \
  do {                                                                           \
    if (absl::Status status_to_return = (__VA_ARGS__); !status_to_return.ok()) { \
      return status_to_return;                                                   \
    }                                                                            \
  } while (false)

#endif  // CHORALE_BASE_STATUS_MACROS_H_
