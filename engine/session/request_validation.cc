#include "engine/session/request_validation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "engine/session/grouped_paths.h"
#include "engine/session/known_totals_validation.h"
#include "engine/session/query_groups.h"
#include "engine/session/request_checks.h"
#include "engine/session/tile_plan.h"

namespace chorale {
namespace {

absl::Status ValidateQueryRows(const Table& query_rows, const Limits& limits) {
  if (query_rows.columns.empty()) return InvalidField("rows.columns", "is empty");
  const int64_t features = static_cast<int64_t>(query_rows.columns.size());
  if (features > limits.max_features) {
    return LimitExceeded("rows.columns", absl::StrCat("has ", features, " columns; the limit is ",
                                                      limits.max_features));
  }
  const int64_t rows = query_rows.rows();
  if (rows < 1) return InvalidField("rows", "has no rows; at least 1 row is required");
  return LimitUnless(rows <= limits.max_query_rows, "rows",
                     absl::StrCat("has ", rows, " rows; the limit is ", limits.max_query_rows));
}

absl::Status ValidateLocalRows(const RequestBase& request, const Limits& limits) {
  const int64_t query_rows = request.query_rows.rows();
  const int64_t rows = request.local_rows;
  if (rows != 0 && rows < query_rows) {
    return InvalidField("local_row_count", absl::StrCat("is ", rows, "; must be 0, or at least ",
                                                        query_rows, " (the number of query rows)"));
  }
  if (rows != 0 && request.group_sizes.size() > 1) {
    return InvalidField("local_row_count",
                        absl::StrCat("is ", rows,
                                     "; must be 0 with several groups, because the "
                                     "rows would be chosen for all groups together: make a call "
                                     "for each group"));
  }
  return LimitUnless(rows <= limits.max_context_rows, "local_row_count",
                     absl::StrCat("is ", rows, "; the limit is ", limits.max_context_rows));
}

absl::Status ValidateKnownRows(const std::vector<int32_t>& rows, int64_t query_rows) {
  if (static_cast<int64_t>(rows.size()) >= query_rows) {
    return InvalidField("known.rows",
                        absl::StrCat("has ", rows.size(), " entries; the limit is ", query_rows - 1,
                                     " (one query row must be left)"));
  }
  return ValidateRows("known.rows", rows, query_rows);
}

absl::Status ValidateGroupSizes(const std::vector<int32_t>& sizes, int64_t query_rows) {
  if (sizes.empty()) return absl::OkStatus();
  int64_t sum = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1) {
      return InvalidField(absl::StrCat("group_sizes[", i, "]"),
                          absl::StrCat("is ", sizes[i], "; must be at least 1"));
    }
    sum += sizes[i];
  }
  if (sum == query_rows) return absl::OkStatus();
  return InvalidField("group_sizes", absl::StrCat("has the sum ", sum, "; must be ", query_rows,
                                                  " (the number of query rows)"));
}

// Checks that each group has a row whose value is not known.
absl::Status ValidateUnknownRows(const QueryGroups& groups) {
  for (int64_t group = 0; group < groups.count(); ++group) {
    if (groups.known(group) < groups.positions(group)) continue;
    return InvalidField("known.rows", absl::StrCat("contains all rows of group ", group,
                                                   " (one row of each group must be left)"));
  }
  return absl::OkStatus();
}

// Checks known values of which there may be `sets` sets instead of one. `of_sets` names them.
absl::Status ValidateKnownValues(const KnownValues& known, int64_t sets,
                                 absl::string_view of_sets) {
  const int64_t values = static_cast<int64_t>(known.values.size());
  const int64_t rows = known.count();
  if (values != rows && (values % sets != 0 || values / sets != rows)) {
    return InvalidField(
        "known.values",
        absl::StrCat(
            "has ", values, " entries; must have ", rows, " (the number of known.rows)",
            sets > 1 ? absl::StrCat(", or ", rows, " for each of ", sets, " ", of_sets) : ""));
  }
  for (int64_t i = 0; i < values; ++i) {
    if (!std::isfinite(known.values[i])) {
      return InvalidField(absl::StrCat("known.values[", i, "]"),
                          absl::StrCat("is ", known.values[i], "; must be finite"));
    }
  }
  return absl::OkStatus();
}

// Checks the query rows, their groups and the known rows. Then QueryGroups can be created.
absl::Status ValidateBase(const RequestBase& request, const Limits& limits) {
  RETURN_IF_ERROR(ValidateQueryRows(request.query_rows, limits));
  RETURN_IF_ERROR(ValidateLocalRows(request, limits));
  const int64_t query_rows = request.query_rows.rows();
  RETURN_IF_ERROR(ValidateGroupSizes(request.group_sizes, query_rows));
  RETURN_IF_ERROR(ValidateKnownRows(request.known.rows, query_rows));
  return ValidateUnknownRows(QueryGroups(request));
}

// Checks the rows of a path, of which `field` "has" or "requires" this number.
absl::Status ValidateBuffer(absl::string_view field, absl::string_view has, int64_t path_rows,
                            BeyondBuffer beyond, const ModelConfig& config) {
  return LimitUnless(
      path_rows <= config.buffer_size || beyond == BeyondBuffer::kWrap, field,
      absl::StrCat(has, " ", path_rows, " rows; the model was trained with a buffer of ",
                   config.buffer_size,
                   " rows (set beyond_buffer to BEYOND_BUFFER_WRAP to exceed it)"));
}

// Checks the rows of the joint paths of each group.
absl::Status ValidateJointPaths(const RequestBase& request, const ModelConfig& config) {
  if (request.group_sizes.empty()) {
    return ValidateBuffer("rows", "has", request.query_rows.rows(), request.beyond_buffer, config);
  }
  const auto largest = std::max_element(request.group_sizes.begin(), request.group_sizes.end());
  return ValidateBuffer(absl::StrCat("group_sizes[", largest - request.group_sizes.begin(), "]"),
                        "is", *largest, request.beyond_buffer, config);
}

absl::Status ValidateBufferBytes(const RequestedPaths& request, const ModelConfig& config,
                                 const Backend& backend) {
  const TilePlan plan = PlanTiles(backend, config, request, 1);
  return LimitUnless(
      plan.slots > 0, "rows",
      absl::StrCat("has ", request.query_rows, " query rows, which need ", plan.slot_bytes,
                   " bytes of the buffer pool for ", plan.MostTilePaths(),
                   request.work == WorkKind::kPredict ? " rows" : " paths", " at a time",
                   plan.rows_bytes > 0
                       ? absl::StrCat(" and ", plan.rows_bytes, " bytes for their encodings")
                       : "",
                   "; the pool has ", backend.buffer_pool_bytes()));
}

constexpr int64_t kNumbersOfComponent = 3;  // mean, std, weight

absl::Status ValidateMixtureCount(int64_t vectors, int64_t query_rows, const ModelConfig& config,
                                  const Limits& limits) {
  return AtMost("include_mixtures", "values", vectors, query_rows, config.num_components,
                limits.max_values);
}

// Checks that the response of a density fits. REQUIRES: the counts of the request are within their
// limits.
absl::Status ValidateDensityResponse(const LogDensityRequest& request, const QueryGroups& groups,
                                     const ModelConfig& config, const Limits& limits) {
  const int64_t vectors = request.vectors;
  const int64_t query_rows = groups.unknown();  // of the response
  const int64_t orders = request.random_orders;
  if (orders > 0 && request.want_terms) {
    return InvalidField("include_terms",
                        "requires random_order_count 0, because terms belong to the given order");
  }
  if (orders > 0 && request.want_mixtures) {
    return InvalidField(
        "include_mixtures",
        "requires random_order_count 0, because mixtures belong to the given order");
  }
  if (orders > 0 && request.want_cdfs) {
    return InvalidField("include_cdfs",
                        "requires random_order_count 0, because cdfs belong to the given order");
  }
  int64_t mixture_numbers = 0;
  if (request.want_mixtures) {
    RETURN_IF_ERROR(ValidateMixtureCount(vectors, query_rows, config, limits));
    mixture_numbers = vectors * query_rows * config.num_components * kNumbersOfComponent;
  }
  const int64_t per_group = orders > 1 ? 2 : 1;  // density and standard error
  return ValidateResponse({{"values", vectors * groups.count() * per_group},
                           {"known.values", request.known.sets() * groups.count()},
                           {"include_terms", request.want_terms ? vectors * query_rows : 0},
                           {"include_cdfs", request.want_cdfs ? vectors * query_rows : 0},
                           {"include_mixtures", mixture_numbers}},
                          limits);
}

}  // namespace

absl::Status ValidateRequest(const PredictRequest& request, const ModelConfig& config,
                             const Limits& limits, const Backend& backend) {
  RETURN_IF_ERROR(ValidateBase(request, limits));
  RETURN_IF_ERROR(ValidateKnownValues(request.known, 1, ""));
  const int64_t query_rows = request.query_rows.rows();
  const QueryGroups groups(request);
  const int64_t predicted = groups.unknown();
  const int64_t quantiles = static_cast<int64_t>(request.quantiles.size());
  RETURN_IF_ERROR(ValidateQuantiles(request.quantiles, limits));
  RETURN_IF_ERROR(AtMost("quantiles", "values", predicted, quantiles, 1, limits.max_values));
  int64_t mixture_numbers = 0;
  if (request.want_mixtures) {
    RETURN_IF_ERROR(ValidateMixtureCount(1, predicted, config, limits));
    mixture_numbers = predicted * config.num_components * kNumbersOfComponent;
  }
  RETURN_IF_ERROR(ValidateResponse({{"rows", 2 * predicted},
                                    {"quantiles", predicted * quantiles},
                                    {"include_mixtures", mixture_numbers}},
                                   limits));
  const std::vector<EqualPaths> lengths = PredictionLengths(groups, PredictedRows(groups));
  if (request.known.count() == 0) {
    return ValidateBufferBytes({query_rows, lengths, WorkKind::kPredict}, config, backend);
  }
  int64_t values = 0;
  for (const EqualPaths& length : lengths) values += length.paths * length.positions;
  RETURN_IF_ERROR(
      LimitUnless(values <= limits.max_values, "known.rows",
                  absl::StrCat("requires ", values, " values on the paths of ", predicted,
                               " predictions; the limit is ", limits.max_values)));
  // The longest paths come last.
  RETURN_IF_ERROR(ValidateBuffer(
      "known.rows", absl::StrCat("has ", request.known.count(), " entries, which require paths of"),
      lengths.back().positions, request.beyond_buffer, config));
  return ValidateBufferBytes({query_rows, lengths, WorkKind::kDensity}, config, backend);
}

absl::Status ValidateRequest(const SampleRequest& request, const ModelConfig& config,
                             const Limits& limits, const Backend& backend) {
  RETURN_IF_ERROR(ValidateBase(request, limits));
  const int64_t query_rows = request.query_rows.rows();
  RETURN_IF_ERROR(InRange("path_count", request.paths, 1, limits.max_paths));
  RETURN_IF_ERROR(AtMost("path_count", "values", request.paths, query_rows, 1, limits.max_values));
  constexpr int64_t kMaxPath = std::numeric_limits<int32_t>::max();  // SampleBlock::path_indices
  RETURN_IF_ERROR(InRange("first_path", request.first_path, 0, kMaxPath - request.paths));
  RETURN_IF_ERROR(ValidateKnownValues(request.known, request.paths, "paths"));
  const QueryGroups groups(request);
  int64_t weights = 0;
  if (request.known_totals.has_value()) {
    RETURN_IF_ERROR(ValidateKnownTotals(*request.known_totals, groups.count()));
    weights = (request.paths + 1) * groups.count();  // and effective sample sizes
  }
  RETURN_IF_ERROR(ValidateResponse(
      {{"known.values", request.known.sets() * groups.count()}, {"known_totals", weights}},
      limits));
  RETURN_IF_ERROR(ValidateJointPaths(request, config));
  return ValidateBufferBytes(
      {query_rows, GroupedPaths(&groups, request.paths).lengths(), WorkKind::kDecode}, config,
      backend);
}

absl::Status ValidateRequest(const LogDensityRequest& request, const ModelConfig& config,
                             const Limits& limits, const Backend& backend) {
  RETURN_IF_ERROR(ValidateBase(request, limits));
  const int64_t query_rows = request.query_rows.rows();
  const QueryGroups groups(request);
  const int64_t unknown = groups.unknown();
  const int64_t values = static_cast<int64_t>(request.y.size());
  const int64_t vectors = request.vectors;
  if (vectors < 1 || values % unknown != 0 || values / unknown != vectors) {
    return InvalidField(
        "values", absl::StrCat("has ", values, " entries; must be a positive multiple of ", unknown,
                               " (the number of query rows",
                               request.known.count() > 0 ? " whose values are not known)" : ")"));
  }
  if (vectors > limits.max_paths) {
    return LimitExceeded(
        "values", absl::StrCat("has ", vectors, " vectors; the limit is ", limits.max_paths));
  }
  RETURN_IF_ERROR(AtMost("values", "values", vectors, query_rows, 1, limits.max_values));
  for (int64_t i = 0; i < values; ++i) {
    if (!std::isfinite(request.y[i])) {
      return InvalidField(absl::StrCat("values[", i, "]"),
                          absl::StrCat("is ", request.y[i], "; must be finite"));
    }
  }
  RETURN_IF_ERROR(ValidateKnownValues(request.known, vectors, "vectors"));
  const int64_t orders = request.random_orders;
  RETURN_IF_ERROR(InRange("random_order_count", orders, 0, limits.max_orders));
  RETURN_IF_ERROR(
      AtMost("random_order_count", "values", vectors, query_rows, orders, limits.max_values));
  RETURN_IF_ERROR(ValidateDensityResponse(request, groups, config, limits));
  RETURN_IF_ERROR(ValidateJointPaths(request, config));
  const int64_t paths = vectors * std::max<int64_t>(orders, 1);
  return ValidateBufferBytes(
      {query_rows, GroupedPaths(&groups, paths).lengths(), WorkKind::kDensity}, config, backend);
}

}  // namespace chorale
