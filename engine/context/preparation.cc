#include "engine/context/preparation.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "engine/context/context_bytes.h"
#include "engine/data/target_columns.h"

namespace chorale {
namespace {

absl::Status CheckColumns(const Table& targets, const std::vector<ColumnInfo>& context) {
  std::vector<FeatureColumn> columns;
  columns.reserve(context.size());
  for (const ColumnInfo& column : context) columns.push_back({column.name, column.type});
  return MatchTargets(columns, targets).status();
}

}  // namespace

Preparation PrepareTargets(std::shared_ptr<const RequestBase> request, const Backend* backend,
                           std::function<absl::Status(const ModelConfig&)> validate) {
  Preparation preparation;
  preparation.check = [request, backend, validate = std::move(validate)](
                          const ContextRecord& record, const ModelConfig& config) {
    RETURN_IF_ERROR(validate(config));
    RETURN_IF_ERROR(ValidateContextBytes("context", config, record.rows, *backend));
    return CheckColumns(request->targets, record.columns);
  };
  preparation.finish =
      [request](
          std::shared_ptr<const RegisteredContext> context) -> absl::StatusOr<PreparedRequest> {
    absl::StatusOr<FeatureMatrix> targets = context->transform.Apply(request->targets);
    RETURN_IF_ERROR(targets.status());
    return PreparedRequest{std::move(context), *std::move(targets)};
  };
  return preparation;
}

}  // namespace chorale
