// What the unfused form of a layer does between its GEMMs (gemm/gemm_library.h). In this
// form a layer is a sequence of launches, for models whose rows do not fit on the chip (layer/):
//
//   attention                     attended [rows, H Dh] bf16, by attention/ or CombinePartials
//   x += Wo attended              GEMM
//   NormalizeRows                 x = LN2(x); z = x in bf16
//   hidden = W1 z                 GEMM, bf16
//   GeluRows                      hidden = gelu(hidden + b1)
//   x += W2 hidden                GEMM
//   NormalizeRows                 x = LN3(x + b2); z
//   x += P z                      GEMM; from here on it is the next layer's
//   NormalizeRows                 x = LN1(x); z
//   qkv = (Wq over Wk over Wv) z  GEMM, bf16
//   StoreKv                       K and V into context or buffer; q stays in qkv
//
// Rows are those of tiles (layout/tile.h); a row's result depends on its own data alone. Rows that
// are not in use are computed like the others, from whatever is in memory, and never read.
#ifndef CHORALE_KERNELS_CUDA_UNFUSED_UNFUSED_ROWS_H_
#define CHORALE_KERNELS_CUDA_UNFUSED_UNFUSED_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

inline constexpr int64_t kLargestWideWidth = 2'048;
inline constexpr int64_t kLargestWideHidden = 8'192;

// Combines the partials of split attention (attention/attention.h) into attention.
struct CombinePartialsParams {
  const Tile* tiles = nullptr;        // [tiles], device
  const float* partial_o = nullptr;   // [num_splits, tiles, 64, H, Dh] f32, device
  const float* partial_ml = nullptr;  // [num_splits, tiles, 64, H, 2] f32, device
  uint16_t* attended = nullptr;       // [tiles, 64, H, Dh] bf16, device
  int32_t tile_count = 0;
  ModelShape shape;  // H, Hkv, Dh
};

// x = LN(x + bias), and z = x rounded to bf16. Without gamma, z alone.
struct NormalizeRowsParams {
  float* x = nullptr;            // [rows, D] f32, device, updated
  uint16_t* z = nullptr;         // [rows, D] bf16, device
  const float* bias = nullptr;   // [D] f32, device; or null
  const float* gamma = nullptr;  // [D] f32, device; or null
  const float* beta = nullptr;   // likewise
  int64_t rows = 0;
  int32_t width = 0;  // D, a multiple of 8, at most kLargestWideWidth
  float epsilon = 0;
};

// z = LN(x) for the rows that have a head, as three bf16 parts: with z_hi = bf16(z) and
// z_lo = bf16(z - z_hi), a row of `parts` is z_hi, z_lo, z_hi. Multiplied by rows W_hi, W_hi, W_lo
// of a matrix split likewise, that is W z to about 2^-16 of its terms.
struct HeadPartsParams {
  const float* x = nullptr;   // [tiles, 64, D] f32, device
  uint16_t* parts = nullptr;  // [tiles, 32 or 64, 3, D] bf16, device
  const float* gamma = nullptr;
  const float* beta = nullptr;
  int32_t tile_count = 0;
  bool of_paths = false;  // only the query rows of the 32 paths of a tile; else all 64 rows
  int32_t width = 0;      // as above
  float epsilon = 0;
};

// hidden = gelu(hidden + b1), rounded to bf16. That W1 z is rounded before costs about as much as
// that its GELU is; in float32 it would take a sixth of the time of a layer without attention.
struct GeluRowsParams {
  uint16_t* hidden = nullptr;  // [rows, Dff] bf16, device, updated
  const float* b1 = nullptr;   // [Dff] f32, device
  int64_t rows = 0;
  int32_t width = 0;  // Dff, a multiple of 8
};

// K and V of rows of a context, or of buffer tokens, to where their tile says.
struct StoreKvParams {
  const Tile* tiles = nullptr;    // [tiles], device
  const uint16_t* qkv = nullptr;  // [tiles, 64, (H + 2 Hkv) Dh] bf16, device
  int32_t tile_count = 0;
  ModelShape shape;      // H, Hkv, Dh
  int32_t kv_layer = 0;  // layer whose K and V are written
};

// InvalidArgument naming the field.
absl::Status ValidateCombinePartials(const CombinePartialsParams& params);
absl::Status ValidateNormalizeRows(const NormalizeRowsParams& params);
absl::Status ValidateHeadParts(const HeadPartsParams& params);
absl::Status ValidateGeluRows(const GeluRowsParams& params);
absl::Status ValidateStoreKv(const StoreKvParams& params);

// REQUIRES: the parameters are valid.
ErrorCode LaunchCombinePartials(const CombinePartialsParams& params, Stream stream);
ErrorCode LaunchNormalizeRows(const NormalizeRowsParams& params, Stream stream);
ErrorCode LaunchHeadParts(const HeadPartsParams& params, Stream stream);
ErrorCode LaunchGeluRows(const GeluRowsParams& params, Stream stream);
ErrorCode LaunchStoreKv(const StoreKvParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_UNFUSED_UNFUSED_ROWS_H_
