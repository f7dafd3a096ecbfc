// The stages of the model on a chunk of rows, on the calling thread. Encoding, decode, teacher
// forcing and prediction are sequences of these stages.
//
// The result of a row does not depend on the other rows of the chunk.
#ifndef CHORALE_ENGINE_BACKEND_CPU_FORWARD_H_
#define CHORALE_ENGINE_BACKEND_CPU_FORWARD_H_

#include <cstdint>

#include "engine/backend/cpu/model.h"
#include "engine/backend/cpu/scratch.h"
#include "engine/backend/host/attention_kv.h"
#include "kernels/ops/mixture_head.h"

namespace chorale::cpu {

// The keys and values that the rows of a chunk attend to in one layer.
struct AttentionKv {
  KvView<const float> context;
  const float* context_log_weights = nullptr;  // [Hkv, capacity]; null: all weights are 1
  int64_t context_rows = 0;                    // the first keys, to which the rows attend
  // Buffers of the paths; the buffer of path p begins at p * buffer_path_stride. If null, there is
  // no buffer, and scratch.row_path and scratch.row_visible are not read.
  KvView<const float> buffer;
  int64_t buffer_path_stride = 0;
};

// tokens [rows, D] from encodings [E, D] and scratch.encoding, .offset and .y.
void EmbedTokens(const PackedModel& model, const float* encodings, int64_t rows,
                 const Scratch& scratch, float* tokens);

// x = LN1(x + P x)
void MixFeatures(const PackedModel& model, const PackedLayer& layer, int64_t rows, float* x,
                 Scratch& scratch);

// scratch.key_value [rows, 2 Hkv Dh] = [Wk x | Wv x], from rows of x with the distance x_stride.
void ProjectKv(const PackedModel& model, const PackedLayer& layer, int64_t rows, const float* x,
               int64_t x_stride, Scratch& scratch);

float AttentionScale(const ModelConfig& config);

// The attention of rows to keys. See kernels/ops/shared_context_attention.h for arrays that may be
// null.
struct AttentionResults {
  const int32_t* row_hidden_key = nullptr;  // [rows, Hkv] or null, an input
  float* query = nullptr;                   // [rows, D], Wq x
  float* out = nullptr;                     // [rows, D], attend(Wq x, keys); may be `query`
  float* lse = nullptr;                     // [rows, H] or null
};
void AttendTo(const PackedModel& model, const PackedLayer& layer, const AttentionKv& keys,
              int64_t rows, const float* x, const AttentionResults& results,
              const Scratch& scratch);

// x = LN2(x + Wo attended), from attended [rows, D].
void ProjectAttended(const PackedModel& model, const PackedLayer& layer, int64_t rows,
                     const float* attended, float* x, Scratch& scratch);

// x = LN2(x + Wo attend(Wq x, keys))
void AttendRows(const PackedModel& model, const PackedLayer& layer, const AttentionKv& keys,
                int64_t rows, float* x, Scratch& scratch);

// x = LN3(x + W2 gelu(W1 x + b1) + b2)
void FeedForward(const PackedModel& model, const PackedLayer& layer, int64_t rows, float* x,
                 Scratch& scratch);

// scratch.mean, .std, .log_weight [rows, M] = head(LN(x))
void PredictMixtures(const PackedModel& model, int64_t rows, const float* x, Scratch& scratch);

// The mixture of row `row` after PredictMixtures.
kernels::MixtureView MixtureOf(const PackedModel& model, const Scratch& scratch, int64_t row);

// kept [ceil(rows / 2), D] = rows 0, 2, 4, ... of x [rows, D]; kept may be x itself.
void GatherQueryTokens(int64_t rows, int64_t width, const float* x, float* kept);

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_FORWARD_H_
