// The API of a server, with the tests' own kinds of tables.
#ifndef CHORALE_TESTS_END_TO_END_API_CLIENT_H_
#define CHORALE_TESTS_END_TO_END_API_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "chorale/v1/chorale.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/end_to_end/rows.h"
#include "tests/end_to_end/samples.h"

namespace chorale::end_to_end {

// The outcome of a call with one answer.
template <typename Response>
struct Reply {
  grpc::Status status;
  Response value;

  bool ok() const { return status.ok(); }
};

// The google.rpc details of an error.
struct ErrorDetails {
  std::vector<std::string> fields;  // of BadRequest
  std::string description;          // of its first violation
  bool has_retry_delay = false;     // of RetryInfo
  absl::Duration retry_delay;
};
ErrorDetails DetailsOf(const grpc::Status& status);

// How much a connection takes in ahead of its reader.
enum class ReceiveWindow {
  kDefault,  // megabytes, found by probing
  kSmall,    // 64 KiB: a reader that pauses soon stalls its stream
};

// A client with a connection of its own, which checks the reason of each error. Thread-safe.
class ApiClient {
 public:
  explicit ApiClient(const std::string& address, ReceiveWindow window = ReceiveWindow::kDefault);
  ApiClient(const std::string& address,
            const std::shared_ptr<grpc::ChannelCredentials>& credentials,
            ReceiveWindow window = ReceiveWindow::kDefault);

  v1::Chorale::Stub& stub() const { return *stub_; }

  // Registers `rows` under `id` in messages of `chunk_rows` rows. `model`: "models/..." or empty.
  Reply<v1::RegisterContextResponse> Register(const std::string& id, const Rows& rows,
                                              const std::string& model = "",
                                              int64_t chunk_rows = 10'000) const;
  // The same of a table with columns of any kind, in one message.
  Reply<v1::RegisterContextResponse> Register(const std::string& id, const v1::Table& table,
                                              const std::string& target_column,
                                              v1::ContextSpec::Seasons seasons = {}) const;
  // Sends the spec, then the chunks.
  Reply<v1::RegisterContextResponse> Upload(const v1::ContextSpec& spec,
                                            const std::vector<v1::Table>& chunks) const;
  Reply<v1::RegisterContextResponse> Create(const v1::CreateContextRequest& request) const;
  Reply<v1::Context> Get(const std::string& id) const;
  Reply<v1::Context> Warm(const std::string& id) const;
  grpc::Status Delete(const std::string& id) const;
  // All pages together.
  Reply<std::vector<v1::Context>> List(int32_t page_size = 0) const;

  Reply<v1::PredictResponse> Predict(const v1::PredictRequest& request) const;
  Reply<v1::LogDensityResponse> LogDensity(const v1::LogDensityRequest& request) const;
  Samples Sample(const v1::SampleRequest& request,
                 absl::Duration timeout = absl::Seconds(120)) const;

 private:
  std::unique_ptr<v1::Chorale::Stub> stub_;
};

v1::PredictRequest MakePredict(const std::string& id, const Rows& query_rows);
v1::SampleRequest MakeSample(const std::string& id, const Rows& query_rows, int64_t paths,
                             uint64_t seed);
// `values` [B, T].
v1::LogDensityRequest MakeLogDensity(const std::string& id, const Rows& query_rows,
                                     const std::vector<double>& values);

// True when both predictions have the same bits.
bool SameBits(const v1::PredictResponse& a, const v1::PredictResponse& b);

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_API_CLIENT_H_
