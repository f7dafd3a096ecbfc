#include "engine/preparation.h"

#include <utility>
#include <vector>

#include "engine/data/target_columns.h"
#include "engine/request_validation.h"

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
    if (auto s = validate(config); !s.ok()) return s;
    if (auto s = ValidateContextBytes("context", config, record.rows, *backend); !s.ok()) return s;
    return CheckColumns(request->targets, record.columns);
  };
  preparation.finish =
      [request](
          std::shared_ptr<const RegisteredContext> context) -> absl::StatusOr<PreparedRequest> {
    absl::StatusOr<FeatureMatrix> targets = context->transform.Apply(request->targets);
    if (!targets.ok()) return targets.status();
    return PreparedRequest{std::move(context), *std::move(targets)};
  };
  return preparation;
}

}  // namespace chorale
