#include "server/resource_name.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/data/error_details.h"
#include "engine/data/names.h"

namespace chorale {
namespace {

constexpr absl::string_view kContexts = "contexts/";
constexpr absl::string_view kModels = "models/";

absl::StatusOr<std::string> ParseName(absl::string_view name, absl::string_view collection,
                                      absl::string_view field) {
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, collection)) {
    return InvalidField(
        field, absl::StrCat("must be \"", collection, "\" and an id, not ", QuoteName(name)));
  }
  if (absl::Status status = ValidateName(field, id); !status.ok()) return status;
  return std::string(id);
}

}  // namespace

absl::StatusOr<std::string> ParseContextName(absl::string_view name, absl::string_view field) {
  return ParseName(name, kContexts, field);
}

absl::StatusOr<std::string> ParseModelName(absl::string_view name, absl::string_view field) {
  return ParseName(name, kModels, field);
}

std::string ContextName(absl::string_view id) { return absl::StrCat(kContexts, id); }
std::string ModelName(absl::string_view id) { return absl::StrCat(kModels, id); }

}  // namespace chorale
