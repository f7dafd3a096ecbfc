// Inducing points attend to the columns of a context: most of fitting "cell_attention"
// (engine/backend/row_encoder/cell_attention.cc).
//
//   cell_rf  = Wc cell_features(x_rf) + bc + Wt number_features(y_r)
//   summary  = softmax state of the inducing points over LN1(cell_.f), in cell block `summarise`
//
// Each chunk of kSummaryRows rows has a state of its own, so that a state does not depend on how
// many chunks a launch takes. The host combines the states in the order of the chunks.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_SUMMARY_H_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_SUMMARY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/integer_math.h"
#include "kernels/cuda/row_encoder/cell_layout.h"
#include "kernels/cuda/row_encoder/cell_table.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

inline constexpr int kSummaryRows = 2048;  // rows of a chunk; the last may have fewer

constexpr int64_t SummaryChunks(int64_t rows) { return CeilDiv(rows, kSummaryRows); }

// Pointers are device memory. E is kCellWidth, padded with zeros.
struct SummariseColumnsParams {
  CellTable table;              // with y
  const float* cell = nullptr;  // [kCellFeatures + kNumberFeatures + 1, E] f32: Wc and Wt
                                // transposed, then bc
  const float* inducing_points = nullptr;  // [num_inducing_points, E] f32
  const uint16_t* summarise = nullptr;     // a cell block (cell_layout.h)
  float* summaries = nullptr;              // [SummaryChunks(rows), columns, kSummarySize] f32
  int32_t num_inducing_points = 0;         // 1 to kCellTileTokens
  CellShape shape;
};

// InvalidArgument naming the field.
absl::Status ValidateSummariseColumns(const SummariseColumnsParams& params);

// Bytes of shared memory a block.
int SummariseColumnsSharedBytes();

// REQUIRES: ValidateSummariseColumns(params).ok().
ErrorCode LaunchSummariseColumns(const SummariseColumnsParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_SUMMARY_H_
