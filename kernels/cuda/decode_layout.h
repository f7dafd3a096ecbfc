// How a block of the decode kernel divides its threads and its shared memory.
#ifndef CHORALE_KERNELS_CUDA_DECODE_LAYOUT_H_
#define CHORALE_KERNELS_CUDA_DECODE_LAYOUT_H_

#include <algorithm>
#include <initializer_list>

#include "kernels/cuda/decode.h"
#include "kernels/cuda/head_layout.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/row_layout.h"

namespace chorale::kernels::cuda {

inline constexpr int kDecodeWarps = kProductWarps;

// A stage of the ring: a quarter of a slab (layout.h), or half of it with all its inputs, or one
// block of a head's keys and values.
constexpr int StageBytes(int head_dim) { return head_dim <= 32 ? 8 << 10 : 16 << 10; }
// Of two slabs: one is let go when the next is asked for.
constexpr int FewestStages(int head_dim) { return 2 * kSlabSize * 2 / StageBytes(head_dim); }
inline constexpr int kMostStages = 32;

// How the warps share attention. A team has a head of one group; its warps, called lanes here, take
// the chunks of the context in turn. Where there are more heads than teams, they have several
// passes over them.
struct AttentionTeams {
  int heads_at_once = 1;
  int lanes = 1;
};

constexpr AttentionTeams AttentionTeamsOf(int heads, int groups) {
  AttentionTeams teams;
  teams.heads_at_once = std::min(heads, kDecodeWarps / groups);
  teams.lanes = kDecodeWarps / (groups * teams.heads_at_once);
  return teams;
}

// The states of all warps' chunks: of 16 rows each, o, then m and l and a gap, so that neighbouring
// rows share no bank. With one lane to a team, what chunks were merged to so far takes as much.
constexpr int ExchangeStride(int head_dim) { return head_dim + 8; }
constexpr int ExchangeBytes(int head_dim) {
  return 4 * kDecodeWarps * kGroupRows * ExchangeStride(head_dim);
}

// Slabs of D that the kernel is built for.
constexpr int MostDecodePanels(int block_rows) {
  return block_rows == kGroupRows ? 4 : block_rows == 2 * kGroupRows ? 2 : 1;
}

// What the stages of other kernels take, as far as it is the same for all layers.
constexpr RowLayerParams DecodeRowShapes(const DecodeParams& p) {
  RowLayerParams rows;
  rows.tiles = p.tiles;
  rows.tile_count = p.tile_count;
  rows.width = p.width;
  rows.heads = p.heads;
  rows.kv_heads = p.kv_heads;
  rows.head_dim = p.head_dim;
  rows.hidden = p.hidden;
  rows.epsilon = p.epsilon;
  return rows;
}
constexpr HeadParams DecodeHeadShapes(const DecodeParams& p) {
  HeadParams head;
  head.tiles = p.tiles;
  head.paths = p.paths;
  head.weights = p.head;
  head.tile_count = p.tile_count;
  head.width = p.width;
  head.hidden = p.hidden;
  head.components = p.components;
  head.epsilon = p.epsilon;
  head.std_min = p.std_min;
  head.std_max = p.std_max;
  return head;
}

// Offsets in bytes, but for those of HeadLayout. What is multiplied lies in the work area, which
// begins at 0.
struct DecodeLayout {
  ProductLayout rows;
  int exchange = 0;  // ExchangeBytes, behind q, K and V: where the end of the hidden elements was
  HeadLayout head;   // what it multiplies lies in the work area, when the layers are done with it
  int paths = 0;     // PathTile: the head's, from one step to the next
  int tile = 0;      // Tile
  int order = 0;     // ContextOrder
  int arrivals = 0;  // [2][stages] Arrivals: full, empty
  int asked = 0;     // uint32
  int ring = 0;      // [stages] StageBytes
  int stages = 0;    // as many as there is room for, 0 if that is too few
  int bytes = 0;
};

constexpr DecodeLayout DecodeLayoutOf(const RowLayerParams& rows, const HeadParams& head,
                                      int block_rows, int shared_bytes) {
  const HeadLayout head_alone = HeadLayoutOf(head);
  int next = 0;
  const auto take = [&next](int bytes) {
    const int at = next;
    next = static_cast<int>(RoundUp(next + bytes, 128));
    return at;
  };
  DecodeLayout layout;
  ProductLayout& shared = layout.rows;
  shared = ProductLayoutOf(rows);
  shared.operand = take(2 * ProductOperandSize(block_rows, shared.operand_inputs));
  shared.wide = take(2 * block_rows * shared.projected);
  layout.exchange = take(ExchangeBytes(rows.head_dim));
  const int hidden_end = shared.wide + 2 * ProductOperandSize(block_rows, shared.hidden);
  next = static_cast<int>(RoundUp(std::max({next, hidden_end, 4 * head_alone.norm}), 128));
  shared.x = take(4 * block_rows * shared.x_stride);
  shared.finish = take(4 * FinishVectorsSize(rows));
  shared.leave = take(4 * LeaveVectorsSize(rows));
  // The head's vectors and paths stay from step to step.
  const int moved = take(head_alone.bytes - 4 * head_alone.norm) / 4 - head_alone.norm;
  layout.head = head_alone;
  for (int* kept : {&layout.head.norm, &layout.head.b1, &layout.head.b2, &layout.head.biases,
                    &layout.head.draws, &layout.head.paths}) {
    *kept += moved;
  }
  layout.paths = 4 * layout.head.paths;
  layout.tile = take(static_cast<int>(sizeof(Tile)));
  layout.order = take(6 * 4);
  layout.arrivals = take(2 * kMostStages * 8);
  layout.asked = take(4);
  layout.ring = next;
  layout.stages = std::min(kMostStages, (shared_bytes - next) / StageBytes(rows.head_dim));
  if (layout.stages < FewestStages(rows.head_dim)) layout.stages = 0;
  layout.bytes = layout.ring + layout.stages * StageBytes(rows.head_dim);
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_DECODE_LAYOUT_H_
