// A fake Chorale server for tests of the client. Its results are simple functions of the requests,
// and tests can make it misbehave.
#ifndef CHORALE_TESTS_CLIENT_CPP_FAKE_SERVICE_H_
#define CHORALE_TESTS_CLIENT_CPP_FAKE_SERVICE_H_

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "chorale/v1/chorale.grpc.pb.h"
#include "grpcpp/security/server_credentials.h"

namespace chorale::client {

// The fake's results: row t's "score" is the sum of its numeric features (missing ones count 0)
// plus the length of each categorical one's text.
//   Predict: mean = score, sd = score / 2 + 1, quantile p = score + p
//   Sample:  value = score + path / 1024 + seed, log-density = -(path + target / 1024)
//   Summarize: for row t, mean = the mean over the paths of the values of Sample, error = mean /
//   16,
//     sd = mean / 4, quantile p = mean + p, error of the quantile = p, covariance of two rows = the
//     sum of their means. Of a functional, the same with the mean number of its rows in the group,
//     plus its threshold; or for each of its rows, the index of the row
//   LogDensity: term = -|value - score|
// With known values, all scores of a group are shifted by the sum of the known values in it, and
// the density of the known values is minus this sum.
std::vector<double> Scores(const v1::Table& table);
double SampleValue(double score, int64_t path, uint64_t seed);
double SampleLogDensity(int64_t path, int64_t target);
inline constexpr uint64_t kPickedSeed = 4242;

enum class StreamFault {
  kNone,
  kRepeatBlock,
  kDropBlock,
  kNoSummary,
  kTargetOutside,
  // After one block, unless set_blocks_before_fault:
  kBreakAfterFirstBlock,   // UNAVAILABLE
  kCancelAfterFirstBlock,  // CANCELLED
  kHang,                   // silence until the call is cancelled
  kIgnoreValidateOnly,     // as an older server does
};

// Thread-safe.
class FakeService final : public v1::Chorale::Service {
 public:
  // Makes the next calls of any method fail with these, in this order.
  void FailNext(std::vector<grpc::Status> statuses);
  void set_stream_fault(StreamFault fault) { stream_fault_ = fault; }
  void set_blocks_before_fault(int blocks) { blocks_before_fault_ = blocks; }
  // Whether Sample sends its blocks in the order of the paths and steps, instead of in no order.
  void set_blocks_in_order(bool on) { blocks_in_order_ = on; }
  void set_page_limit(int limit) { page_limit_ = limit; }
  // Makes every page have this token; empty: its own.
  void set_page_token(const std::string& token) {
    MutexLock lock(&mutex_);
    page_token_ = token;
  }
  // The model's notice and form.
  void set_notice(const std::string& notice);
  void set_form(const std::string& form);
  // Makes AppendRows store the rows and then wait until the client ends the call.
  void set_append_without_response(bool on) { append_without_response_ = on; }
  // Make the service ignore known values, groups, or the fields of SampleRequest for the delivery,
  // as an older server does.
  void set_ignores_known_values(bool on) { ignores_known_values_ = on; }
  void set_ignores_groups(bool on) { ignores_groups_ = on; }
  void set_ignores_delivery(bool on) { ignores_delivery_ = on; }
  void set_ignores_totals(bool on) { ignores_totals_ = on; }
  // Changes the next responses of Summarize before they are sent; may be empty.
  void set_summary_fault(std::function<void(v1::SummarizeResponse*)> fault);
  // Sets how long every call takes, unless the client cancels it.
  void set_delay(absl::Duration delay) { delay_ms_ = absl::ToInt64Milliseconds(delay); }

  int call_count() const { return call_count_; }
  int cancelled_count() const { return cancelled_count_; }
  // The arrival times of the calls.
  std::vector<absl::Time> call_times() const;
  // The metadata "chorale-context" of each call since the last time, comma-separated if it has
  // several.
  std::vector<std::string> TakeContextMetadata();
  // The metadata "authorization" of the last call; empty: none.
  std::string authorization() const;
  // Bytes of each message of the last upload, the spec first.
  std::vector<size_t> upload_sizes() const;
  // The chunks of a context as they arrived; empty if there is no such context.
  std::vector<v1::Table> Chunks(const std::string& id) const;
  v1::AppendRowsRequest last_append() const;
  v1::ListContextsRequest last_list() const;
  v1::SampleRequest last_sample() const;
  v1::SummarizeRequest last_summarize() const;
  v1::LogDensityRequest last_log_density() const;
  std::vector<v1::PredictRequest> predict_requests() const;

  grpc::Status RegisterContext(grpc::ServerContext*,
                               grpc::ServerReader<v1::RegisterContextRequest>*,
                               v1::RegisterContextResponse*) override;
  grpc::Status AppendRows(grpc::ServerContext*, const v1::AppendRowsRequest*,
                          v1::AppendRowsResponse*) override;
  grpc::Status GetContext(grpc::ServerContext*, const v1::GetContextRequest*,
                          v1::Context*) override;
  grpc::Status ListContexts(grpc::ServerContext*, const v1::ListContextsRequest*,
                            v1::ListContextsResponse*) override;
  grpc::Status DeleteContext(grpc::ServerContext*, const v1::DeleteContextRequest*,
                             google::protobuf::Empty*) override;
  grpc::Status WarmContext(grpc::ServerContext*, const v1::WarmContextRequest*,
                           v1::Context*) override;
  grpc::Status Predict(grpc::ServerContext*, const v1::PredictRequest*,
                       v1::PredictResponse*) override;
  grpc::Status Sample(grpc::ServerContext*, const v1::SampleRequest*,
                      grpc::ServerWriter<v1::SampleResponse>*) override;
  grpc::Status Summarize(grpc::ServerContext*, const v1::SummarizeRequest*,
                         v1::SummarizeResponse*) override;
  grpc::Status LogDensity(grpc::ServerContext*, const v1::LogDensityRequest*,
                          v1::LogDensityResponse*) override;
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse*) override;
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::ServerInfo*) override;

 private:
  struct Stored {
    v1::Context context;
    std::vector<v1::Table> chunks;
    std::string content;  // serialised, to compare registrations
  };

  // Called first by every method: counts, waits, and fails if set.
  grpc::Status Begin(const grpc::ServerContext* server_context);
  grpc::Status Find(const std::string& name, v1::Context* context) const;
  // Returns the request without the fields that the service ignores.
  template <class Request>
  Request Understood(Request request) const {
    if (ignores_known_values_) request.clear_known();
    if (ignores_groups_) request.clear_group_sizes();
    return request;
  }
  grpc::Status Append(const v1::AppendRowsRequest* request, v1::AppendRowsResponse* response);

  std::atomic<StreamFault> stream_fault_{StreamFault::kNone};
  std::atomic<int> blocks_before_fault_{1};
  std::atomic<bool> blocks_in_order_{false};
  std::atomic<int> page_limit_{1000};
  std::string page_token_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int64_t> delay_ms_{0};
  std::atomic<bool> append_without_response_{false};
  std::atomic<bool> ignores_known_values_{false};
  std::atomic<bool> ignores_groups_{false};
  std::atomic<bool> ignores_delivery_{false};
  std::atomic<bool> ignores_totals_{false};
  std::atomic<int> call_count_{0};
  std::atomic<int> cancelled_count_{0};
  mutable Mutex mutex_;
  std::function<void(v1::SummarizeResponse*)> summary_fault_ ABSL_GUARDED_BY(mutex_);
  std::deque<grpc::Status> failures_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Time> call_times_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> context_metadata_ ABSL_GUARDED_BY(mutex_);
  std::string authorization_ ABSL_GUARDED_BY(mutex_);
  std::vector<size_t> upload_sizes_ ABSL_GUARDED_BY(mutex_);
  std::string notice_ ABSL_GUARDED_BY(mutex_);
  std::string form_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Stored> contexts_ ABSL_GUARDED_BY(mutex_);
  v1::AppendRowsRequest last_append_ ABSL_GUARDED_BY(mutex_);
  v1::ListContextsRequest last_list_ ABSL_GUARDED_BY(mutex_);
  v1::SampleRequest last_sample_ ABSL_GUARDED_BY(mutex_);
  v1::SummarizeRequest last_summarize_ ABSL_GUARDED_BY(mutex_);
  v1::LogDensityRequest last_log_density_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::PredictRequest> predict_requests_ ABSL_GUARDED_BY(mutex_);
};

int64_t RowCount(const v1::Table& table);
// Adds a warning about the cells above a million, as a server may.
void AddWarnings(const v1::Table& table, google::protobuf::RepeatedPtrField<v1::Warning>* warnings);

// A fake service behind a real server. Used by one thread.
class FakeServer {
 public:
  // Port 0: any free one.
  explicit FakeServer(const std::string& address = "127.0.0.1:0",
                      const std::shared_ptr<grpc::ServerCredentials>& credentials =
                          grpc::InsecureServerCredentials());
  ~FakeServer();

  const std::string& address() const { return address_; }
  FakeService& service() { return service_; }

 private:
  FakeService service_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_CPP_FAKE_SERVICE_H_
