#include "kernels/cuda/decode.h"

#include <atomic>

#include "kernels/cuda/decode_layout.h"
#include "kernels/field_checks.h"

namespace chorale::kernels::cuda {
namespace {

std::atomic<DecodeWay> chosen_way(DecodeWay::kBest);

}  // namespace

void SetDecodeWay(DecodeWay way) { chosen_way = way; }
DecodeWay ChosenDecodeWay() { return chosen_way; }

absl::Status ValidateDecode(const DecodeParams& p) {
  if (absl::Status s = RequireNotNull({{"tiles", p.tiles},
                                       {"paths", p.paths},
                                       {"layers", p.layers},
                                       {"offsets", p.offsets},
                                       {"y_weight", p.y_weight}});
      !s.ok()) {
    return s;
  }
  if (absl::Status s = RequirePositive({{"layer_count", p.layer_count}, {"places", p.places}});
      !s.ok()) {
    return s;
  }
  if (absl::Status s = ValidateRowShapes(DecodeRows(p)); !s.ok()) return s;
  HeadParams head = DecodeHead(p);
  head.x = p.y_weight;  // there is none: rows stay in shared memory
  return ValidateHead(head);
}

int ChooseDecodeRows(const DecodeParams& params, int64_t groups, int64_t largest_context,
                     int64_t steps, int multiprocessors, int shared_bytes) {
  if (ChosenDecodeWay() != DecodeWay::kAtOnce) return 0;
  if (params.head_dim != 32 && params.head_dim != 64) return 0;
  if (DecodeStages(params, largest_context, steps) > kMostDecodeStages) return 0;
  const auto fits = [&](int rows) {
    return Slabs(params.width) <= MostDecodePanels(rows) &&
           DecodeLayoutOf(DecodeRows(params), DecodeHead(params), rows, shared_bytes).stages > 0;
  };
  int rows = kGroupRows;
  if (!fits(rows)) return 0;
  while (rows < kTileRows && groups > rows / kGroupRows * int64_t{multiprocessors} &&
         fits(2 * rows)) {
    rows *= 2;
  }
  return rows;
}

int64_t DecodeStages(const DecodeParams& params, int64_t context_rows, int64_t steps) {
  const RowLayerParams rows = DecodeRows(params);
  const int64_t slabs =
      LeaveSlabs(params.width, ProjectedWidth(rows)) +
      FinishSlabs(params.width, int64_t{params.heads} * params.head_dim, params.hidden);
  const int64_t slab_stages = kSlabSize * 2 / StageBytes(params.head_dim);
  // A key head may be streamed for two passes over the heads.
  const int64_t context_stages = 2 * params.kv_heads * ContextBlocks(context_rows);
  return steps * params.layer_count * (slabs * slab_stages + context_stages);
}

}  // namespace chorale::kernels::cuda
