// Decodes what a ContextSpec attaches to a context in addition to its content.
#ifndef CHORALE_SERVER_CODEC_DETAILS_DECODER_H_
#define CHORALE_SERVER_CODEC_DETAILS_DECODER_H_

#include "absl/status/status.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/api/request.h"

namespace chorale {

// Sets the description, the labels, the expiry and the replacement of the request. InvalidArgument,
// with the field: a description, a label or a time that violates the limits in the comments of the
// API, or an etag without `replace`.
absl::Status DecodeDetails(const v1::ContextSpec& spec, RegisterRequest* request);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_DETAILS_DECODER_H_
