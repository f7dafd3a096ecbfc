#include "engine/session/request_preparation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "engine/context/check_digest.h"
#include "engine/context/context_bytes.h"
#include "engine/data/query_columns.h"
#include "engine/data/training_limits.h"
#include "engine/session/grouped_paths.h"
#include "engine/session/query_groups.h"
#include "engine/session/request_validation.h"

namespace chorale {
namespace {

// Whether numbers match categories is not known before the context is loaded.
absl::Status CheckColumns(const RequestBase& request, const std::vector<ColumnInfo>& context) {
  std::vector<FeatureColumn> columns;
  columns.reserve(context.size());
  for (const ColumnInfo& column : context) {
    columns.push_back({column.name, column.type, column.left_out, column.meaning});
  }
  return MatchQueryRows(FeatureColumns(std::move(columns)), request.query_rows,
                        request.extra_columns)
      .status();
}

// The most distances between rows of a context and query rows that a request may ask for: a few
// seconds of the parts thread.
constexpr int64_t kMostDistances = int64_t{1} << 28;

// Checks the local rows of a request to a context of `rows` rows.
absl::Status CheckLocalRows(const RequestBase& request, int64_t rows) {
  const int64_t query_rows = request.query_rows.rows();
  return rows <= kMostDistances / query_rows
             ? absl::OkStatus()
             : LimitExceeded("local_row_count",
                             absl::StrCat("asks for distances of ", query_rows, " query rows to ",
                                          rows, " rows; the limit is ", kMostDistances,
                                          " distances: request fewer rows per call"));
}

// The largest scaled value of a target in a request: float32, the type in which models compute,
// must also represent the squares of what a model makes of it.
constexpr float kLargestScaledTarget = 1e15f;

// Checks whether the model can compute with values of a field of the request.
absl::Status CheckModelRange(absl::string_view field, const std::vector<double>& values,
                             const FeatureTransform& transform) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isinf(values[i])) continue;  // no end of a known total
    const float scaled = transform.ToModel(values[i]);
    if (!(std::abs(scaled) <= kLargestScaledTarget)) {
      return InvalidField(absl::StrCat(field, "[", i, "]"),
                          absl::StrCat("is ", values[i], "; its scaled value is ", scaled,
                                       ", and the limit is ", kLargestScaledTarget));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckModelRange(const RequestBase& request, const FeatureTransform& transform) {
  return CheckModelRange("known.values", request.known.values, transform);
}
absl::Status CheckModelRange(const SampleRequest& request, const FeatureTransform& transform) {
  const double largest = std::abs(transform.y_mean()) + transform.y_std() * kLargestScaledTarget;
  if (request.float32_values && largest > double{std::numeric_limits<float>::max()}) {
    return InvalidField("float32_values",
                        "is not possible, because values of the target may exceed float32");
  }
  if (request.known_totals.has_value()) {
    RETURN_IF_ERROR(CheckModelRange("known_totals.lower", request.known_totals->lower, transform));
    RETURN_IF_ERROR(CheckModelRange("known_totals.upper", request.known_totals->upper, transform));
  }
  return CheckModelRange("known.values", request.known.values, transform);
}
absl::Status CheckModelRange(const LogDensityRequest& request, const FeatureTransform& transform) {
  RETURN_IF_ERROR(CheckModelRange("values", request.y, transform));
  return CheckModelRange("known.values", request.known.values, transform);
}

// Returns true if the response describes the values to which the target is snapped. This includes
// responses with densities, because densities refer to the continuous distribution.
bool DescribesSnapping(const PredictRequest& request) {
  return request.snapping == Snapping::kOn && !request.quantiles.empty();
}
bool DescribesSnapping(const SampleRequest& request) { return request.snapping == Snapping::kOn; }
bool DescribesSnapping(const LogDensityRequest& /*request*/) { return true; }

// The rows on the longest path of a request. A prediction has a path for each predicted row.
int64_t MostPathRows(const PredictRequest& request) {
  const QueryGroups groups(request);
  return PredictionLengths(groups, PredictedRows(groups)).back().positions;
}
int64_t MostPathRows(const RequestBase& request) {
  const std::vector<int32_t>& sizes = request.group_sizes;
  return sizes.empty() ? request.query_rows.rows() : *std::max_element(sizes.begin(), sizes.end());
}

// The warning about a request whose paths are longer than those of the model's training.
ColumnNote BufferNote(int64_t path_rows, int64_t query_rows, const ModelConfig& config) {
  ColumnNote note;
  if (path_rows > config.buffer_size) {
    note.beyond_training =
        absl::StrCat("the request has ",
                     path_rows == query_rows ? absl::StrCat(query_rows, " query rows")
                                             : absl::StrCat(path_rows, " rows on a path"),
                     "; the model was trained on at most ", config.buffer_size,
                     ", so results may be less accurate");
  }
  return note;
}

// The preparation of a request with query rows.
template <typename Request>
class QueryRowsPreparation : public Preparation {
 public:
  QueryRowsPreparation(std::shared_ptr<const Request> request, const Limits* limits,
                       const Backend* backend)
      : request_(std::move(request)), limits_(limits), backend_(backend) {}

  absl::Status Check(const ContextRecord& record, const ModelInfo& model) const override {
    RETURN_IF_ERROR(CheckAllButColumns(record, model));
    return CheckColumns(*request_, record.columns);
  }

  int64_t LocalRows(const ContextRecord& record) const override {
    return request_->local_rows < record.rows ? request_->local_rows : 0;
  }

  absl::StatusOr<PreparedRequest> Prepare(
      std::shared_ptr<const RegisteredContext> context) const override {
    const FeatureTransform& transform = context->transform;
    RETURN_IF_ERROR(CheckAllButColumns(context->record, context->model->info));
    RETURN_IF_ERROR(CheckModelRange(*request_, transform));
    std::vector<ColumnNote> notes;
    ASSIGN_OR_RETURN(FeatureMatrix query_rows,
                     transform.Apply(request_->query_rows, &notes, request_->extra_columns));
    ColumnNote of_target = transform.target_note();
    if (!DescribesSnapping(*request_)) of_target.snapped_to.clear();
    if (!of_target.empty()) notes.push_back(std::move(of_target));
    const ModelConfig& config = context->model->info.config;
    ColumnNote of_size =
        TrainingNote(ShapeUsed(context->record).rows, transform.used_features(), config);
    if (!of_size.empty()) notes.push_back(std::move(of_size));
    ColumnNote of_buffer = BufferNote(MostPathRows(*request_), request_->query_rows.rows(), config);
    if (!of_buffer.empty()) notes.push_back(std::move(of_buffer));
    return PreparedRequest{std::move(context), std::move(query_rows), std::move(notes)};
  }

 private:
  absl::Status CheckAllButColumns(const ContextRecord& record, const ModelInfo& model) const {
    RETURN_IF_ERROR(CheckContextDigest(request_->expected.context_digest, record));
    RETURN_IF_ERROR(CheckModelDigest(request_->expected.model_digest, record, model.digest));
    RETURN_IF_ERROR(ValidateRequest(*request_, model.config, *limits_, *backend_));
    const bool local = LocalRows(record) > 0;
    if (local) RETURN_IF_ERROR(CheckLocalRows(*request_, record.rows));
    const ContextShape shape = ShapeUsed(record);
    RETURN_IF_ERROR(CheckMemorySet("context",
                                   "has a memory set, which the server's device does not support; "
                                   "set local_row_count, or use a server on a CPU",
                                   shape, *backend_));
    if (!local) RETURN_IF_ERROR(CheckAppends("context", record.appended_rows, *backend_));
    return ValidateContextBytes(local ? "local_row_count" : "context", model.config, shape,
                                *backend_, backend_->context_pool_bytes());
  }

  ContextShape ShapeUsed(const ContextRecord& record) const {
    const int64_t local_rows = LocalRows(record);
    return local_rows > 0 ? ContextShape{.rows = local_rows} : record.shape();
  }

  const std::shared_ptr<const Request> request_;
  const Limits* const limits_;
  const Backend* const backend_;
};

class WarmPreparation : public Preparation {
 public:
  explicit WarmPreparation(const Backend* backend) : backend_(backend) {}

  absl::Status Check(const ContextRecord& record, const ModelInfo& model) const override {
    RETURN_IF_ERROR(CheckMemorySet("name",
                                   "has a memory set, which the server's device does not support; "
                                   "use a server on a CPU",
                                   record.shape(), *backend_));
    RETURN_IF_ERROR(CheckAppends("name", record.appended_rows, *backend_));
    return ValidateContextBytes("name", model.config, record.shape(), *backend_,
                                backend_->context_pool_bytes());
  }
  int64_t LocalRows(const ContextRecord& record) const override { return 0; }
  absl::StatusOr<PreparedRequest> Prepare(
      std::shared_ptr<const RegisteredContext> context) const override {
    RETURN_IF_ERROR(Check(context->record, context->model->info));
    return PreparedRequest{std::move(context), FeatureMatrix()};
  }

 private:
  const Backend* const backend_;
};

}  // namespace

std::shared_ptr<const Preparation> MakePreparation(std::shared_ptr<const PredictRequest> request,
                                                   const Limits* limits, const Backend* backend) {
  return std::make_shared<QueryRowsPreparation<PredictRequest>>(std::move(request), limits,
                                                                backend);
}

std::shared_ptr<const Preparation> MakePreparation(std::shared_ptr<const SampleRequest> request,
                                                   const Limits* limits, const Backend* backend) {
  return std::make_shared<QueryRowsPreparation<SampleRequest>>(std::move(request), limits, backend);
}

std::shared_ptr<const Preparation> MakePreparation(std::shared_ptr<const SummarizeRequest> request,
                                                   const Limits* limits, const Backend* backend) {
  return std::make_shared<QueryRowsPreparation<SummarizeRequest>>(std::move(request), limits,
                                                                  backend);
}

std::shared_ptr<const Preparation> MakePreparation(std::shared_ptr<const LogDensityRequest> request,
                                                   const Limits* limits, const Backend* backend) {
  return std::make_shared<QueryRowsPreparation<LogDensityRequest>>(std::move(request), limits,
                                                                   backend);
}

std::shared_ptr<const Preparation> MakePreparation(
    const std::shared_ptr<const WarmRequest>& /*request*/, const Limits* /*limits*/,
    const Backend* backend) {
  return std::make_shared<WarmPreparation>(backend);
}

}  // namespace chorale
