#include "engine/context/check_digest.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error_details.h"
#include "base/names.h"

namespace chorale {
namespace {

absl::Status Check(const std::string& expected, const std::string& digest, absl::string_view what,
                   const std::string& context, absl::string_view why) {
  if (expected.empty() || expected == digest) return absl::OkStatus();
  return MakeError(
      ErrorReason::kSourceChanged,
      absl::StrCat("expected_source.", what, "_digest: the ", what, " of ", QuoteName(context),
                   " has the digest ", digest, ", not ", expected, " as expected: ", why));
}

}  // namespace

absl::Status CheckContextDigest(const std::string& expected, const ContextRecord& record) {
  return Check(expected, record.digest, "context", record.name,
               "it was replaced, or rows were appended or encoded anew");
}

absl::Status CheckModelDigest(const std::string& expected, const ContextRecord& record,
                              const std::string& model_digest) {
  return Check(expected, model_digest, "model", record.name, "it was replaced");
}

}  // namespace chorale
