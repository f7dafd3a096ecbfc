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
  if (absl::Status s = ValidateRowShapes(DecodeRowShapes(p)); !s.ok()) return s;
  HeadParams head = DecodeHeadShapes(p);
  head.x = p.y_weight;  // there is none: rows stay in shared memory
  return ValidateHead(head);
}

int64_t DecodeCrowd::Blocks(int block_rows) const {
  int64_t blocks = 0;
  for (int groups = 1; groups <= kTileGroups; ++groups) {
    blocks += tiles_with[groups] * CeilDiv(groups, block_rows / kGroupRows);
  }
  return blocks;
}

int ChooseDecodeRows(const DecodeParams& params, const DecodeCrowd& crowd, int multiprocessors,
                     int shared_bytes) {
  if (ChosenDecodeWay() != DecodeWay::kAtOnce) return 0;
  if (params.head_dim != 32 && params.head_dim != 64) return 0;
  if (DecodeStages(params, crowd.largest_context, crowd.steps) > kMostDecodeStages) return 0;
  const auto fits = [&](int rows) {
    return Slabs(params.width) <= MostDecodePanels(rows) &&
           DecodeLayoutOf(DecodeRowShapes(params), DecodeHeadShapes(params), rows, shared_bytes)
                   .stages > 0;
  };
  int rows = kGroupRows;
  if (!fits(rows)) return 0;
  while (rows < kTileRows && crowd.Blocks(rows) > multiprocessors && fits(2 * rows) &&
         crowd.Blocks(2 * rows) < crowd.Blocks(rows)) {
    rows *= 2;
  }
  return rows;
}

int64_t DecodeStages(const DecodeParams& params, int64_t context_rows, int64_t steps) {
  const RowLayerParams rows = DecodeRowShapes(params);
  const int64_t slabs =
      LeaveSlabs(params.width, ProjectedWidth(rows)) +
      FinishSlabs(params.width, int64_t{params.heads} * params.head_dim, params.hidden);
  const int64_t slab_stages = kSlabSize * 2 / StageBytes(params.head_dim);
  // A pass over heads streams the key heads that it touches; two passes may share one.
  const int64_t fewest_heads = kDecodeWarps / kTileGroups;  // of a pass
  const int64_t context_stages =
      (params.kv_heads + CeilDiv(params.heads, fewest_heads)) * ContextBlocks(context_rows);
  return steps * params.layer_count * (slabs * slab_stages + context_stages);
}

}  // namespace chorale::kernels::cuda
