// A typed client for a Chorale server.
//
//   auto client = Client::Connect("127.0.0.1:50051", {});
//   (*client)->RegisterContext("houses", frame, {.target_column = "price"});
//   auto samples = (*client)->Sample("houses", rows, {.path_count = 1000});
//
// What holds for every call:
//   - Contexts and models are named by their id ("houses"); the prefixes of the API ("contexts/",
//     "models/") are put on and taken off here, in requests only.
//   - It ends by its deadline, or within some 20 ms of being cancelled, and its work on the server
//     ends with it.
//   - Errors have the server's code; the message names the refused field and says when to try
//   again,
//     and RetryDelay() and RefusedFields() give both to programs. Unavailable also means that the
//     connection broke.
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
  std::string root_certificates;   // PEM; empty for the system's
  std::string client_certificate;  // PEM; empty when the server asks for none
  std::string client_key;          // PEM, with client_certificate
};

struct ClientOptions {
  // How long Connect waits for a server that refuses connections or does not answer yet.
  absl::Duration connect_timeout = absl::Seconds(5);
  // The deadline of calls that give none.
  absl::Duration call_timeout = absl::Minutes(5);
  // For calls that can be made twice without harm: all but DeleteContext. A sampling stream is
  // begun again only as long as no block of it has been handed out.
  RetryPolicy retry = {};
  std::optional<TlsOptions> tls = {};  // absent: no encryption
};

struct CallOptions {
  absl::Duration timeout = absl::ZeroDuration();  // of all attempts together; zero: call_timeout
  const Cancellation* cancellation = nullptr;     // outlives the call; may be null
};

// ---- What a call takes and gives -----------------------------------------------------------
//
// Every member of an options struct has an initialiser, so that naming only some of them raises no
// compiler warning.

struct RegisterOptions {
  std::string target_column = {};
  std::string model = {};  // id; empty for the server's default
  // Told the rows sent so far; may be empty.
  std::function<void(int64_t rows)> on_progress = nullptr;
};

// Whether places beyond the K that the model's buffer was trained with are refused or reused.
enum class BeyondBuffer { kRefuse, kWrap };

struct PredictOptions {
  std::vector<double> quantiles = {};  // [Q] probabilities, each strictly between 0 and 1
  enum class Mixture { kOmit, kInclude } mixture = Mixture::kOmit;
  std::function<void(int64_t rows)> on_progress = nullptr;  // rows predicted so far; may be empty
};

struct Predictions {
  std::vector<double> means;      // [T]
  std::vector<double> stds;       // [T]
  std::vector<double> quantiles;  // [T, Q], row-major
  v1::Mixtures mixtures;          // [T, M], when asked for
};

struct SampleOptions {
  int64_t path_count = 1;  // B
  uint64_t seed = 0;       // 0: the server picks one and tells
  TargetOrder order = TargetOrder::kGiven;
  StepDensities step_densities = StepDensities::kOmit;
  BeyondBuffer beyond_buffer = BeyondBuffer::kRefuse;
  // For Sample: values drawn so far, of B * T; may be empty.
  std::function<void(int64_t values)> on_progress = nullptr;
};

struct LogDensityOptions {
  int32_t random_orders = 0;  // R; 0: the order given
  uint64_t seed = 0;          // for random orders; 0: the server picks one and tells
  enum class Method { kOnePass, kStepByStep } method = Method::kOnePass;
  enum class Terms { kOmit, kInclude } terms = Terms::kOmit;  // not with random orders
  BeyondBuffer beyond_buffer = BeyondBuffer::kRefuse;
};

struct LogDensities {
  std::vector<double> joint;            // [B], natural logarithm, in the user's units
  std::vector<double> standard_errors;  // [B] over orders; empty with R < 2
  std::vector<double> terms;            // [B, T], when asked for
  uint64_t seed = 0;                    // used for random orders
};

struct Registration {
  v1::Context context;
  bool already_registered = false;  // the same content was there before
};

// All methods may be called from any thread, any number at a time. Sampling streams have a
// connection of their own, so that a slow reader holds up no other call.
class Client {
 public:
  // Connects to "host:port". Unavailable when no server answers there within connect_timeout; the
  // message says what the last attempt met with. At once: Unauthenticated when client and server do
  // not agree on TLS, InvalidArgument when the certificates given are not PEM.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(
      const std::string& address, const ClientOptions& options,
      const Cancellation* cancellation = nullptr);
  ~Client();

  // Registers `table`, its target column included, in messages of about half a MiB. Registering
  // the same content again is fine. InvalidArgument when the table has no rows or no such target;
  // AlreadyExists when the name is taken by other content.
  absl::StatusOr<Registration> RegisterContext(const std::string& id, const DataFrame& table,
                                               const RegisterOptions& options,
                                               const CallOptions& call = {});

  // NotFound when there is none of that id.
  absl::StatusOr<v1::Context> GetContext(const std::string& id, const CallOptions& call = {});
  absl::StatusOr<v1::Context> WarmContext(const std::string& id, const CallOptions& call = {});
  absl::Status DeleteContext(const std::string& id, const CallOptions& call = {});

  // All of them, from as many pages as there are.
  absl::StatusOr<std::vector<v1::Context>> ListContexts(const CallOptions& call = {});
  absl::StatusOr<std::vector<v1::Model>> ListModels(const CallOptions& call = {});

  // Predicts each row of `targets` by itself. Any number of rows: they travel in requests of at
  // most 1024, which changes no result.
  absl::StatusOr<Predictions> Predict(const std::string& id, const DataFrame& targets,
                                      const PredictOptions& options, const CallOptions& call = {});

  // Draws B joint paths over the T rows of `targets`. DataLoss when the stream did not bring each
  // value exactly once.
  absl::StatusOr<Samples> Sample(const std::string& id, const DataFrame& targets,
                                 const SampleOptions& options, const CallOptions& call = {});

  // The same, handing out each block as it comes, on the caller's thread. A status other than OK
  // from `on_block` cancels the stream and is returned. Blocks are not checked.
  absl::StatusOr<v1::SampleSummary> SampleStream(
      const std::string& id, const DataFrame& targets, const SampleOptions& options,
      absl::FunctionRef<absl::Status(const v1::SampleBlock&)> on_block,
      const CallOptions& call = {});

  // Joint log-densities of the vectors `values` [B, T], row-major, in the order of the T rows of
  // `targets`. InvalidArgument when the number of values is no multiple of T.
  absl::StatusOr<LogDensities> LogDensity(const std::string& id, const DataFrame& targets,
                                          absl::Span<const double> values,
                                          const LogDensityOptions& options,
                                          const CallOptions& call = {});

 private:
  class Connection;
  Client(std::unique_ptr<Connection> connection, ClientOptions options);

  // Makes the call of `attempt`, again where the retry policy says so, until its deadline.
  absl::Status Run(const CallOptions& call,
                   absl::FunctionRef<absl::Status(absl::Time deadline)> attempt) const;

  const std::unique_ptr<Connection> connection_;
  const ClientOptions options_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CLIENT_H_
