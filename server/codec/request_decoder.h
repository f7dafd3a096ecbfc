// Converts query messages to engine requests. Checks only names and enums, which the engine does
// not see, and the limits that bound the memory of decoding; the engine validates everything else.
#ifndef CHORALE_SERVER_CODEC_REQUEST_DECODER_H_
#define CHORALE_SERVER_CODEC_REQUEST_DECODER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/api/request.h"
#include "engine/data/limits.h"

namespace chorale {

// InvalidArgument names the field.
absl::StatusOr<PredictRequest> DecodePredict(const v1::PredictRequest& message,
                                             const Limits& limits);
absl::StatusOr<SampleRequest> DecodeSample(const v1::SampleRequest& message, const Limits& limits);
absl::StatusOr<SummarizeRequest> DecodeSummarize(const v1::SummarizeRequest& message,
                                                 const Limits& limits);
absl::StatusOr<LogDensityRequest> DecodeLogDensity(const v1::LogDensityRequest& message,
                                                   const Limits& limits);

// Without the rows.
absl::StatusOr<AppendRequest> DecodeAppend(const v1::AppendRowsRequest& message);

// The number of entries for a page: 0 means 100, more than 1000 means 1000. InvalidArgument when
// negative.
absl::StatusOr<int64_t> DecodePageSize(int32_t page_size);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_REQUEST_DECODER_H_
