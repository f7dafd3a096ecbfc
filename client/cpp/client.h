// A typed client for a Chorale server.
//
//   auto client = Client::Connect("127.0.0.1:50051", {});
//   (*client)->RegisterContext("houses", frame, {.target_column = "price"});
//   auto samples = (*client)->Sample("houses", rows, {.path_count = 1000});
//
// The following applies to all calls:
//   - Requests name contexts and models by id ("houses"). The client adds the prefixes of the API
//     ("contexts/", "models/"). Responses have the full names.
//   - A call about a context sends the context's id as the metadata "chorale-context", by which
//     proxies route to one of several servers.
//   - A call ends by its deadline, or within about 20 ms after its cancellation. The server then
//     stops its work; AppendRows may have stored the rows, and EncodeAnew continues.
//   - Errors have the server's status code, with two exceptions: CANCELLED means that the caller
//     cancelled the call, and UNAVAILABLE also means that the server cancelled it or that the
//     connection was lost. The message contains the invalid field and the retry delay;
//     RefusedFields() and RetryDelay() return them, and ErrorReason() the machine-readable reason.
//
// client.h and client_options.h declare the interface. Its implementation uses connection.h
// (channels), call.h (a call in flight), retry.h, request_fields.h, table_codec.h, known_values.h,
// groups.h, predict_pieces.h and sample_assembly.h (messages). csv.h, csv_columns.h and
// data_frame.h read tables from CSV files; sample_summary.h computes statistics of samples, and
// path_weights.h resamples weighted paths.
#ifndef CHORALE_CLIENT_CPP_CLIENT_H_
#define CHORALE_CLIENT_CPP_CLIENT_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "chorale/v1/chorale.pb.h"
#include "client/cpp/cancellation.h"
#include "client/cpp/client_options.h"
#include "client/cpp/data_frame.h"
#include "client/cpp/sample_assembly.h"

namespace chorale::client {

struct Deadline;

// ---- Options and results of calls ----------------------------------------------------------
//
// All members of the options structs have initialisers, so that designated initialisers may omit
// members without a compiler warning.

// How the server handles rows without a target value. Dropped rows get a warning.
enum class MissingTargets { kReject, kDrop };

struct RegisterOptions {
  std::string target_column = {};
  std::string model = {};  // id; empty: the server's default model
  // Whether the server searches for a season of the target, for models that use seasons.
  enum class Seasons { kSought, kNotSought } seasons = Seasons::kSought;
  // The number of keys to which the rows are reduced, at least 64, and how they are chosen
  // (v1::ContextSpec.memory_row_count); 0: all rows. Without memory_rows, no policy is allowed.
  int64_t memory_rows = 0;
  v1::MemoryPolicy memory_policy = v1::MEMORY_POLICY_UNSPECIFIED;
  using MissingTargets = client::MissingTargets;
  MissingTargets missing_targets = MissingTargets::kReject;
  // Whether the server only validates the registration: it stores nothing, and returns the context
  // that it would create.
  bool validate_only = false;
  // Not part of the content; see v1::ContextSpec. If the content is registered already, those that
  // are set replace the context's.
  std::string description = {};
  std::map<std::string, std::string> labels = {};
  // The time after which the server may delete the context; infinite: never.
  absl::Duration ttl = absl::InfiniteDuration();
  // Whether to replace a context of this id that has other content or another model, and the
  // details above; and the etag that it must have (Aborted otherwise). Empty: any.
  bool replace = false;
  std::string etag = {};
  // Called with the number of rows sent so far; may be empty.
  std::function<void(int64_t rows)> on_progress = nullptr;
};

struct AppendOptions {
  // The number of rows that the context has before the append (v1::AppendRowsRequest.first_row). A
  // repetition changes nothing, so that the client retries the call. nullopt: not checked, and not
  // retried, because a retry could append the rows twice.
  std::optional<int64_t> first_row = {};
  std::string etag = {};  // that the context must have (Aborted otherwise); empty: any
  // The digest that the context must have; the digest of the model is not compared.
  v1::Source expected_source = {};
  MissingTargets missing_targets = MissingTargets::kReject;
  // Whether the server only validates the append, and returns the context that would result.
  bool validate_only = false;
};

// How the server handles more query rows than the model was trained for (T > buffer_size): it
// rejects the call, or reuses the buffer's tokens from the first.
enum class BeyondBuffer { kRefuse, kWrap };

// Whether the server snaps draws and quantiles to the possible values of a target that repeats its
// values (v1::Snapping).
enum class Snapping { kOn, kOff };

// The random numbers of paths (v1::SampleRequest.Sampling).
enum class Sampling { kIndependent, kSobol };

// What statistics of paths are estimated from (v1::SummarizeRequest.Estimator).
enum class Estimator { kConditional, kValues };

// `local_rows` in the options of calls about query rows: the number of rows of the context
// that the call uses, those nearest to its rows (v1::PredictRequest.local_row_count); 0: all.

// `known` in the options of calls about query rows: known values of some of the T query
// rows, on which the results are conditional; empty: none. U is the number of the other query rows.
// Unimplemented if the server is too old to support them.

// `group_sizes` [G] in the options of calls about query rows: the sizes of groups of
// consecutive query rows, positive and with the sum T (v1::SampleRequest.group_sizes). Each group
// has a joint distribution of its own, conditional on its known values. Empty: all query rows are
// one group, so G is 1. Unimplemented if the server is too old to support them.

// `expected_source` in the options of calls about query rows has the digests that the
// context and its model must have; empty digests are not compared. If a digest differs, the call
// fails with FailedPrecondition and the reason SOURCE_CHANGED (see ErrorReason). If a call makes
// several requests or is retried, the later requests expect the source of the first response.

struct Predictions;

struct PredictOptions {
  std::vector<double> quantiles = {};  // [Q]: probabilities, each strictly between 0 and 1
  enum class Mixture { kOmit, kInclude } mixture = Mixture::kOmit;
  Snapping snapping = Snapping::kOn;  // of the quantiles
  // With known values, a request has whole groups, or a part of a large group with all its known
  // rows. In a group, the known rows come first, in the order of `known`.
  v1::KnownValues known = {};
  std::vector<int32_t> group_sizes = {};               // no effect without known values
  BeyondBuffer beyond_buffer = BeyondBuffer::kRefuse;  // of N + 1 positions, in each group
  // Not 0: more than N, in each group. Each request predicts at most 1/32 as many rows.
  int64_t local_rows = 0;
  v1::Source expected_source = {};
  // Called with the number of rows predicted so far; may be empty.
  std::function<void(int64_t rows)> on_progress = nullptr;
  // Called with the predictions of the next rows as soon as a request returns them; may be empty.
  // They lack the warnings and known_log_densities, which the call returns with the source, and
  // nothing else, so that memory does not grow with the number of rows. If the call ends early, the
  // caller has the predictions of the first rows. If it returns an error, the call returns it.
  std::function<absl::Status(const Predictions& next)> on_predictions = nullptr;
};

// Marginal predictions, in the units of the target column.
struct Predictions {
  std::vector<double> means;      // [U]
  std::vector<double> stds;       // [U]: standard deviations
  std::vector<double> quantiles;  // [U, Q], row-major
  v1::Mixtures mixtures;          // [U, M]; only for Mixture::kInclude
  // [G]: the joint log-density of the known values of each group, by its first request, and 0 for a
  // group without; empty if no values are known.
  std::vector<double> known_log_densities;
  v1::Source source;
  // Warnings about the query rows, one for each column and reason.
  std::vector<v1::Warning> warnings;
};

struct SampleOptions {
  int64_t path_count = 1;             // B
  std::optional<uint64_t> seed = {};  // none: the server chooses a seed and returns it
  // The index of the first path: the call draws the paths [first_path, first_path + path_count) of
  // the seed, which is required unless it is 0. Known values for each path are those of these
  // paths. Unimplemented if the server is too old to support it.
  int64_t first_path = 0;
  RowOrder order = RowOrder::kGiven;
  StepDensities step_densities = StepDensities::kOmit;
  BeyondBuffer beyond_buffer = BeyondBuffer::kRefuse;
  Snapping snapping = Snapping::kOn;  // of the values, not of their densities
  Sampling sampling = Sampling::kIndependent;
  v1::KnownValues known = {};         // for all paths, or for each path
  v1::KnownTotals known_totals = {};  // of each group; the summary has weights (path_weights.h)
  std::vector<int32_t> group_sizes = {};
  int64_t local_rows = 0;
  v1::Source expected_source = {};
  // Whether each block of SampleStream has all steps of its paths (v1::SampleRequest.whole_paths).
  // Unimplemented if the server is too old to support it.
  bool whole_paths = false;
  Precision precision = Precision::kFloat64;  // in which the server sends values and densities
  // Sample only: called with the number of values drawn so far, of B * U; may be empty.
  std::function<void(int64_t values)> on_progress = nullptr;
  // Sample only: called with the next paths as soon as they and all earlier paths are complete; may
  // be empty. So if the call ends early, the caller has its first n paths, and continues it by a
  // call with the same seed and `first_path` + n. The summary has only the seed of the options, and
  // no weights. If it returns an error, the call cancels the stream and returns the error.
  std::function<absl::Status(const Samples& paths)> on_paths = nullptr;
};

struct SummarizeOptions {
  int64_t path_count = 2;  // B; at least 2; with target errors, the largest number
  // As in SampleOptions.
  std::optional<uint64_t> seed = {};
  RowOrder order = RowOrder::kGiven;
  BeyondBuffer beyond_buffer = BeyondBuffer::kRefuse;
  Snapping snapping = Snapping::kOn;
  Sampling sampling = Sampling::kIndependent;
  v1::KnownValues known = {};
  std::vector<int32_t> group_sizes = {};
  int64_t local_rows = 0;
  v1::Source expected_source = {};
  Estimator estimator = Estimator::kConditional;
  std::vector<double> quantiles = {};  // [Q]: probabilities, each strictly between 0 and 1
  std::vector<v1::Functional> functionals = {};  // [F]
  enum class Covariances { kOmit, kInclude } covariances = Covariances::kOmit;
  int64_t returned_paths = 0;  // the number of paths whose values are returned; at most B
  // Of each row; 0: none. See v1::SummarizeRequest.target_mean_error.
  double target_mean_error = 0;
  double target_quantile_error = 0;
};

struct LogDensityOptions {
  int64_t random_orders = 0;          // R; 0: the order of the rows
  std::optional<uint64_t> seed = {};  // of the random orders; none: the server chooses a seed
  enum class Terms { kOmit, kInclude } terms = Terms::kOmit;  // not with random orders
  enum class Cdfs { kOmit, kInclude } cdfs = Cdfs::kOmit;     // not with random orders
  v1::KnownValues known = {};                                 // for all vectors, or for each vector
  std::vector<int32_t> group_sizes = {};
  BeyondBuffer beyond_buffer = BeyondBuffer::kRefuse;
  int64_t local_rows = 0;
  v1::Source expected_source = {};
};

struct LogDensities {
  std::vector<double> joint;  // [B, G]: natural logarithms of densities per query row unit
  std::vector<double> standard_errors;  // [B, G]: over pairs of orders; empty if R < 4
  std::vector<double> terms;            // [B, U]; only for Terms::kInclude
  // [B, U]: the cumulative probability of each value, given the earlier ones; only for
  // Cdfs::kInclude.
  std::vector<double> cdfs;
  uint64_t seed = 0;  // of the random orders
  // [1, G], or [B, G] with known values for each vector: their joint log-densities; 0 for a group
  // without known values; empty if no values are known.
  std::vector<double> known_log_densities;
  v1::Source source;
  std::vector<v1::Warning> warnings;
};

struct DeleteOptions {
  std::string etag = {};       // that the context must have (Aborted otherwise); empty: any
  bool allow_missing = false;  // a context that does not exist is no error
};

struct ListOptions {
  std::string filter = {};    // as in v1::ListContextsRequest; empty: all contexts
  std::string order_by = {};  // empty: by name
  bool features = false;      // whether to return the features of the contexts
};

struct Registration {
  v1::Context context;
  bool already_registered = false;  // the same content was registered under this name before
  std::vector<v1::Warning> warnings;
  bool replaced = false;  // other content or another model was replaced
  v1::Estimate estimate;  // of encoding the context; only with validate_only
};

struct AppendedRows {
  v1::Context context;
  int64_t row_count = 0;          // of the call, without dropped rows
  bool already_appended = false;  // the call, or an attempt of it, was a repetition
  std::vector<v1::Warning> warnings;
  v1::Estimate estimate;  // of encoding the rows; only with validate_only
};

// Thread-safe. Sampling streams use a separate connection, so that a slow reader does not block
// other calls.
class Client {
 public:
  // Connects to "host:port", "unix:path" or a URL (see server_address.h). https:// means TLS, with
  // the system's certificates unless the options have others. Errors:
  //   - Unavailable, with the error of the last attempt, if no server answers within
  //     connect_timeout;
  //   - Unauthenticated, immediately, if the TLS handshake fails;
  //   - InvalidArgument, immediately, if the address is invalid, the certificates are not PEM, the
  //     token cannot be sent as metadata, or the token would be sent to another machine without
  //     encryption.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(
      const std::string& address, const ClientOptions& options,
      const Cancellation* cancellation = nullptr);
  ~Client();

  // Registers `table`, including its target column, in messages of about 0.5 MiB. Idempotent:
  // registering the same content again changes only the details. InvalidArgument if the table has
  // no rows or no such target column; AlreadyExists if a context with this id and different content
  // exists, unless it is replaced.
  absl::StatusOr<Registration> RegisterContext(const std::string& id, const DataFrame& table,
                                               const RegisterOptions& options,
                                               const CallOptions& call = {});

  // Appends `rows`, which have the context's features and its target, in one message, whose size
  // the server limits. Aborted if the context has another number of rows than `first_row`, or
  // another etag; FailedPrecondition if the context has another digest, or the server cannot append
  // rows to it; Unimplemented if the server is too old. After an error for which OutcomeUnknown is
  // true, the rows may have been appended: repeat the call with the same `first_row`.
  absl::StatusOr<AppendedRows> AppendRows(const std::string& id, const DataFrame& rows,
                                          const AppendOptions& options,
                                          const CallOptions& call = {});
  // Encodes a context with appended rows anew as a whole (v1::WarmContextRequest.encode_anew), and
  // makes it resident. NotFound if there is no context with this id.
  absl::StatusOr<v1::Context> EncodeAnew(const std::string& id, const CallOptions& call = {});

  // Return a context, make it resident, or delete it. NotFound if there is no context with this id.
  absl::StatusOr<v1::Context> GetContext(const std::string& id, const CallOptions& call = {});
  absl::StatusOr<v1::Context> WarmContext(const std::string& id, const CallOptions& call = {});
  absl::Status DeleteContext(const std::string& id, const DeleteOptions& options = {},
                             const CallOptions& call = {});

  // Returns the contexts that match a filter.
  absl::StatusOr<std::vector<v1::Context>> ListContexts(const ListOptions& options = {},
                                                        const CallOptions& call = {});

  // Returns all models, sorted by name.
  absl::StatusOr<std::vector<v1::Model>> ListModels(const CallOptions& call = {});

  // Returns the version, the limits and the features of the server, and the quotas of the tenant.
  absl::StatusOr<v1::ServerInfo> GetServerInfo(const CallOptions& call = {});

  // Returns marginal predictions of the query rows `rows`. Any number of rows is allowed: the
  // client splits them into requests of at most 1024 rows and about 1 MiB, which does not affect
  // the results unless `local_rows` is set. Each request is retried separately.
  absl::StatusOr<Predictions> Predict(const std::string& id, const DataFrame& rows,
                                      const PredictOptions& options, const CallOptions& call = {});

  // Draws B joint sample paths over the T query rows `rows`, of each group. DataLoss if the stream
  // does not contain each value of the U rows that are not known exactly once.
  absl::StatusOr<Samples> Sample(const std::string& id, const DataFrame& rows,
                                 const SampleOptions& options, const CallOptions& call = {});

  // Draws as Sample does, and passes each block to `on_block` on the caller's thread as it arrives.
  // If `on_block` returns an error, the call cancels the stream and returns the error. Blocks are
  // not validated.
  absl::StatusOr<v1::SampleSummary> SampleStream(
      const std::string& id, const DataFrame& rows, const SampleOptions& options,
      absl::FunctionRef<absl::Status(const v1::SampleBlock&)> on_block,
      const CallOptions& call = {});

  // Validates the call of Sample with these arguments. Draws nothing; the summary has an estimate.
  // Unimplemented if the server is too old to validate calls.
  absl::StatusOr<v1::SampleSummary> ValidateSample(const std::string& id, const DataFrame& rows,
                                                   const SampleOptions& options,
                                                   const CallOptions& call = {});

  // Draws as Sample does, and returns statistics that the server computes of the paths, in the
  // order of the U query rows that are not known. DataLoss if a statistic is missing. Unimplemented
  // if the server is too old.
  absl::StatusOr<v1::SummarizeResponse> Summarize(const std::string& id, const DataFrame& rows,
                                                  const SummarizeOptions& options,
                                                  const CallOptions& call = {});

  // Returns the joint log-densities of the vectors `values` [B, U], row-major, in the order of the
  // query rows of `rows` that are not known. InvalidArgument if the number of values is not a
  // multiple of U.
  absl::StatusOr<LogDensities> LogDensity(const std::string& id, const DataFrame& rows,
                                          absl::Span<const double> values,
                                          const LogDensityOptions& options,
                                          const CallOptions& call = {});

 private:
  class Connection;
  Client(std::unique_ptr<Connection> connection, ClientOptions options);

  absl::StatusOr<v1::Context> Warm(v1::WarmContextRequest request, const std::string& id,
                                   const CallOptions& call);
  absl::Duration TimeoutOf(const CallOptions& call) const;
  // Calls `attempt`, and retries it according to the retry policy until the deadline.
  absl::Status Run(const CallOptions& call,
                   absl::FunctionRef<absl::Status(const Deadline&)> attempt) const;
  // Returns the entries of all pages of a list. Internal if the server repeats a page.
  template <typename Item, typename Request, typename Response, typename Start>
  absl::StatusOr<std::vector<Item>> ListPages(
      const CallOptions& call, Request request, Start start,
      const google::protobuf::RepeatedPtrField<Item>& (Response::*items)() const);

  const std::unique_ptr<Connection> connection_;
  const ClientOptions options_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CLIENT_H_
