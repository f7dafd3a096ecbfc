// One Sample stream: read message by message, and put together.
#ifndef CHORALE_TESTS_END_TO_END_SAMPLES_H_
#define CHORALE_TESTS_END_TO_END_SAMPLES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "chorale/v1/chorale.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace chorale::end_to_end {

// What a stream brought, in the order of the rows given.
struct Samples {
  grpc::Status status;
  bool has_summary = false;
  v1::SampleSummary summary;
  int64_t paths = 0;
  int64_t query_rows = 0;
  std::vector<double> values;         // [B, T], with the known values
  std::vector<double> log_densities;  // [B, T], when asked for; NaN where values are known
  std::vector<int32_t> order;         // [B, T]: the query row at each position; -1 with groups
  int64_t bytes = 0;                  // of the messages with blocks
  int64_t fewest_steps = 0;           // of a block
  // Why the blocks are not each value exactly once; empty when they are.
  std::string problem;

  // OK, complete and closed by a summary.
  bool complete() const { return status.ok() && has_summary && problem.empty(); }
};

// True when both are complete and every value, log-density and place has the same bits.
bool SameBits(const Samples& a, const Samples& b);
// Why they are not, for messages of tests.
std::string Difference(const Samples& a, const Samples& b);

// One call in progress. Thread-compatible; Cancel may be called from any thread. Destroying it
// cancels the call.
class SampleStream {
 public:
  SampleStream(v1::Chorale::Stub& stub, const v1::SampleRequest& request,
               absl::Duration timeout = absl::Seconds(120));
  ~SampleStream();

  // Waits for one more message and adds it; false when the stream has ended.
  bool ReadOne();
  // Reads what is left and returns everything.
  Samples Finish();
  void Cancel() { context_.TryCancel(); }

 private:
  void FillKnown(const v1::KnownValues& known);
  void Add(const v1::SampleBlock& block);

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::SampleResponse>> reader_;
  Samples samples_;
  std::vector<uint8_t> seen_;        // [B, T]: how often each value came; 1 for known values
  std::vector<int32_t> drawn_rows_;  // the query rows that are not known, in ascending order
  bool has_groups_ = false;
  bool want_log_densities_ = false;
  int64_t first_path_ = 0;
  bool float32_ = false;
  bool finished_ = false;
};

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_SAMPLES_H_
