#include "kernels/cuda/chunk_state.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/row_layer.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kThreads = kSlabWarps * kWarp;

// Rows of bf16 in shared memory lie so far apart that the eight lanes of one 16-byte access cycle,
// which read 64 bytes of each of two neighbouring rows, hit each bank once.
constexpr int OperandStride(int padded_inputs) { return padded_inputs + 32; }
constexpr int kHiddenStride = OperandStride(kSlabInputs);

// How the block's shared memory is divided. Offsets in bytes.
struct SharedLayout {
  int operand_inputs;  // padded to whole slabs
  int operand_stride;
  int x_stride;
  int operand;  // [rows][operand_stride] bf16: what the next matrix is multiplied with
  int hidden;   // [2][rows][kHiddenStride] bf16: two slices of the feed-forward layer
  int x;        // [rows][x_stride] f32
  int bytes;
};

__device__ __forceinline__ int SlabsOf(int n) { return (n + kSlabInputs - 1) / kSlabInputs; }

SharedLayout LayoutOf(const RowLayerParams& p, int rows) {
  SharedLayout layout = {};
  const int64_t widest = p.heads * p.head_dim > p.width ? p.heads * p.head_dim : p.width;
  layout.operand_inputs = static_cast<int>(Slabs(widest)) * kSlabInputs;
  layout.operand_stride = OperandStride(layout.operand_inputs);
  layout.x_stride = p.width + 8;  // rows g and columns 2j of a warp hit each bank once
  layout.operand = 0;
  layout.hidden = rows * layout.operand_stride * 2;
  layout.x = layout.hidden + 2 * rows * kHiddenStride * 2;
  layout.bytes = layout.x + rows * layout.x_stride * 4;
  return layout;
}

struct KernelParams {
  RowLayerParams rows;
  SharedLayout shared;
};

// This warp's share of one slab of weights, and of the sequence of slabs that the kernel consumes.
// The next slab is on its way while the current one is used.
class WeightStream {
 public:
  __device__ __forceinline__ explicit WeightStream(const uint16_t* slabs)
      : next_(reinterpret_cast<const Words4*>(slabs) +
              threadIdx.x / kWarp * (kSlabSize / 8 / kSlabWarps) + threadIdx.x % kWarp) {
    Fetch();
  }

  // A lane's share: 8 inputs of each of 2 x 8 outputs, for each 32 inputs.
  __device__ __forceinline__ void Take(Words4 (&slab)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) slab[i] = fetched_[i];
    Fetch();
  }

 private:
  __device__ __forceinline__ void Fetch() {
#pragma unroll
    for (int i = 0; i < 8; ++i) fetched_[i] = LoadOnce(next_ + i * kWarp);
    next_ += kSlabSize / 8;
  }

  const Words4* next_;
  Words4 fetched_[8];
};

// Sums of this warp's 16 outputs of a slab, for the rows of kGroups groups: rows g and g + 8 of
// each group, outputs 8n + {2j, 2j+1}.
template <int kGroups>
struct Sums {
  float v[kGroups][2][4];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int m = 0; m < kGroups; ++m) {
      for (int i = 0; i < 8; ++i) v[m][i / 4][i % 4] = 0;
    }
  }

  // Adds the products with the next slab. `operand` is column 0 of the slab's inputs, row 0.
  __device__ __forceinline__ void AddSlab(const uint16_t* operand, int stride,
                                          WeightStream& weights) {
    const int lane = threadIdx.x % kWarp;
    Words4 slab[8];
    weights.Take(slab);
    operand += lane / 4 * stride + lane % 4 * 8;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int m = 0; m < kGroups; ++m) {
        const uint16_t* from = operand + m * kGroupRows * stride + k * 32;
        const Words4 row = LoadAs<Words4>(from);
        const Words4 below = LoadAs<Words4>(from + 8 * stride);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const Words4& w = slab[2 * k + n];
          Mma(v[m][n], row.w[0], below.w[0], row.w[1], below.w[1], w.w[0], w.w[1]);
          Mma(v[m][n], row.w[2], below.w[2], row.w[3], below.w[3], w.w[2], w.w[3]);
        }
      }
    }
  }

  // Calls use(row, output, first, second) for each pair of outputs that this lane holds; `output`
  // counts from the slab's first.
  template <typename Use>
  __device__ __forceinline__ void ForEachPair(const Use& use) const {
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
#pragma unroll
    for (int m = 0; m < kGroups; ++m) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int output = warp * 16 + n * 8 + lane % 4 * 2;
        const int row = m * kGroupRows + lane / 4;
        use(row, output, v[m][n][0], v[m][n][1]);
        use(row + 8, output, v[m][n][2], v[m][n][3]);
      }
    }
  }
};

// The rows of one block on their way through the stages. Every stage ends with all its writes to
// shared memory done for the whole block.
template <int kGroups, int kPanels>
class Rows {
 public:
  static constexpr int kRows = kGroups * kGroupRows;

  __device__ __forceinline__ Rows(const RowLayerParams& params, const SharedLayout& shared)
      : p_(params),
        operand_inputs_(shared.operand_inputs),
        operand_stride_(shared.operand_stride),
        x_stride_(shared.x_stride),
        operand_(reinterpret_cast<uint16_t*>(Shared() + shared.operand)),
        hidden_(reinterpret_cast<uint16_t*>(Shared() + shared.hidden)),
        x_(reinterpret_cast<float*>(Shared() + shared.x)),
        tile_index_(blockIdx.x / (kTileGroups / kGroups)),
        first_group_(blockIdx.x % (kTileGroups / kGroups) * kGroups),
        tile_(params.tiles[tile_index_]),
        rows_in_use_(min(kRows, (tile_.groups - first_group_) * kGroupRows)) {}

  __device__ __forceinline__ bool idle() const { return rows_in_use_ <= 0; }

  __device__ __forceinline__ void Load() {
    const int quads = p_.width / 4;
    for (int i = threadIdx.x; i < kRows * quads; i += kThreads) {
      const int row = i / quads;
      const int column = i % quads * 4;
      Floats4 value = {};
      if (row < rows_in_use_) value = LoadAs<Floats4>(p_.x + Global(row) * p_.width + column);
      StoreAs<Floats4>(x_ + row * x_stride_ + column, value);
    }
  }

  __device__ __forceinline__ void Store() {
    const int quads = p_.width / 4;
    for (int i = threadIdx.x; i < rows_in_use_ * quads; i += kThreads) {
      const int row = i / quads;
      const int column = i % quads * 4;
      StoreAs<Floats4>(p_.x + Global(row) * p_.width + column,
                       LoadAs<Floats4>(x_ + row * x_stride_ + column));
    }
  }

  // operand = x.
  __device__ __forceinline__ void FillOperand() {
    const int quads = SlabsOf(p_.width) * kSlabInputs / 4;
    for (int i = threadIdx.x; i < kRows * quads; i += kThreads) {
      const int row = i / quads;
      const int column = i % quads * 4;
      Words2 words = {};
      if (column < p_.width) {
        const Floats4 x = LoadAs<Floats4>(x_ + row * x_stride_ + column);
        words = {PackBf16(x.v[0], x.v[1]), PackBf16(x.v[2], x.v[3])};
      }
      StoreAs<Words2>(operand_ + row * operand_stride_ + column, words);
    }
    __syncthreads();
  }

  // operand = attention, from the states of its chunks in their order.
  __device__ __forceinline__ void MergeChunks() {
    const int width = p_.heads * p_.head_dim;
    const int quads = SlabsOf(width) * kSlabInputs / 4;
    const int slots =
        p_.split == ChunkSplit::kTogether ? 1 : static_cast<int>(ContextChunks(tile_.context_rows));
    for (int i = threadIdx.x; i < kRows * quads; i += kThreads) {
      const int row = i / quads;
      const int column = i % quads * 4;
      Words2 words = {};
      if (row < rows_in_use_ && column < width) {
        const Floats4 out = MergeElements(Global(row), column, slots);
        words = {PackBf16(out.v[0], out.v[1]), PackBf16(out.v[2], out.v[3])};
      }
      StoreAs<Words2>(operand_ + row * operand_stride_ + column, words);
    }
    __syncthreads();
  }

  // x += W operand, for `inputs` inputs.
  __device__ __forceinline__ void AddProduct(int inputs, WeightStream& weights) {
    for (int panel = 0; panel < SlabsOf(p_.width); ++panel) {
      Sums<kGroups> sums;
      sums.Clear();
      for (int k = 0; k < SlabsOf(inputs); ++k) {
        sums.AddSlab(operand_ + k * kSlabInputs, operand_stride_, weights);
      }
      AddToX(panel, sums, nullptr);
    }
    __syncthreads();
  }

  // x += W2 gelu(W1 operand + b1) + b2, 128 hidden elements at a time.
  __device__ __forceinline__ void AddFeedForward(WeightStream& weights) {
    Sums<kGroups> sums[kPanels];
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) sums[panel].Clear();
    for (int slice = 0; slice < SlabsOf(p_.hidden); ++slice) {
      // Two slices take turns: who writes a slice again has seen everybody pass the barrier behind
      // which it was read.
      uint16_t* hidden = hidden_ + slice % 2 * kRows * kHiddenStride;
      Sums<kGroups> up;
      up.Clear();
      for (int k = 0; k < SlabsOf(p_.width); ++k) {
        up.AddSlab(operand_ + k * kSlabInputs, operand_stride_, weights);
      }
      const float* b1 = p_.finish.b1 + slice * kSlabOutputs;
      up.ForEachPair([&](int row, int output, float first, float second) {
        const Floats2 bias = LoadAs<Floats2>(b1 + output);
        StoreAs<uint32_t>(hidden + row * kHiddenStride + output,
                          PackBf16(Gelu(first + bias.v[0]), Gelu(second + bias.v[1])));
      });
      __syncthreads();
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        if (panel < SlabsOf(p_.width)) sums[panel].AddSlab(hidden, kHiddenStride, weights);
      }
    }
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) AddToX(panel, sums[panel], p_.finish.b2);
    __syncthreads();
  }

  // x = LN(x); operand = x.
  __device__ __forceinline__ void Normalize(const float* gamma, const float* beta) {
    const int lane = threadIdx.x % kWarp;
    const float count = static_cast<float>(p_.width);
    for (int row = threadIdx.x / kWarp; row < kRows; row += kSlabWarps) {
      float* x = x_ + row * x_stride_;
      float sum = 0;
      for (int c = 2 * lane; c < p_.width; c += 2 * kWarp) {
        const Floats2 pair = LoadAs<Floats2>(x + c);
        sum += pair.v[0] + pair.v[1];
      }
      const float mean = SumOverLanes<kWarp>(sum) / count;
      float squares = 0;
      for (int c = 2 * lane; c < p_.width; c += 2 * kWarp) {
        const Floats2 pair = LoadAs<Floats2>(x + c);
        squares = fmaf(pair.v[0] - mean, pair.v[0] - mean, squares);
        squares = fmaf(pair.v[1] - mean, pair.v[1] - mean, squares);
      }
      const float scale = 1.0f / sqrtf(SumOverLanes<kWarp>(squares) / count + p_.epsilon);
      for (int c = 2 * lane; c < operand_inputs_; c += 2 * kWarp) {
        uint32_t word = 0;
        if (c < p_.width) {
          Floats2 pair = LoadAs<Floats2>(x + c);
          const Floats2 g = LoadAs<Floats2>(gamma + c);
          const Floats2 b = LoadAs<Floats2>(beta + c);
          for (int i = 0; i < 2; ++i) {
            pair.v[i] = fmaf((pair.v[i] - mean) * scale, g.v[i], b.v[i]);
          }
          StoreAs<Floats2>(x + c, pair);
          word = PackBf16(pair.v[0], pair.v[1]);
        }
        StoreAs<uint32_t>(operand_ + row * operand_stride_ + c, word);
      }
    }
    __syncthreads();
  }

  // q = Wq operand; K = Wk operand and V = Wv operand where the tile says that they go.
  __device__ __forceinline__ void Project(WeightStream& weights) {
    const int queries = p_.heads * p_.head_dim;
    const int kv_width = p_.kv_heads * p_.head_dim;
    const int projected = queries + 2 * kv_width;
    for (int panel = 0; panel < SlabsOf(projected); ++panel) {
      Sums<kGroups> sums;
      sums.Clear();
      for (int k = 0; k < SlabsOf(p_.width); ++k) {
        sums.AddSlab(operand_ + k * kSlabInputs, operand_stride_, weights);
      }
      sums.ForEachPair([&](int row, int output, float first, float second) {
        const int column = panel * kSlabOutputs + output;
        if (row >= rows_in_use_ || column >= projected) return;
        const uint32_t word = PackBf16(first, second);
        if (column < queries) {
          StoreAs<uint32_t>(p_.q + Global(row) * queries + column, word);
        } else {
          const int k_or_v = (column - queries) / kv_width;
          LeaveKeyOrValue(row, k_or_v == 1, (column - queries) % kv_width, word);
        }
      });
    }
  }

 private:
  // Of all tiles' rows.
  __device__ __forceinline__ int64_t Global(int row) const {
    return static_cast<int64_t>(tile_index_) * kTileRows + first_group_ * kGroupRows + row;
  }

  __device__ __forceinline__ Floats4 MergeElements(int64_t row, int column, int slots) const {
    const int64_t width = static_cast<int64_t>(p_.heads) * p_.head_dim;
    const int64_t rows = static_cast<int64_t>(p_.tile_count) * kTileRows;
    const int64_t state_at = row * p_.heads + column / p_.head_dim;
    constexpr int kTogether = 8;  // chunks whose loads are in flight at the same time
    float m = -INFINITY;
    float l = 0;
    Floats4 o = {};
    for (int first = 0; first < slots; first += kTogether) {
      Floats2 states[kTogether];
      Floats4 chunks[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i >= slots) break;
        const int64_t slot_row = (first + i) * rows;
        states[i] = LoadAs<Floats2>(p_.chunk_state + (slot_row * p_.heads + state_at) * 2);
        chunks[i] = LoadAs<Floats4>(p_.chunk_o + (slot_row + row) * width + column);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i >= slots) break;
        const MergeScale scale = MergeMaximum(m, states[i].v[0]);
        l = MergeSum(l, states[i].v[1], scale);
        for (int k = 0; k < 4; ++k) o.v[k] = MergeSum(o.v[k], chunks[i].v[k], scale);
      }
    }
    const float divisor = l > 0 ? 1.0f / l : 0.0f;  // no key at all: attention is 0
    for (int i = 0; i < 4; ++i) o.v[i] *= divisor;
    return o;
  }

  __device__ __forceinline__ void AddToX(int panel, const Sums<kGroups>& sums, const float* bias) {
    sums.ForEachPair([&](int row, int output, float first, float second) {
      const int column = panel * kSlabOutputs + output;
      if (column >= p_.width) return;
      float* x = x_ + row * x_stride_ + column;
      Floats2 pair = LoadAs<Floats2>(x);
      if (bias != nullptr) {
        first += bias[column];
        second += bias[column + 1];
      }
      StoreAs<Floats2>(x, {pair.v[0] + first, pair.v[1] + second});
    });
  }

  // Elements `column` and column + 1 of one row's K or V.
  __device__ __forceinline__ void LeaveKeyOrValue(int row, bool value, int column, uint32_t word) {
    const int kv_head = column / p_.head_dim;
    const int d = column % p_.head_dim;
    row += first_group_ * kGroupRows;
    if (tile_.first_row >= 0) {
      const int64_t blocks = ContextBlocks(tile_.context_rows);
      uint16_t* block = tile_.context +
                        p_.layer * ContextLayerSize(tile_.context_rows, p_.kv_heads, p_.head_dim) +
                        (kv_head * blocks + tile_.first_row / kBlockKeys) * BlockSize(p_.head_dim);
      if (row >= tile_.encode_rows) word = 0;  // what fills up the last block
      if (value) {
        block[BlockValueAt(row, d, p_.head_dim)] = static_cast<uint16_t>(word);
        block[BlockValueAt(row, d + 1, p_.head_dim)] = static_cast<uint16_t>(word >> 16);
      } else {
        StoreAs<uint32_t>(block + BlockKeyAt(row, d, p_.head_dim), word);
      }
      return;
    }
    const int path = row / kGroupRows * kGroupPaths + row % kGroupPaths;
    const bool of_buffer_token = row % kGroupRows >= kGroupPaths;
    if (tile_.append_place < 0 || !of_buffer_token || path >= tile_.buffer_paths) return;
    uint16_t* key = tile_.buffer +
                    p_.layer * BufferLayerSize(tile_.buffer_capacity, tile_.buffer_paths,
                                               p_.kv_heads, p_.head_dim) +
                    BufferKeyAt(kv_head, tile_.append_place, path, tile_.buffer_capacity,
                                tile_.buffer_paths, p_.head_dim);
    if (value) {
      key += static_cast<int64_t>(tile_.buffer_paths) * p_.head_dim +
             BufferValueColumn(d, p_.head_dim);
    } else {
      key += d;
    }
    StoreAs<uint32_t>(key, word);
  }

  const RowLayerParams& p_;
  const int operand_inputs_;
  const int operand_stride_;
  const int x_stride_;
  uint16_t* const operand_;
  uint16_t* const hidden_;
  float* const x_;
  const int tile_index_;
  const int first_group_;
  const Tile tile_;
  const int rows_in_use_;
};

// Grid: x blocks of kGroups groups, four groups a tile. A block owns its rows from the first stage
// to the last; a warp computes 16 outputs of every slab for all of the block's rows, so each weight
// is read once a block, straight from the level-two cache to registers. kPanels slabs of outputs
// make up D.
//
// -inf: attention may have seen no key (m = -inf, l = 0), which MergeMaximum and the divisor turn
// into 0.
template <int kGroups, int kPanels>
__global__ void __launch_bounds__(kThreads) RowLayerKernel(KernelParams params) {
  const RowLayerParams& p = params.rows;
  LetNextBegin();
  // Weights are nobody's result: the first slab is on its way before the kernel ahead has ended.
  WeightStream weights(p.stages == RowStages::kLeave ? p.leave.slabs : p.finish.slabs);
  WaitForPrevious();
  Rows<kGroups, kPanels> rows(p, params.shared);
  if (rows.idle()) return;
  rows.Load();
  if (p.stages != RowStages::kLeave) {
    rows.MergeChunks();
    rows.AddProduct(p.heads * p.head_dim, weights);
    rows.Normalize(p.finish.gamma2, p.finish.beta2);
    rows.AddFeedForward(weights);
    rows.Normalize(p.finish.gamma3, p.finish.beta3);
  } else {
    __syncthreads();
    rows.FillOperand();
  }
  if (p.stages != RowStages::kFinish) {
    if (p.stages == RowStages::kFinishAndLeave) weights = WeightStream(p.leave.slabs);
    rows.AddProduct(p.width, weights);
    rows.Normalize(p.leave.gamma1, p.leave.beta1);
    rows.Project(weights);
  }
  rows.Store();
}

template <int kGroups, int kPanels>
ErrorCode LaunchFor(const RowLayerParams& params, Stream stream) {
  const KernelParams kernel_params = {params, LayoutOf(params, kGroups * kGroupRows)};
  const LaunchShape shape = {
      .blocks_x = params.tile_count * (kTileGroups / kGroups),
      .threads = kThreads,
      .shared_bytes = kernel_params.shared.bytes,
  };
  return Launch(&RowLayerKernel<kGroups, kPanels>, shape, stream, kernel_params);
}

template <int kPanels>
ErrorCode LaunchForGroups(const RowLayerParams& params, int block_groups, Stream stream) {
  if (block_groups == 1) return LaunchFor<1, kPanels>(params, stream);
  if constexpr (kPanels < 4) {
    if (block_groups == 4) return LaunchFor<4, kPanels>(params, stream);
  }
  return LaunchFor<2, kPanels>(params, stream);
}

}  // namespace

ErrorCode LaunchRowLayer(const RowLayerParams& params, int block_groups, Stream stream) {
  switch (Slabs(params.width)) {
    case 1:
      return LaunchForGroups<1>(params, block_groups, stream);
    case 2:
      return LaunchForGroups<2>(params, block_groups, stream);
    default:
      return LaunchForGroups<4>(params, block_groups, stream);
  }
}

}  // namespace chorale::kernels::cuda
