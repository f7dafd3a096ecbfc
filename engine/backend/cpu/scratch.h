// The scratch memory of one thread for a chunk of rows.
#ifndef CHORALE_ENGINE_BACKEND_CPU_SCRATCH_H_
#define CHORALE_ENGINE_BACKEND_CPU_SCRATCH_H_

#include <array>
#include <cstdint>

#include "engine/backend/host/aligned_buffer.h"
#include "engine/model/model_config.h"
#include "kernels/ops/panel_layout.h"

namespace chorale::cpu {

// The paths of a tile: with two tokens per path, a step of a tile is one chunk.
inline constexpr int64_t kTilePaths = 32;

// The rows of a chunk, which go through a layer together: enough to read each weight once for many
// rows, few enough for their activations to stay in the L2 cache.
inline constexpr int64_t kChunkRows = 2 * kTilePaths;

// The rows of a chunk in which all rows attend to `context_rows` context rows. For a large context,
// attention is most of the work, and a step has fewer rows so that it stays short. The result is a
// multiple of the panel size, so that two tasks of an encoding without a memory set and without
// appended rows never write to the same cache line.
inline int64_t ChunkRowsFor(int64_t context_rows) {
  constexpr int64_t kLargeContext = 8'192;
  static_assert(kChunkRows % kernels::kPanel == 0);
  return context_rows > kLargeContext ? kernels::kPanel : kChunkRows;
}

// Thread contract: used by one thread of the pool; the engine thread resizes it between batches.
struct Scratch {
  AlignedBuffer tokens;                 // [kChunkRows, D], tokens of the chunk
  AlignedBuffer encodings;              // [kChunkRows, D]
  AlignedBuffer mixed;                  // [kChunkRows, D], added to the tokens
  AlignedBuffer query;                  // [kChunkRows, D]
  AlignedBuffer key_value;              // [kChunkRows, 2 Hkv Dh]
  AlignedBuffer hidden;                 // [kChunkRows, Dff]
  AlignedArray<double> precise_hidden;  // [kChunkRows, Dff], of the head
  AlignedArray<double> raw;             // [kChunkRows, 3M]
  AlignedArray<double> mean;            // [kChunkRows, M]
  AlignedArray<double> std;             // [kChunkRows, M]
  AlignedArray<double> log_weight;      // [kChunkRows, M]

  // For each row of the chunk.
  std::array<float, kChunkRows> y;
  std::array<int32_t, kChunkRows> encoding;  // see kernels/ops/embed_rows.h
  std::array<int32_t, kChunkRows> offset;    // see TokenOffset
  std::array<int32_t, kChunkRows> row_path;  // see kernels/ops/shared_context_attention.h
  std::array<int32_t, kChunkRows> row_visible;

  void Reserve(const ModelConfig& config) {
    const int64_t rows = kChunkRows;
    for (AlignedBuffer* buffer : {&tokens, &encodings, &mixed, &query}) {
      buffer->Reserve(rows * config.d_model);
    }
    key_value.Reserve(rows * 2 * config.kv_width());
    hidden.Reserve(rows * config.d_ff);
    precise_hidden.Reserve(rows * config.d_ff);
    raw.Reserve(rows * 3 * config.num_components);
    for (AlignedArray<double>* buffer : {&mean, &std, &log_weight}) {
      buffer->Reserve(rows * config.num_components);
    }
  }
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_SCRATCH_H_
