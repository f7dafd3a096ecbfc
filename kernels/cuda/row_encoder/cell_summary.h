// Learned points read the columns of a context: the large part of fitting "cell_attention"
// (engine/backend/row_encoder/cell_attention.cc).
//
//   cell_rf  = Wc cell_features(x_rf) + bc + Wt number_features(y_r)
//   summary  = softmax state of the points over LN1(cell_.f), in the block `summarise`
//
// Rows are summarised in chunks of a fixed size, each with a state of its own, so that a state does
// not depend on how many chunks a launch takes. Whoever merges them does so in their order.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_SUMMARY_H_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_SUMMARY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/integer_math.h"
#include "kernels/cuda/row_encoder/cell_layout.h"
#include "kernels/cuda/row_encoder/cell_table.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

inline constexpr int kSummaryRows = 2048;  // of a chunk; the last may have fewer

constexpr int64_t SummaryChunks(int64_t rows) { return CeilDiv(rows, kSummaryRows); }

// Device memory. E is kCellWidth: padded with zeros.
struct SummariseColumnsParams {
  CellTable table;              // with y
  const float* cell = nullptr;  // [kCellFeatures + kNumberFeatures + 1, E] f32: Wc and Wt
                                // transposed, then bc
  const float* inducing_points = nullptr;  // [num_inducing_points, E] f32
  const uint16_t* summarise = nullptr;     // a block, see cell_layout.h
  float* summaries = nullptr;              // [SummaryChunks(rows), columns, kSummarySize] f32
  int32_t num_inducing_points = 0;         // 1 to kCellTileTokens
  CellShape shape;
};

// InvalidArgument naming the field.
absl::Status ValidateSummariseColumns(const SummariseColumnsParams& params);

// Shared memory of a block.
int SummariseColumnsSharedBytes();

// REQUIRES: ValidateSummariseColumns(params).ok().
ErrorCode LaunchSummariseColumns(const SummariseColumnsParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_SUMMARY_H_
