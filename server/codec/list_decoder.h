// Requests for lists of contexts.
#ifndef CHORALE_SERVER_CODEC_LIST_DECODER_H_
#define CHORALE_SERVER_CODEC_LIST_DECODER_H_

#include "absl/status/statusor.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/api/request.h"

namespace chorale {

// Decodes the filter, the order and the view, which the API describes. Returns InvalidField or
// LimitExceeded, with the field and for a filter the position of the error.
absl::StatusOr<ContextQuery> DecodeContextQuery(const v1::ListContextsRequest& message);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_LIST_DECODER_H_
