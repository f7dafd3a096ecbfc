#include "engine/context/preparation.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "engine/context/context_bytes.h"
#include "engine/data/target_columns.h"

namespace chorale {
namespace {

absl::Status CheckSource(const Source& expected, const ContextRecord& record,
                         const ModelInfo& model) {
  const auto changed = [&](absl::string_view what, absl::string_view is,
                           absl::string_view expected) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "expected_source.", what, "_digest: the ", what, " of ", QuoteName(record.name),
            " has the digest ", is, ", not ", expected, " as expected: it was replaced")),
        "SOURCE_CHANGED");
  };
  if (!expected.context_digest.empty() && expected.context_digest != record.digest) {
    return changed("context", record.digest, expected.context_digest);
  }
  if (!expected.model_digest.empty() && expected.model_digest != model.digest) {
    return changed("model", model.digest, expected.model_digest);
  }
  return absl::OkStatus();
}

absl::Status CheckColumns(const Table& targets, const std::vector<ColumnInfo>& context) {
  std::vector<FeatureColumn> columns;
  columns.reserve(context.size());
  for (const ColumnInfo& column : context) {
    columns.push_back({column.name, column.type, column.left_out});
  }
  return MatchTargets(FeatureColumns(std::move(columns)), targets).status();
}

}  // namespace

Preparation PrepareTargets(std::shared_ptr<const RequestBase> request, const Backend* backend,
                           std::function<absl::Status(const ModelConfig&)> validate,
                           bool tells_of_snapping) {
  Preparation preparation;
  preparation.check = [request, backend, validate = std::move(validate)](
                          const ContextRecord& record, const ModelInfo& model) {
    RETURN_IF_ERROR(CheckSource(request->expected, record, model));
    RETURN_IF_ERROR(validate(model.config));
    return ValidateContextBytes("context", model.config, record.rows, *backend,
                                backend->context_pool_bytes());
  };
  preparation.check_columns = [request](const ContextRecord& record) {
    return CheckColumns(request->targets, record.columns);
  };
  preparation.finish =
      [request, tells_of_snapping](
          std::shared_ptr<const RegisteredContext> context) -> absl::StatusOr<PreparedRequest> {
    std::vector<ColumnNote> notes;
    ASSIGN_OR_RETURN(FeatureMatrix targets, context->transform.Apply(request->targets, &notes));
    ColumnNote of_target = context->transform.target_note();
    if (!tells_of_snapping) of_target.snapped_to.clear();
    if (!of_target.empty()) notes.push_back(std::move(of_target));
    return PreparedRequest{std::move(context), std::move(targets), std::move(notes)};
  };
  return preparation;
}

}  // namespace chorale
