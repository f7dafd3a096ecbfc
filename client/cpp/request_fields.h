// Fields that requests about query rows have in common, and checks of their responses.
#ifndef CHORALE_CLIENT_CPP_REQUEST_FIELDS_H_
#define CHORALE_CLIENT_CPP_REQUEST_FIELDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "chorale/v1/chorale.pb.h"
#include "client/cpp/client.h"
#include "client/cpp/data_frame.h"
#include "client/cpp/table_codec.h"

namespace chorale::client {

v1::Snapping ToProto(Snapping snapping);
v1::BeyondBuffer ToProto(BeyondBuffer beyond);

// InvalidArgument if the table has no rows, or if the known values or the groups are invalid.
absl::Status CheckQueryRows(const DataFrame& rows, const v1::KnownValues& known,
                            const std::vector<int32_t>& group_sizes);

// DataLoss if a response has an unexpected number of values.
absl::Status CheckSize(absl::string_view what, int64_t size, int64_t expected);

// Sets the fields that requests of Sample and Summarize have in common.
template <class Options, class Request>
void SetPathFields(const std::string& id, const DataFrame& rows, const Options& options,
                   Request* request) {
  request->set_context(absl::StrCat("contexts/", id));
  *request->mutable_rows() = EncodeTable(rows, TableUse::kLookUp);
  request->set_path_count(options.path_count);
  if (options.seed.has_value()) request->set_seed(*options.seed);
  request->set_order(options.order == RowOrder::kGiven ? v1::SampleRequest::ORDER_GIVEN
                                                       : v1::SampleRequest::ORDER_RANDOM_PER_PATH);
  request->set_beyond_buffer(ToProto(options.beyond_buffer));
  request->set_snapping(ToProto(options.snapping));
  if (options.sampling == Sampling::kSobol) {
    request->set_sampling(v1::SampleRequest::SAMPLING_SOBOL);
  }
  request->set_local_row_count(options.local_rows);
  *request->mutable_expected_source() = options.expected_source;
  if (options.known.ByteSizeLong() > 0) *request->mutable_known() = options.known;
  request->mutable_group_sizes()->Add(options.group_sizes.begin(), options.group_sizes.end());
}

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_REQUEST_FIELDS_H_
