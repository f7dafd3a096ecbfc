// The engine's requests and results, without gRPC and Protobuf. Tables, values and densities are in
// the user's units.
#ifndef CHORALE_ENGINE_API_REQUEST_H_
#define CHORALE_ENGINE_API_REQUEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/data/column_note.h"
#include "engine/data/query_columns.h"
#include "engine/data/table.h"
#include "engine/store/context_store.h"

namespace chorale {

// A table to register, except its dataset.
struct RegisterRequest {
  std::string context;  // name
  std::string model;    // empty: the default model
  bool validate_only = false;
  // The details. If the content is registered already, those that are set replace the context's.
  std::string description = {};
  std::map<std::string, std::string> labels = {};
  // At most one of them: when the context expires, and how long after the registration.
  std::optional<absl::Time> expires = {};
  std::optional<absl::Duration> ttl = {};
  // Whether to replace other content or another model of the name, and all details; and the etag
  // that the context must have (empty: any, or no context).
  bool replace = false;
  std::string etag = {};
};

// Rows to append to a context, except the rows.
struct AppendRequest {
  std::string context;  // name
  // The rows that the context has before the append. If the context has these rows appended
  // already, because the call is repeated, nothing changes. nullopt: not checked.
  std::optional<int64_t> first_row = {};
  std::string etag = {};              // that the context must have; empty: any
  std::string expected_digest = {};   // FailedPrecondition if the context has another; empty: any
  bool drop_missing_targets = false;  // drop rows whose target is missing, instead of an error
  bool validate_only = false;
};

// The terms of a deletion.
struct DeleteTerms {
  std::string etag = {};       // that the context must have; empty: any
  bool allow_missing = false;  // a context that does not exist is no error
};

// The cost of work that was validated and not done.
struct Estimate {
  int64_t device_bytes = 0;  // exact
  // Under the load of earlier work of the model; nullopt before the server has measured any.
  std::optional<absl::Duration> duration;
};

enum class RowOrder {
  kGiven,          // position t is query row t on every path
  kRandomPerPath,  // every path has its own order, drawn from the seed (kernels::DrawOrder)
};

// How T > K (the buffer positions that the model was trained with) is treated.
enum class BeyondBuffer {
  kRefuse,
  kWrap,  // position i uses offset i mod K, as the reference implementation does
};

// The random numbers of the steps of paths (kernels/ops/step_draw.h).
enum class Sampling {
  kIndependent,
  kSobol,  // in each step, those of the paths of a replicate are spread evenly
};

// What the statistics of paths are estimated from.
enum class Estimator {
  kConditional,  // from the mixtures of which the values are drawn, where possible
  kValues,       // from the values alone
};

// Whether draws and quantiles are snapped to the possible values of a target with repeated values
// (engine/data/target_support.h).
enum class Snapping { kOn, kOff };

// The source of a result: digests of the dataset and of the model's files, lower-case hex SHA-256.
struct Source {
  std::string context_digest;
  std::string model_digest;
};

// Known target values of N of the T query rows, on which the results are conditional. They come
// first on every path, in this order. The results are those of the other U = T - N query rows.
struct KnownValues {
  std::vector<int32_t> rows;   // [N], distinct
  std::vector<double> values;  // [N], or [B, N]: of each path, or of each vector

  int64_t count() const { return static_cast<int64_t>(rows.size()); }  // N
  // The sets of values: 0 if N is 0, otherwise 1 or B.
  int64_t sets() const { return rows.empty() ? 0 : static_cast<int64_t>(values.size()) / count(); }
  // The value of rows[i] on a path, or for a vector.
  double value(int64_t path, int64_t i) const {
    return values[(sets() == 1 ? 0 : path * count()) + i];
  }
};

// The fields that all requests with query rows have.
struct RequestBase {
  std::string context;  // name
  Table query_rows;     // [T] rows; feature columns matched by name
  ExtraColumns extra_columns = ExtraColumns::kReject;
  Source expected;  // FailedPrecondition if the digests differ; empty digests match
  // L: the call uses only L rows of the context, those nearest to its query rows, which are encoded
  // for it alone (engine/data/nearest_rows.h). 0, or all rows of the context or more: all rows.
  int64_t local_rows = 0;
  KnownValues known;
  // [G], positive, with the sum T: the sizes of groups of consecutive query rows. Each group has a
  // joint distribution of its own, conditional on the known values of its rows. Empty: all query
  // rows are one group, so G is 1.
  std::vector<int32_t> group_sizes;
  BeyondBuffer beyond_buffer = BeyondBuffer::kRefuse;
};

struct PredictRequest : RequestBase {
  std::vector<double> quantiles;      // each in (0, 1)
  Snapping snapping = Snapping::kOn;  // of the quantiles
  bool want_mixtures = false;
};

// Known totals of groups. The total of a group is the sum of the values of its rows, including
// those that are known. It lies between the two ends, and is known exactly if they are equal. -inf
// and inf: no end.
struct KnownTotals {
  std::vector<double> lower;  // [G]
  std::vector<double> upper;  // [G]
};

struct SampleRequest : RequestBase {
  int64_t paths = 0;       // B
  int64_t first_path = 0;  // the index of the first of the B paths among those of the seed
  RowOrder order = RowOrder::kGiven;
  std::optional<uint64_t> seed;  // none: the engine chooses one
  Sampling sampling = Sampling::kIndependent;
  Snapping snapping = Snapping::kOn;
  bool want_log_densities = false;
  bool whole_paths = false;                 // blocks have all steps of their paths
  bool float32_values = false;              // the caller converts the values to float32
  std::optional<KnownTotals> known_totals;  // none in a SummarizeRequest
  // The request is validated and not run: the observer receives no block, and a summary with an
  // estimate.
  bool validate_only = false;
};

// What is computed from the values of a path at the n rows of a functional, as documented in
// v1::Functional.Type. A value is beyond the threshold if it is above it, or below it if `below`.
enum class FunctionalType {
  kSum,
  kMean,
  kMax,
  kMin,
  kAny,
  kAll,
  kCount,
  kExcess,
  kImprovement,
  kLongestRun,
  // Of each row.
  kArgmax,
  kArgmin,
  kRank,
  kSumBeyond,  // a single number
};

// Targets for standard errors: the paths are drawn until the errors are at most these. 0: none.
struct TargetErrors {
  double mean = 0;
  double quantile = 0;

  bool any() const { return mean > 0 || quantile > 0; }
};

struct Functional {
  FunctionalType type = FunctionalType::kSum;
  std::vector<int32_t> rows;    // [n], distinct query rows; empty: all
  std::vector<double> weights;  // [n], of kSum and kSumBeyond; empty: each is 1
  double threshold = 0;
  bool below = false;
  TargetErrors target_errors = {};
};

// With target errors, of rows or of functionals, `paths` is the largest number of paths.
struct SummarizeRequest : SampleRequest {
  std::vector<double> quantiles;  // each in (0, 1)
  std::vector<Functional> functionals;
  Estimator estimator = Estimator::kConditional;
  bool want_covariances = false;
  int64_t returned_paths = 0;
  TargetErrors target_errors;  // of all rows
};

struct LogDensityRequest : RequestBase {
  std::vector<double> y;  // [B, U], finite
  int64_t vectors = 0;    // B
  // 0: the given order. R > 0: log-mean-exp over R random orders per vector, in pairs of an order
  // and its reverse.
  int64_t random_orders = 0;
  std::optional<uint64_t> seed;  // of random orders; none: the engine chooses one
  bool want_terms = false;       // per query row; only with the given order
  bool want_mixtures = false;    // per query row; only with the given order
  bool want_cdfs = false;        // per query row; only with the given order
};

enum class Residency {
  kUntilEvicted,
  kPinned,  // never evicted, until the context is deleted or its model is removed
};

struct WarmRequest {
  std::string context;  // name
  Residency residency = Residency::kUntilEvicted;
  // Whether to encode a context with appended rows anew as a whole, as a registration of all its
  // rows. The call ends when the new encoding serves. No-op for a context without appended rows.
  bool encode_anew = false;
};

// Mixtures of n rows, [n, M] each, in the user's units, with the components of a row in ascending
// order of their means. Weights sum to 1.
struct Mixtures {
  int64_t components = 0;  // M
  std::vector<double> means;
  std::vector<double> stds;
  std::vector<double> weights;
};

struct Timings {
  absl::Duration queued;      // the wait for the lookup, and for memory
  absl::Duration encoding;    // the wait until the context was resident; zero if it was resident
  absl::Duration first_step;  // from arrival to the first step's values
  absl::Duration total;       // from arrival to the end
};

// The fields that all results have.
struct ResultBase {
  Timings timings;
  Source source;
  std::vector<ColumnNote> notes;  // of the request's table
  // [1, G], or [B, G]: of the known values; 0 for a group without; empty if none are known.
  std::vector<double> known_log_densities;
};

struct PredictResult : ResultBase {
  std::vector<double> mean;       // [U]
  std::vector<double> std;        // [U]
  std::vector<double> quantiles;  // [U, Q]
  Mixtures mixtures;              // [U, M] if requested
};

// Values of some paths over some of their steps, in the order in which they are drawn. With groups,
// each path belongs to one of them.
struct SampleBlock {
  // The indices of the paths, from SampleRequest::first_path.
  int64_t first_path = 0;             // without groups
  std::vector<int32_t> path_indices;  // [paths]; with groups
  int64_t paths = 0;
  int64_t first_step = 0;
  int64_t steps = 0;
  std::vector<double> values;         // [paths, steps]
  std::vector<double> log_densities;  // [paths, steps] if requested
  // [paths, steps]: the query row; empty without groups if the order is kGiven.
  std::vector<int32_t> query_rows;
};

struct SampleSummary : ResultBase {
  uint64_t seed = 0;                 // the seed that was used
  std::optional<Estimate> estimate;  // of SampleRequest::validate_only
  // With known totals: [B, G], of each path, and [G].
  std::vector<double> total_log_weights;
  std::vector<double> total_effective_sample_sizes;
};

// Over the paths: of each group, or of each row of the functional.
struct FunctionalSummary {
  std::vector<double> means;            // [G] or [n]
  std::vector<double> mean_errors;      // [G] or [n]
  std::vector<double> stds;             // [G] or [n]
  std::vector<double> quantiles;        // [G, Q], or empty
  std::vector<double> quantile_errors;  // [G, Q], or empty
  bool conditional = false;             // whether the means are estimated from mixtures
};

struct SummarizeResult : SampleSummary {
  int64_t path_count = 0;           // fewer than in the request, if the errors met their targets
  std::vector<double> means;        // [U]
  std::vector<double> mean_errors;  // [U]
  std::vector<double> stds;         // [U]
  std::vector<double> quantiles;    // [U, Q]
  std::vector<double> quantile_errors;  // [U, Q]
  bool conditional = false;  // whether the statistics of rows are estimated from mixtures
  std::vector<FunctionalSummary> functionals;  // [F]
  std::vector<double> covariances;             // of each group [U_g, U_g], if requested
  std::vector<double> paths;                   // [returned_paths, U], at most path_count of them
};

struct LogDensityResult : ResultBase {
  std::vector<double> log_density;     // [B, G]: log of the mean density over orders
  std::vector<double> standard_error;  // [B, G]: over pairs of orders; empty with fewer than 4
  std::vector<double> terms;           // [B, U] if requested
  std::vector<double> cdfs;            // [B, U] if requested: of each value, in its term's mixture
  Mixtures mixtures;                   // [B * U, M] if requested
  uint64_t seed = 0;
};

enum class ContextState { kNotResident, kEncoding, kResident };

struct ContextInfo {
  ContextRecord record;
  ContextState state = ContextState::kNotResident;
  int64_t resident_bytes = 0;  // size while resident
};

struct ContextInfoPage {
  std::vector<ContextInfo> contexts;
  std::string next_page_token;
};

// The size of the context while it is resident; 0: its model is not served.
struct ContextSize {
  std::string tenant;
  std::string name;
  int64_t resident_bytes = 0;
};

struct RegisterOutcome {
  ContextInfo context;
  PutOutcome outcome = PutOutcome::kCreated;
  std::vector<ColumnNote> notes;     // of the dataset
  std::optional<Estimate> estimate;  // of RegisterRequest::validate_only: of its encoding
};

struct AppendOutcome {
  ContextInfo context;
  bool already_appended = false;     // see AppendRequest::first_row
  int64_t rows = 0;                  // of the call, without dropped rows
  std::vector<ColumnNote> notes;     // of the appended rows
  std::optional<Estimate> estimate;  // of AppendRequest::validate_only: of encoding these rows
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_API_REQUEST_H_
