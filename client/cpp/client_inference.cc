// The calls Predict and LogDensity of Client.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cpp/client.h"
#include "client/cpp/connection.h"
#include "client/cpp/groups.h"
#include "client/cpp/known_values.h"
#include "client/cpp/predict_pieces.h"
#include "client/cpp/request_fields.h"
#include "client/cpp/table_codec.h"

namespace chorale::client {
namespace {

// InvalidArgument if the known rows of a request of Predict leave none of its local rows. Requires
// valid known rows and groups.
absl::Status CheckLocalRows(const PredictOptions& options, int64_t row_count) {
  const std::vector<int64_t> group_of = GroupOfEachRow(options.group_sizes, row_count);
  std::vector<int64_t> counts(CountGroups(options.group_sizes), 0);
  for (const int32_t row : options.known.rows()) ++counts[group_of[row]];
  const int64_t known = *std::max_element(counts.begin(), counts.end());
  if (options.local_rows <= 0 || options.local_rows > known) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "local_rows: ", options.local_rows, ", must be more than the number of known values, ", known,
      ": increase local_rows, or use fewer known values"));
}

// The fields that all requests of a call have in common.
v1::PredictRequest ToProto(const std::string& id, const PredictOptions& options) {
  v1::PredictRequest request;
  request.set_context(absl::StrCat("contexts/", id));
  request.mutable_quantiles()->Add(options.quantiles.begin(), options.quantiles.end());
  request.set_include_mixtures(options.mixture == PredictOptions::Mixture::kInclude);
  request.set_snapping(ToProto(options.snapping));
  request.set_local_row_count(options.local_rows);
  request.set_beyond_buffer(ToProto(options.beyond_buffer));
  return request;
}

template <class Values>
void Append(const Values& values, std::vector<double>* out) {
  out->insert(out->end(), values.begin(), values.end());
}

// Adds the log-densities of the known values of a piece's groups, unless an earlier piece, with a
// part of a group, has added them.
absl::Status AppendKnown(const v1::PredictRequest& request, const v1::PredictResponse& response,
                         const RowRange& groups, Predictions* out) {
  RETURN_IF_ERROR(CheckKnownLogDensities(response.known_log_densities(), request.known(), 1,
                                         CountGroups(request.group_sizes())));
  for (int64_t group = groups.begin; group < groups.end; ++group) {
    if (group < static_cast<int64_t>(out->known_log_densities.size())) continue;
    const auto at = static_cast<int>(group - groups.begin);
    const bool known = !request.known().rows().empty();
    out->known_log_densities.push_back(known ? response.known_log_densities(at) : 0.0);
  }
  return absl::OkStatus();
}

absl::Status AppendPredictions(const v1::PredictResponse& response, int64_t rows,
                               const PredictOptions& options, Predictions* out) {
  const bool with_mixtures = options.mixture == PredictOptions::Mixture::kInclude;
  const v1::Mixtures& mixtures = response.mixtures();
  const int64_t components = with_mixtures ? rows * mixtures.component_count() : 0;
  const auto quantiles = static_cast<int64_t>(options.quantiles.size());
  for (const absl::Status& status :
       {CheckSize("means", response.means_size(), rows),
        CheckSize("standard deviations", response.stds_size(), rows),
        CheckSize("quantiles", response.quantiles_size(), rows * quantiles),
        CheckSize("mixture means", mixtures.means_size(), components),
        CheckSize("mixture standard deviations", mixtures.stds_size(), components),
        CheckSize("mixture weights", mixtures.weights_size(), components)}) {
    RETURN_IF_ERROR(status);
  }
  Append(response.means(), &out->means);
  Append(response.stds(), &out->stds);
  Append(response.quantiles(), &out->quantiles);
  if (with_mixtures) {
    v1::Mixtures* all = &out->mixtures;
    all->set_component_count(mixtures.component_count());
    all->mutable_means()->MergeFrom(mixtures.means());
    all->mutable_stds()->MergeFrom(mixtures.stds());
    all->mutable_weights()->MergeFrom(mixtures.weights());
  }
  return absl::OkStatus();
}

// Merges the warnings of several requests about one table.
class WarningMerger {
 public:
  void Add(const google::protobuf::RepeatedPtrField<v1::Warning>& warnings) {
    for (const v1::Warning& warning : warnings) {
      const auto same = std::find_if(merged_.begin(), merged_.end(), [&](const Merged& other) {
        return other.warning.reason() == warning.reason() &&
               other.warning.column() == warning.column();
      });
      if (same == merged_.end()) {
        merged_.push_back({warning, false});
      } else if (warning.reason() !=
                 v1::Warning::REASON_CLIPPED_TARGET) {  // it counts values of the context
        same->warning.set_cell_count(same->warning.cell_count() + warning.cell_count());
        same->of_several = true;
      }
    }
  }

  std::vector<v1::Warning> Take() {
    std::vector<v1::Warning> warnings;
    for (Merged& merged : merged_) {
      // The message has the count of the first response.
      if (merged.of_several && merged.warning.cell_count() > 0) {
        absl::StrAppend(merged.warning.mutable_message(), "; ", merged.warning.cell_count(),
                        " cells in all rows together");
      }
      warnings.push_back(std::move(merged.warning));
    }
    return warnings;
  }

 private:
  struct Merged {
    v1::Warning warning;
    bool of_several = false;
  };
  std::vector<Merged> merged_;
};

}  // namespace

absl::StatusOr<Predictions> Client::Predict(const std::string& id, const DataFrame& rows,
                                            const PredictOptions& options,
                                            const CallOptions& call) {
  RETURN_IF_ERROR(CheckQueryRows(rows, options.known, options.group_sizes));
  RETURN_IF_ERROR(CheckLocalRows(options, rows.row_count()));
  const auto deadline = Deadline::After(TimeoutOf(call));
  Predictions predictions;
  predictions.source = options.expected_source;
  WarningMerger warnings;
  const PredictPieces pieces(rows, options.known, options.group_sizes, options.local_rows);
  for (size_t piece = 0; piece < pieces.count(); ++piece) {
    // A request may be shorter than the interval at which it checks this.
    if (call.cancellation != nullptr && call.cancellation->cancelled()) {
      return absl::CancelledError("cancelled");
    }
    v1::PredictRequest request = ToProto(id, options);
    pieces.Encode(piece, &request);
    *request.mutable_expected_source() = predictions.source;
    v1::PredictResponse response;
    absl::Status status = WithRetry(options_.retry, deadline.at, call.cancellation, [&] {
      return UnaryCall(connection_->calls(), &v1::Chorale::Stub::PrepareAsyncPredict, request, id,
                       deadline, call.cancellation, &response);
    });
    RETURN_IF_ERROR(status);
    if (!options.known.rows().empty()) {
      RETURN_IF_ERROR(AppendKnown(request, response, pieces.groups(piece), &predictions));
    }
    Predictions next;
    RETURN_IF_ERROR(AppendPredictions(response, pieces.range(piece).size(), options,
                                      options.on_predictions ? &next : &predictions));
    predictions.source = response.source();
    warnings.Add(response.warnings());
    if (options.on_predictions) {
      next.source = response.source();
      RETURN_IF_ERROR(options.on_predictions(next));
    }
    if (options.on_progress) options.on_progress(pieces.range(piece).end);
  }
  predictions.warnings = warnings.Take();
  return predictions;
}

absl::StatusOr<LogDensities> Client::LogDensity(const std::string& id, const DataFrame& rows,
                                                absl::Span<const double> values,
                                                const LogDensityOptions& options,
                                                const CallOptions& call) {
  RETURN_IF_ERROR(CheckQueryRows(rows, options.known, options.group_sizes));
  const int64_t width = rows.row_count() - options.known.rows_size();
  const auto size = static_cast<int64_t>(values.size());
  if (size == 0 || size % width != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("values: ", size, " values, must be a positive multiple of the ", width,
                     " rows", options.known.rows().empty() ? "" : " whose values are not known"));
  }
  const int64_t vectors = size / width;
  const int64_t groups = CountGroups(options.group_sizes);
  const bool with_terms = options.terms == LogDensityOptions::Terms::kInclude;
  const bool with_cdfs = options.cdfs == LogDensityOptions::Cdfs::kInclude;
  v1::LogDensityRequest request;
  request.set_context(absl::StrCat("contexts/", id));
  *request.mutable_rows() = EncodeTable(rows, TableUse::kLookUp);
  request.mutable_values()->Add(values.begin(), values.end());
  request.set_random_order_count(options.random_orders);
  if (options.seed.has_value()) request.set_seed(*options.seed);
  request.set_include_terms(with_terms);
  request.set_include_cdfs(with_cdfs);
  request.set_beyond_buffer(ToProto(options.beyond_buffer));
  request.set_local_row_count(options.local_rows);
  *request.mutable_expected_source() = options.expected_source;
  if (options.known.ByteSizeLong() > 0) *request.mutable_known() = options.known;
  request.mutable_group_sizes()->Add(options.group_sizes.begin(), options.group_sizes.end());
  v1::LogDensityResponse response;
  absl::Status status = Run(call, [&](const Deadline& deadline) {
    return UnaryCall(connection_->calls(), &v1::Chorale::Stub::PrepareAsyncLogDensity, request, id,
                     deadline, call.cancellation, &response);
  });
  RETURN_IF_ERROR(status);
  const int64_t joint = vectors * groups;
  if (groups > 1 && response.log_densities_size() == vectors) return GroupsIgnored();
  for (const absl::Status& next :
       {CheckKnownLogDensities(response.known_log_densities(), options.known, vectors, groups),
        CheckSize("log-densities", response.log_densities_size(), joint),
        CheckSize("standard errors", response.standard_errors_size(),
                  options.random_orders >= 4 ? joint : 0),
        CheckSize("terms", response.terms_size(), with_terms ? size : 0),
        CheckSize("cdfs", response.cdfs_size(), with_cdfs ? size : 0)}) {
    RETURN_IF_ERROR(next);
  }
  LogDensities densities;
  Append(response.log_densities(), &densities.joint);
  Append(response.standard_errors(), &densities.standard_errors);
  Append(response.terms(), &densities.terms);
  Append(response.cdfs(), &densities.cdfs);
  Append(response.known_log_densities(), &densities.known_log_densities);
  densities.seed = response.seed();
  densities.source = response.source();
  densities.warnings.assign(response.warnings().begin(), response.warnings().end());
  return densities;
}

}  // namespace chorale::client
