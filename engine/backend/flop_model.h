// Floating-point operations of the model's stages: a multiply-add counts as two. Only matrix
// products and attention are counted; what is left out grows with D, not with D squared.
//
// Both backends take next_step_flops and steps_at_this_cost of their work from here.
#ifndef CHORALE_ENGINE_BACKEND_FLOP_MODEL_H_
#define CHORALE_ENGINE_BACKEND_FLOP_MODEL_H_

#include <cstdint>
#include <vector>

#include "engine/model/model_config.h"

namespace chorale {

// One decode step of `paths` paths at `position`: one target a path and, behind the first position,
// one buffer token. In the last layer a buffer token only yields K and V.
double DecodeStepFlops(const ModelConfig& config, int64_t paths, int64_t context_rows,
                       int64_t position);

// What a LayerSchedule costs: FLOPs per phase of one of its rows, which stands for `unit_rows` rows
// of the model (more than one where the schedule counts tiles).
//
// A pass is cut before attention, because K and V of all rows of a layer must be there by then:
// phase 0 projects K and V of layer 0, phase l attends in layer l - 1 and projects K and V of layer
// l, phase L attends in the last layer and ends in the head.

// Phases 0 to L - 1: nothing reads the last layer's output of a context row. `row_encoder` FLOPs
// come on top of phase 0.
std::vector<double> EncodePhaseFlops(const ModelConfig& config, int64_t context_rows,
                                     double unit_rows = 1, double row_encoder = 0);

// Phases 0 to L. Every other row is a buffer token, which skips phase L; on average over a path a
// row sees T / 2 buffer keys.
std::vector<double> DensityPhaseFlops(const ModelConfig& config, int64_t context_rows,
                                      int64_t targets, double unit_rows = 1);

// Phases 0 to L; targets yield no K and V.
std::vector<double> PredictPhaseFlops(const ModelConfig& config, int64_t context_rows,
                                      double unit_rows = 1);

// The same with one whole layer a phase: L phases, the last one with the head.
std::vector<double> PredictLayerFlops(const ModelConfig& config, int64_t context_rows);

// Of whole pieces of work, for estimates of what a queue will take. EncodeFlops leaves out the row
// encoder, as the others leave out the encoding of target rows.
double EncodeFlops(const ModelConfig& config, int64_t context_rows);
// Of `steps` decode steps from `position` on.
double DecodeFlops(const ModelConfig& config, int64_t paths, int64_t context_rows, int64_t position,
                   int64_t steps);
double DensityFlops(const ModelConfig& config, int64_t context_rows, int64_t targets,
                    int64_t paths);
double PredictFlops(const ModelConfig& config, int64_t context_rows, int64_t rows);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_FLOP_MODEL_H_
