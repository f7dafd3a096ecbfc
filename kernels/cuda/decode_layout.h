// How a block of the decode kernel divides its threads and its shared memory.
#ifndef CHORALE_KERNELS_CUDA_DECODE_LAYOUT_H_
#define CHORALE_KERNELS_CUDA_DECODE_LAYOUT_H_

#include <algorithm>

#include "kernels/cuda/decode.h"
#include "kernels/cuda/head_layout.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/row_layout.h"

namespace chorale::kernels::cuda {

inline constexpr int kDecodeWarps = 16;  // that compute

// A stage of the ring: a quarter or a half of a slab, or one block of a head's keys and values.
constexpr int StageBytes(int head_dim) { return head_dim <= 32 ? 8 << 10 : 16 << 10; }
inline constexpr int kFewestStages = 4;
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

// What the stages of other kernels take, as far as they are the same for all layers.
constexpr RowLayerParams DecodeRows(const DecodeParams& p) {
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
constexpr HeadParams DecodeHead(const DecodeParams& p) {
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

// Offsets in bytes.
struct DecodeLayout {
  RowLayout rows;    // operand and wide lie in the work area
  int work = 0;      // operand, wide and exchange; when layers are done, the head (HeadLayout)
  int exchange = 0;  // ExchangeBytes
  int paths = 0;     // PathTile
  int arrivals = 0;  // [2][stages] Arrivals: full, empty
  int owners = 0;    // [stages] uint32
  int ring = 0;      // [stages] StageBytes
  int stages = 0;    // as many as there is room for, 0 if that is too few
  int bytes = 0;
};

constexpr DecodeLayout DecodeLayoutOf(const RowLayerParams& rows, const HeadParams& head,
                                      int block_rows, int shared_bytes) {
  const auto align = [](int bytes) { return static_cast<int>(RoundUp(bytes, 128)); };
  DecodeLayout layout;
  layout.rows = RowLayoutOf(rows, block_rows);
  const int operand_bytes = layout.rows.wide - layout.rows.operand;
  const int wide_bytes = layout.rows.x - layout.rows.wide;
  const int other_bytes = layout.rows.bytes - layout.rows.x;
  layout.rows.operand = layout.work;
  layout.rows.wide = layout.rows.operand + operand_bytes;
  layout.exchange = layout.rows.wide + wide_bytes;
  const int work_end = std::max(layout.exchange + ExchangeBytes(rows.head_dim),
                                layout.work + HeadLayoutOf(head).bytes);
  const int moved = align(work_end) - layout.rows.x;
  layout.rows.x += moved;
  layout.rows.finish += moved;
  layout.rows.leave += moved;
  layout.rows.bytes = layout.rows.x + other_bytes;
  layout.paths = align(layout.rows.bytes);
  layout.arrivals = align(layout.paths + static_cast<int>(sizeof(PathTile)));
  layout.owners = layout.arrivals + align(2 * kMostStages * 8);
  layout.ring = layout.owners + align(kMostStages * 4);
  layout.stages = std::min(kMostStages, (shared_bytes - layout.ring) / StageBytes(rows.head_dim));
  if (layout.stages < kFewestStages) layout.stages = 0;
  layout.bytes = layout.ring + layout.stages * StageBytes(rows.head_dim);
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_DECODE_LAYOUT_H_
