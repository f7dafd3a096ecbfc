// Early returns on errors.
#ifndef CHORALE_BASE_STATUS_MACROS_H_
#define CHORALE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"

// Returns the status from the enclosing function if an expression of type absl::Status is not OK.
// The function must return absl::Status or absl::StatusOr. Variadic, because an expression may have
// commas in braces.
#define RETURN_IF_ERROR(...)                                                     \
  do {                                                                           \
    if (absl::Status status_to_return = (__VA_ARGS__); !status_to_return.ok()) { \
      return status_to_return;                                                   \
    }                                                                            \
  } while (false)

// ASSIGN_OR_RETURN(const Dataset dataset, DecodeDataset(bytes)): declares or assigns a variable
// from an expression of type absl::StatusOr. Returns the status from the enclosing function if it
// is not OK. A type that has a comma outside parentheses needs `auto`.
#define ASSIGN_OR_RETURN(variable, ...) \
  CHORALE_ASSIGN_OR_RETURN(CHORALE_CONCATENATE(status_or_, __LINE__), variable, __VA_ARGS__)
#define CHORALE_ASSIGN_OR_RETURN(result, variable, ...)  \
  auto result = (__VA_ARGS__);                           \
  if (!(result).ok()) return std::move(result).status(); \
  variable = *std::move(result)
#define CHORALE_CONCATENATE(a, b) CHORALE_CONCATENATE_AGAIN(a, b)
#define CHORALE_CONCATENATE_AGAIN(a, b) a##b

#endif  // CHORALE_BASE_STATUS_MACROS_H_
