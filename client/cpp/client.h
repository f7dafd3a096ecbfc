// A typed client for a Chorale server.
//
//   auto client = Client::Connect("127.0.0.1:50051", {});
//   (*client)->RegisterContext("houses", frame, {.target_column = "price"});
//   auto samples = (*client)->Sample("houses", rows, {.path_count = 1000});
//
// All calls:
//   - Requests name contexts and models by id ("houses"); the client adds the prefixes of the API
//     ("contexts/", "models/"). Responses have the full names.
//   - Calls about one context have its id as metadata, "chorale-context", for proxies in front of
//     several servers.
//   - A call ends by its deadline, or within about 20 ms of its cancellation, and the server then
//     stops its work.
//   - Errors have the server's code; but CANCELLED is the caller's own cancellation, and a call
//   that
//     the server cancels is Unavailable. The message has the refused field and the retry delay;
//     RefusedFields() and RetryDelay() return them to programs. Unavailable also means that the
//     connection broke.
//
// client.h declares the interface. Below it are connection.h (channels), call.h (one call in
// flight), retry.h, table_codec.h and sample_assembly.h (messages). csv.h, column_types.h and
// data_frame.h make tables from CSV files, sample_summary.h describes samples.
#ifndef CHORALE_CLIENT_CPP_CLIENT_H_
#define CHORALE_CLIENT_CPP_CLIENT_H_

#include <functional>
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
#include "client/cpp/data_frame.h"
#include "client/cpp/retry.h"
#include "client/cpp/sample_assembly.h"

namespace chorale::client {

struct TlsOptions {
  std::string root_certificates = {};   // PEM; empty: the system's certificates
  std::string client_certificate = {};  // PEM; empty: none
  std::string client_key = {};          // PEM, of client_certificate
};

struct ClientOptions {
  // How long Connect waits for a server that does not accept connections yet.
  absl::Duration connect_timeout = absl::Seconds(5);
  // The timeout of calls that do not set one.
  absl::Duration call_timeout = absl::Minutes(5);
  // For idempotent calls: all but DeleteContext. A sampling stream is retried only if none of its
  // blocks was delivered.
  RetryPolicy retry = {};
  std::optional<TlsOptions> tls = {};  // nullopt: no encryption
  // Bearer token, sent with each call; empty: none. Without encryption it is sent to this machine
  // only.
  std::string token = {};
};

struct CallOptions {
  absl::Duration timeout = absl::ZeroDuration();  // for all attempts together; zero: call_timeout
  const Cancellation* cancellation = nullptr;     // may be null; must outlive the call
};

// ---- Options and results of calls ----------------------------------------------------------
//
// All members of the options structs have initialisers, so that designated initialisers may leave
// some out without a compiler warning.

struct RegisterOptions {
  std::string target_column = {};
  std::string model = {};  // id; empty: the server's default model
  // Whether a model that asks for it is told of a season of the target.
  enum class Seasons { kSought, kNotSought } seasons = Seasons::kSought;
  // Called with the number of rows sent so far; may be empty.
  std::function<void(int64_t rows)> on_progress = nullptr;
};

// What to do with more targets than the model was trained for (T > buffer_size): refuse them, or
// reuse the buffer's tokens from the first one on.
enum class BeyondBuffer { kRefuse, kWrap };

// Whether draws and quantiles of a target that repeats its values are snapped to what it can take
// (v1::Snapping).
enum class Snapping { kOn, kOff };

// In the options of the calls that compute something, `expected_source` has the digests that the
// context and its model must still have; what is empty is not compared. FailedPrecondition, with
// the reason SOURCE_CHANGED (see ErrorReason), if they have others. A call that takes several
// requests, or is tried again, holds to the source of its first answer by itself.

struct PredictOptions {
  std::vector<double> quantiles = {};  // [Q] probabilities, each strictly between 0 and 1
  enum class Mixture { kOmit, kInclude } mixture = Mixture::kOmit;
  Snapping snapping = Snapping::kOn;  // of the quantiles
  v1::Source expected_source = {};
  std::function<void(int64_t rows)> on_progress = nullptr;  // called with rows done; may be empty
};

struct Predictions {
  std::vector<double> means;      // [T]
  std::vector<double> stds;       // [T]
  std::vector<double> quantiles;  // [T, Q], row-major
  v1::Mixtures mixtures;          // [T, M]; only for Mixture::kInclude
  v1::Source source;
  // Of all rows: cells of one column and reason are counted together.
  std::vector<v1::Warning> warnings;
};

struct SampleOptions {
  int64_t path_count = 1;  // B
  uint64_t seed = 0;       // 0: the server chooses one and returns it
  TargetOrder order = TargetOrder::kGiven;
  StepDensities step_densities = StepDensities::kOmit;
  BeyondBuffer beyond_buffer = BeyondBuffer::kRefuse;
  Snapping snapping = Snapping::kOn;  // of the values, not of their densities
  v1::Source expected_source = {};
  // For Sample: called with the number of values drawn, of B * T; may be empty.
  std::function<void(int64_t values)> on_progress = nullptr;
  // For Sample: called if it fails after some values have been drawn, with those, and NaN (in
  // targets_by_step -1) for the others; not if the caller cancelled it. May be empty.
  std::function<void(Samples drawn)> on_broken = nullptr;
};

struct LogDensityOptions {
  int32_t random_orders = 0;  // R; 0: the order of the rows
  uint64_t seed = 0;          // of the random orders; 0: the server chooses one
  enum class Terms { kOmit, kInclude } terms = Terms::kOmit;  // not with random orders
  BeyondBuffer beyond_buffer = BeyondBuffer::kRefuse;
  v1::Source expected_source = {};
};

struct LogDensities {
  std::vector<double> joint;            // [B], natural logarithm, in the target's units
  std::vector<double> standard_errors;  // [B] over orders; empty with R < 2
  std::vector<double> terms;            // [B, T]; only for Terms::kInclude
  uint64_t seed = 0;                    // of the random orders
  v1::Source source;
  std::vector<v1::Warning> warnings;
};

struct Registration {
  v1::Context context;
  bool already_registered = false;  // the same content existed before
  std::vector<v1::Warning> warnings;
};

// Thread-safe. Sampling streams use their own connection, so that a slow reader does not block
// other calls.
class Client {
 public:
  // Connects to "host:port", "unix:path" or a URL, as server_address.h reads them; https:// means
  // TLS with the system's certificates, if the options have no others. Unavailable, with the last
  // attempt's error, if no server answers within connect_timeout. Does not wait if that cannot
  // help: Unauthenticated if the TLS handshake fails, InvalidArgument if the address is none, if
  // the certificates are not PEM, if the token cannot be sent as metadata, or would be sent to
  // another machine without encryption.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(
      const std::string& address, const ClientOptions& options,
      const Cancellation* cancellation = nullptr);
  ~Client();

  // Registers `table`, including its target column, in messages of about half a MiB. Registering
  // the same content again has no effect. InvalidArgument if the table has no rows or no such
  // target; AlreadyExists if the name has different content.
  absl::StatusOr<Registration> RegisterContext(const std::string& id, const DataFrame& table,
                                               const RegisterOptions& options,
                                               const CallOptions& call = {});

  // NotFound if there is no context with this id.
  absl::StatusOr<v1::Context> GetContext(const std::string& id, const CallOptions& call = {});
  absl::StatusOr<v1::Context> WarmContext(const std::string& id, const CallOptions& call = {});
  absl::Status DeleteContext(const std::string& id, const CallOptions& call = {});

  // Return the entries of all pages.
  absl::StatusOr<std::vector<v1::Context>> ListContexts(const CallOptions& call = {});
  absl::StatusOr<std::vector<v1::Model>> ListModels(const CallOptions& call = {});

  // Predicts each row of `targets` independently. There may be any number of rows: the client
  // splits them into requests of at most 1024 rows, which does not affect the results.
  absl::StatusOr<Predictions> Predict(const std::string& id, const DataFrame& targets,
                                      const PredictOptions& options, const CallOptions& call = {});

  // Draws B joint paths over the T rows of `targets`. DataLoss if the stream does not have each
  // value exactly once.
  absl::StatusOr<Samples> Sample(const std::string& id, const DataFrame& targets,
                                 const SampleOptions& options, const CallOptions& call = {});

  // As Sample, but passes each block to `on_block` on the caller's thread as it arrives. An error
  // from `on_block` cancels the stream and is returned. Blocks are not validated.
  absl::StatusOr<v1::SampleSummary> SampleStream(
      const std::string& id, const DataFrame& targets, const SampleOptions& options,
      absl::FunctionRef<absl::Status(const v1::SampleBlock&)> on_block,
      const CallOptions& call = {});

  // Joint log-densities of the vectors `values` [B, T], row-major, in the order of the T rows of
  // `targets`. InvalidArgument if the number of values is not a multiple of T.
  absl::StatusOr<LogDensities> LogDensity(const std::string& id, const DataFrame& targets,
                                          absl::Span<const double> values,
                                          const LogDensityOptions& options,
                                          const CallOptions& call = {});

 private:
  class Connection;
  Client(std::unique_ptr<Connection> connection, ClientOptions options);

  // Calls `attempt`, and retries it by the retry policy until the deadline.
  absl::Status Run(const CallOptions& call,
                   absl::FunctionRef<absl::Status(absl::Time deadline)> attempt) const;
  // What all pages of a list have. Internal: the server repeats a page, so there is no end.
  template <typename Item, typename Request, typename Response, typename Start>
  absl::StatusOr<std::vector<Item>> ListPages(
      const CallOptions& call, Start start,
      const google::protobuf::RepeatedPtrField<Item>& (Response::*items)() const);

  const std::unique_ptr<Connection> connection_;
  const ClientOptions options_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CLIENT_H_
