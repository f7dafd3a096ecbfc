#include "client/cli/warning_hint.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/shell_word.h"

namespace chorale::client {

std::string HintFor(const v1::Warning& warning) {
  const std::string column = AsOptionValue(warning.column());
  switch (warning.reason()) {
    case v1::Warning::REASON_READ_AS_DATES:
    case v1::Warning::REASON_LEADING_ZEROS:
      return absl::StrCat("use --categorical=", column);
    case v1::Warning::REASON_MIXED_TYPES:
      return absl::StrCat("use --missing=TEXT,... for missing cells, or --categorical=", column);
    case v1::Warning::REASON_ALL_DISTINCT:
    case v1::Warning::REASON_LARGE_INTEGERS:
      return absl::StrCat("use --drop=", column);
    default:
      return "";
  }
}

}  // namespace chorale::client
