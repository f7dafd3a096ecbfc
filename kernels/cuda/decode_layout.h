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

inline constexpr int kDecodeWarps = 8;  // that compute: few, for each to have all registers it wants

// A stage of the ring: a quarter or a half of a slab, or one block of a head's keys and values.
constexpr int StageBytes(int head_dim) { return head_dim <= 32 ? 8 << 10 : 16 << 10; }
inline constexpr int kFewestStages = 3;
inline constexpr int kMostStages = 32;

// Groups of a block whose attention a warp computes side by side: each key is read once for both,
// and neither waits for what the other just did. Wider heads leave no registers for it.
constexpr int TeamGroups(int head_dim, int groups) { return head_dim <= 32 && groups > 1 ? 2 : 1; }

// How the warps share attention. A team has a head of TeamGroups groups; its warps, called lanes
// here, take the chunks of the context in turn. Where there are more heads than teams, they have
// several passes over them.
struct AttentionTeams {
  int heads_at_once = 1;
  int lanes = 1;
};

constexpr AttentionTeams AttentionTeamsOf(int heads, int head_dim, int groups) {
  const int teams_of_head = groups / TeamGroups(head_dim, groups);
  AttentionTeams teams;
  teams.heads_at_once = std::min(heads, kDecodeWarps / teams_of_head);
  teams.lanes = kDecodeWarps / (teams_of_head * teams.heads_at_once);
  return teams;
}

// The states of all warps' chunks: of 16 rows of each group, o, then m and l and a gap, so that
// neighbouring rows share no bank. With one lane to a team, what chunks were merged to so far takes
// as much.
constexpr int ExchangeStride(int head_dim) { return head_dim + 8; }
constexpr int ExchangeBytes(int head_dim, int groups) {
  return 4 * kDecodeWarps * TeamGroups(head_dim, groups) * kGroupRows * ExchangeStride(head_dim);
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

// Offsets in bytes, but for those of HeadLayout.
struct DecodeLayout {
  RowLayout rows;    // operand and wide lie in the work area, which begins at 0
  int exchange = 0;  // ExchangeBytes; the end of the work area
  HeadLayout head;   // what it multiplies lies in the work area, when the layers are done with it
  int paths = 0;     // PathTile: the head's, from one step to the next
  int tile = 0;      // Tile
  int arrivals = 0;  // [2][stages] Arrivals: full, empty
  int owners = 0;    // [stages] uint32
  int ring = 0;      // [stages] StageBytes
  int stages = 0;    // as many as there is room for, 0 if that is too few
  int bytes = 0;
};

constexpr DecodeLayout DecodeLayoutOf(const RowLayerParams& rows, const HeadParams& head,
                                      int block_rows, int shared_bytes) {
  const RowLayout alone = RowLayoutOf(rows, block_rows);
  const HeadLayout head_alone = HeadLayoutOf(head);
  int next = 0;
  const auto take = [&next](int bytes) {
    const int at = next;
    next = static_cast<int>(RoundUp(next + bytes, 128));
    return at;
  };
  DecodeLayout layout;
  layout.rows = alone;
  layout.rows.operand = take(alone.wide - alone.operand);
  layout.rows.wide = take(alone.x - alone.wide);
  layout.exchange = take(ExchangeBytes(rows.head_dim, block_rows / kGroupRows));
  next = std::max(next, static_cast<int>(RoundUp(int64_t{4} * head_alone.norm, 128)));
  layout.rows.x = take(alone.finish - alone.x);
  layout.rows.finish = take(alone.leave - alone.finish);
  layout.rows.leave = take(alone.bytes - alone.leave);
  // The head's vectors and paths stay from step to step.
  const int moved = take(head_alone.bytes - 4 * head_alone.norm) / 4 - head_alone.norm;
  layout.head = head_alone;
  for (int* kept : {&layout.head.norm, &layout.head.b1, &layout.head.b2, &layout.head.biases,
                    &layout.head.draws, &layout.head.paths}) {
    *kept += moved;
  }
  layout.paths = 4 * layout.head.paths;
  layout.tile = take(static_cast<int>(sizeof(Tile)));
  layout.arrivals = take(2 * kMostStages * 8);
  layout.owners = take(kMostStages * 4);
  layout.ring = next;
  layout.stages = std::min(kMostStages, (shared_bytes - next) / StageBytes(rows.head_dim));
  if (layout.stages < kFewestStages) layout.stages = 0;
  layout.bytes = layout.ring + layout.stages * StageBytes(rows.head_dim);
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_DECODE_LAYOUT_H_
