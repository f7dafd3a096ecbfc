#include "server/codec/resource_name.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"

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
  RETURN_IF_ERROR(ValidateName(field, id));
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
