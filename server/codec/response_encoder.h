// Encodes engine results as response messages.
#ifndef CHORALE_SERVER_CODEC_RESPONSE_ENCODER_H_
#define CHORALE_SERVER_CODEC_RESPONSE_ENCODER_H_

#include <cstdint>

#include "chorale/v1/chorale.pb.h"
#include "engine/api/model_info.h"
#include "engine/api/request.h"

namespace chorale {

void EncodeContext(const ContextInfo& info, v1::Context* message);
void EncodeContextPage(const ContextInfoPage& page, v1::ListContextsResponse* message);
void EncodeRegistration(const RegisterOutcome& outcome, v1::RegisterContextResponse* message);
// `sent_rows`: the number of rows of the request, from which missing targets may have been dropped.
void EncodeAppend(const AppendOutcome& outcome, int64_t sent_rows, v1::AppendRowsResponse* message);
void EncodeModel(const ModelInfo& info, v1::Model* message);
void EncodePredict(const PredictResult& result, v1::PredictResponse* message);
void EncodeLogDensity(const LogDensityResult& result, v1::LogDensityResponse* message);
void EncodeSummarize(const SummarizeResult& result, v1::SummarizeResponse* message);
void EncodeSummary(const SampleSummary& summary, v1::SampleSummary* message);

// The type of the values and log-densities of a block in a message.
enum class Precision { kFloat64, kFloat32 };

// Encodes paths [first, first + paths) of a block. REQUIRES: 0 <= first, first + paths <=
// block.paths.
void EncodeBlock(const SampleBlock& block, int64_t first, int64_t paths, Precision precision,
                 v1::SampleBlock* message);

// Upper bound on the encoded bytes of one path of the block, without the block's other fields.
int64_t EncodedBytesPerPath(const SampleBlock& block, Precision precision);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_RESPONSE_ENCODER_H_
