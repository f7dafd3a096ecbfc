#include "kernels/cuda/attention/encode_attention.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/integer_math.h"
#include "base/status_macros.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {
namespace {

// The time of a block of one, two or three tiles, up to a factor: on an H200 315, 452 and 587 us
// with heads of 64 and 65,536 rows.
constexpr int64_t kBlockTime[] = {0, 11, 15, 20};

int64_t Rounds(int64_t blocks, int32_t multiprocessors) { return CeilDiv(blocks, multiprocessors); }

}  // namespace

EncodeBlocks ChooseEncodeBlocks(int32_t tile_count, int32_t heads, int32_t multiprocessors) {
  constexpr int32_t kMost = kEncodeBlockTiles;
  EncodeBlocks best;
  int64_t best_time = std::numeric_limits<int64_t>::max();
  // Rounds of blocks of three tiles, all of them or as many as are full, then rounds of others.
  const auto try_blocks = [&](int32_t of_three, int32_t other_tiles) {
    const int32_t left = std::max(tile_count - kMost * of_three, 0);
    const EncodeBlocks blocks = {of_three, static_cast<int32_t>(CeilDiv(left, other_tiles)),
                                 other_tiles};
    const int64_t time =
        Rounds(int64_t{of_three} * heads, multiprocessors) * kBlockTime[kMost] +
        Rounds(int64_t{blocks.others} * heads, multiprocessors) * kBlockTime[other_tiles];
    if (time < best_time) {
      best = blocks;
      best_time = time;
    }
  };
  const auto all = static_cast<int32_t>(CeilDiv(tile_count, kMost));
  const int64_t full_rounds = int64_t{all} * heads / multiprocessors;
  const auto full = static_cast<int32_t>(
      std::min<int64_t>(full_rounds * multiprocessors / heads, tile_count / kMost));
  for (const int32_t of_three : {all, full, 0}) {
    for (int32_t other_tiles = 1; other_tiles < kMost; ++other_tiles) {
      try_blocks(of_three, other_tiles);
    }
  }
  return best;
}

int64_t EncodeLaunchTiles(int32_t heads, int32_t multiprocessors) {
  const int64_t rounds = CeilDiv(heads, kEncodeBlockTiles);
  return std::max<int64_t>(1, rounds * multiprocessors / heads) * kEncodeBlockTiles;
}

absl::Status ValidateEncodeAttention(const EncodeAttentionParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.tiles}, {"q", p.q}, {"attended", p.attended}}));
  RETURN_IF_ERROR(
      RequirePositive({{"tile_count", p.tile_count}, {"multiprocessors", p.multiprocessors}}));
  RETURN_IF_ERROR(RequireNotNegative({{"layer", p.layer}}));
  RETURN_IF_ERROR(ValidateHeads(p.shape));
  if (p.shape.head_dim != 32 && p.shape.head_dim != 64) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape.head_dim is ", p.shape.head_dim, ", must be 32 or 64"));
  }
  if (p.q_stride % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("q_stride is ", p.q_stride, ", must be a multiple of 8"));
  }
  return RequireAtLeast({"q_stride", p.q_stride}, p.shape.query_width());
}

}  // namespace chorale::kernels::cuda
