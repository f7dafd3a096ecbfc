// Floating-point operations of the model's stages. A multiply-add counts as two. Counts only GEMMs
// and attention; the omitted operations grow with D, not with D squared.
//
// Both backends derive next_step_flops and steps_at_this_cost of their work from this model. In all
// functions, `context_rows` is the number of keys of the context: ContextShape::keys().
#ifndef CHORALE_ENGINE_BACKEND_FLOP_MODEL_H_
#define CHORALE_ENGINE_BACKEND_FLOP_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/data/memory_set.h"
#include "engine/model/model_config.h"

namespace chorale {

// The parts of one layer for one row, of which the stages consist.
double MixFeaturesFlops(const ModelConfig& config);  // x = LN1(x + P x)
double KvFlops(const ModelConfig& config);           // Wk x and Wv x
// Wq x, scores and weighted values of so many visible keys, Wo and the MLP.
double AttendAndFeedForwardFlops(const ModelConfig& config, double keys);

// One decode step of `paths` paths at `position`: one query row per path and, after the first
// position, one buffer token per path. In the last layer a buffer token only produces K and V.
double DecodeStepFlops(const ModelConfig& config, int64_t paths, int64_t context_rows,
                       int64_t position);

// The costs of a LayerSchedule: FLOPs per phase of one of its rows, which represents `unit_rows`
// rows of the model (more than one if the schedule counts tiles).
//
// A pass is divided before attention, because attention requires K and V of all rows of a layer:
// phase 0 projects K and V of layer 0, phase l attends in layer l - 1 and projects K and V of layer
// l, phase L attends in the last layer and computes the head.

// Phases 0 to L - 1: nothing reads the last layer's output of a context row. `row_encoder` FLOPs
// are added to phase 0.
std::vector<double> EncodePhaseFlops(const ModelConfig& config, int64_t context_rows,
                                     double unit_rows = 1, double row_encoder = 0);

// Phases 0 to L - 1: phase l copies K and V of layer l of a row, from main memory to main memory.
// Its cost is that of the FLOPs that take about as long.
std::vector<double> CopyPhaseFlops(const ModelConfig& config);

// Phases 0 to L. Every other row is a buffer token, which skips phase L; on average over a path,
// P/2 buffer keys are visible to a row.
std::vector<double> DensityPhaseFlops(const ModelConfig& config, int64_t context_rows,
                                      int64_t positions, double unit_rows = 1);

// Phases 0 to L; query rows produce no K and V.
std::vector<double> PredictPhaseFlops(const ModelConfig& config, int64_t context_rows,
                                      double unit_rows = 1);

// Like PredictPhaseFlops, with one layer per phase: L phases, the last one with the head.
std::vector<double> PredictLayerFlops(const ModelConfig& config, int64_t context_rows);

// FLOPs of complete units of work, for estimates of the duration of a queue. EncodeFlops omits the
// row encoder; for a reduced context, it is that of a MemoryPlan (engine/backend/memory_plan.h).
// The others omit the encoding of query rows.
//
// The rows of a context with append_starts attend to the keys up to the end of their block
// (engine/backend/encode_blocks.h, with the requirements of these arguments). The keys and values
// of a prefix of prefix_rows rows (EncodeSpec::prefix) are copied, or are the set of the first
// segment of a reduced context.
double EncodeFlops(const ModelConfig& config, const ContextShape& shape,
                   absl::Span<const int64_t> append_starts = {}, int64_t prefix_rows = 0);
// FLOPs of `steps` decode steps from `position` on.
double DecodeFlops(const ModelConfig& config, int64_t paths, int64_t context_rows, int64_t position,
                   int64_t steps);
double DensityFlops(const ModelConfig& config, int64_t context_rows, int64_t positions,
                    int64_t paths);
double PredictFlops(const ModelConfig& config, int64_t context_rows, int64_t rows);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_FLOP_MODEL_H_
