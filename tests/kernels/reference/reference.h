// The operations of kernels/ops in float64, in the order of their definitions: what tests hold the
// kernels to. Parameters and requirements are those of the operation.
#ifndef CHORALE_TESTS_KERNELS_REFERENCE_REFERENCE_H_
#define CHORALE_TESTS_KERNELS_REFERENCE_REFERENCE_H_

#include "kernels/ops/append_kv.h"
#include "kernels/ops/cell_features.h"
#include "kernels/ops/embed_rows.h"
#include "kernels/ops/key_attention.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/merge_keys.h"
#include "kernels/ops/mixture_head.h"
#include "kernels/ops/precise_gelu.h"
#include "kernels/ops/precise_linear.h"
#include "kernels/ops/shared_context_attention.h"
#include "kernels/ops/spread_in_cells.h"
#include "kernels/ops/spread_keys.h"

namespace chorale::kernels::reference {

void AppendKv(const AppendKvParams& params);
void CellFeatures(const CellFeaturesParams& params);
void EmbedRows(const EmbedRowsParams& params);
void KeyAttention(const KeyAttentionParams& params);
void LayerNorm(const LayerNormParams& params);
void Linear(const LinearParams& params);
void MergeKeys(const MergeKeysParams& params);
void MixtureHead(const MixtureHeadParams& params);
void PreciseGelu(const PreciseGeluParams& params);
void PreciseLinear(const PreciseLinearParams& params);
void SharedContextAttention(const SharedContextAttentionParams& params);
// The same, and the log-sum-exp of the scores to lse [rows, H]: natural logarithm, -inf for no key.
void SharedContextAttentionWithLse(const SharedContextAttentionParams& params, float* lse);
// Of all centres: first_centre is 0, and end_centre is centre_count. Of the state, only `distance`
// is written.
void SpreadInCell(const SpreadInCellParams& params);
// Of all centres: first_centre is 0, and end_centre is centre_count.
void SpreadKeys(const SpreadKeysParams& params);

}  // namespace chorale::kernels::reference

#endif  // CHORALE_TESTS_KERNELS_REFERENCE_REFERENCE_H_
