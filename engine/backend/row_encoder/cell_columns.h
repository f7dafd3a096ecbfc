// The per-column state of "cell_attention" (engine/backend/row_encoder/cell_attention.cc), computed
// from the inducing points after `summarise`:
//
//   column_f  = mix_columns(mean_i points_fi + column_id_f)
//   points_f += column_f
//   gate_f    = Wg column_f + bg
//
// The state is small, and determines the encodings of all rows: every backend computes it with this
// code in float32.
#ifndef CHORALE_ENGINE_BACKEND_ROW_ENCODER_CELL_COLUMNS_H_
#define CHORALE_ENGINE_BACKEND_ROW_ENCODER_CELL_COLUMNS_H_

#include <cstdint>
#include <vector>

#include "engine/backend/host/packed_linear.h"
#include "engine/backend/row_encoder/encoder_block.h"
#include "engine/model/model_config.h"
#include "engine/model/row_encoder_weights.h"

namespace chorale {

struct CellColumns {
  int64_t columns = 0;
  std::vector<float> points;  // [columns, I, E]
  std::vector<float> gates;   // [columns, E]
};

// Immutable and thread-safe.
class CellColumnMixer {
 public:
  CellColumnMixer(const CellAttentionWeights& weights, const ModelConfig& config);

  // points [columns, I, E] are the results of `summarise`.
  CellColumns Mix(std::vector<float> points) const;

 private:
  const int64_t width_;   // E
  const int64_t points_;  // I, of a column
  const std::vector<float> column_id_;
  const EncoderBlock mix_columns_;
  const PackedLinear gate_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_ROW_ENCODER_CELL_COLUMNS_H_
