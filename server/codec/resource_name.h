// Resource names of the API: "contexts/{context_id}" and "models/{model_id}".
#ifndef CHORALE_SERVER_CODEC_RESOURCE_NAME_H_
#define CHORALE_SERVER_CODEC_RESOURCE_NAME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale {

// Returns the id in a resource name. InvalidArgument with `field` if the name is malformed.
absl::StatusOr<std::string> ParseContextName(absl::string_view name, absl::string_view field);
absl::StatusOr<std::string> ParseModelName(absl::string_view name, absl::string_view field);

std::string ContextName(absl::string_view id);
std::string ModelName(absl::string_view id);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_RESOURCE_NAME_H_
