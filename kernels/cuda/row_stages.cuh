// What the row kernel does to the rows of one block, stage by stage.
#ifndef CHORALE_KERNELS_CUDA_ROW_STAGES_CUH_
#define CHORALE_KERNELS_CUDA_ROW_STAGES_CUH_

#include "kernels/cuda/chunk_state.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/row_layer.h"
#include "kernels/cuda/row_layout.h"
#include "kernels/cuda/weight_stream.cuh"

namespace chorale::kernels::cuda {

struct RowKernelParams {
  RowLayerParams rows;
  RowLayout shared;
  RowBlock block;
};

__device__ __forceinline__ int SlabsOf(int n) { return (n + kSlabInputs - 1) / kSlabInputs; }

// The rows of one block on their way through the stages. Every stage ends with all its writes to
// shared memory done for the whole block, but for Load and Project.
//
// Loops over slabs are not unrolled: every instruction of this kernel runs a few times in a launch,
// and code that a multiprocessor has no room for is fetched again and again.
template <int kGroups, int kPanels>
class Rows {
 public:
  static constexpr int kRows = kGroups * kGroupRows;

  // Reads of the tile only what no kernel changes.
  __device__ __forceinline__ explicit Rows(const RowKernelParams& params)
      : p_(params.rows),
        operand_inputs_(params.shared.operand_inputs),
        operand_stride_(params.shared.operand_stride),
        x_stride_(params.shared.x_stride),
        operand_(reinterpret_cast<uint16_t*>(Shared() + params.shared.operand)),
        hidden_(reinterpret_cast<uint16_t*>(Shared() + params.shared.hidden)),
        x_(reinterpret_cast<float*>(Shared() + params.shared.x)),
        vectors_(reinterpret_cast<float*>(Shared() + params.shared.vectors)),
        rows_(params.block.rows),
        tile_index_(blockIdx.x / (kTileRows / rows_)),
        first_row_(blockIdx.x % (kTileRows / rows_) * rows_),
        slots_(p_.split == ChunkSplit::kTogether
                   ? 1
                   : static_cast<int>(
                         ContextChunks(LoadFresh<int32_t>(&p_.tiles[tile_index_].context_rows)))) {}

  // Asks for the vectors that are added and multiplied with; the first slab comes after them.
  __device__ __forceinline__ void FetchVectors() const {
    if (p_.stages != RowStages::kLeave) {
      FetchVector(kGamma2, p_.finish.gamma2, p_.width);
      FetchVector(kBeta2, p_.finish.beta2, p_.width);
      FetchVector(kB2, p_.finish.b2, p_.width);
      FetchVector(kGamma3, p_.finish.gamma3, p_.width);
      FetchVector(kBeta3, p_.finish.beta3, p_.width);
      FetchVector(kB1, p_.finish.b1, SlabsOf(p_.hidden) * kSlabOutputs);
    }
    if (p_.stages != RowStages::kFinish) {
      FetchVector(kGamma1, p_.leave.gamma1, p_.width);
      FetchVector(kBeta1, p_.leave.beta1, p_.width);
    }
  }

  // The tile, and x. Rows that are not in use are read all the same, so that nothing waits for the
  // tile, and count as zeros.
  __device__ __forceinline__ void Load() {
    tile_ = LoadFresh<Tile>(p_.tiles + tile_index_);
    rows_in_use_ = min(rows_, tile_.groups * kGroupRows - first_row_);
    ForEachQuad(p_.width, [&](int row, int column) {
      Floats4 value = {};
      if (row < rows_) value = LoadFresh<Floats4>(p_.x + Global(row) * p_.width + column);
      if (row >= rows_in_use_) value = {};
      StoreAs<Floats4>(x_ + row * x_stride_ + column, value);
    });
  }

  __device__ __forceinline__ bool idle() const { return rows_in_use_ <= 0; }

  __device__ __forceinline__ void Store() const {
    ForEachQuad(p_.width, [&](int row, int column) {
      if (row >= rows_in_use_) return;
      StoreAs<Floats4>(p_.x + Global(row) * p_.width + column,
                       LoadAs<Floats4>(x_ + row * x_stride_ + column));
    });
  }

  // operand = x.
  __device__ __forceinline__ void FillOperand() {
    ForEachQuad(SlabsOf(p_.width) * kSlabInputs, [&](int row, int column) {
      Floats4 x = {};
      if (column < p_.width) x = LoadAs<Floats4>(x_ + row * x_stride_ + column);
      StoreOperand(row, column, x);
    });
    __syncthreads();
  }

  // operand = attention, from the states of its chunks in their order.
  __device__ __forceinline__ void MergeChunks() {
    if constexpr (kGroups == 1) {
      if (rows_ < kRows) {
        MergeRows<1>();
        __syncthreads();
        return;
      }
    }
    MergeRows<2>();
    __syncthreads();
  }

  // x += W operand, for `inputs` inputs.
  __device__ __forceinline__ void AddProduct(int inputs, WeightStream& weights) {
#pragma unroll 1
    for (int panel = 0; panel < SlabsOf(p_.width); ++panel) {
      Sums<kGroups> sums;
      sums.Clear();
#pragma unroll 1
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
#pragma unroll 1
    for (int slice = 0; slice < SlabsOf(p_.hidden); ++slice) {
      // Two slices take turns: who writes a slice again has seen everybody pass the barrier behind
      // which it was read.
      uint16_t* hidden = hidden_ + slice % 2 * kRows * kHiddenStride;
      Sums<kGroups> up;
      up.Clear();
#pragma unroll 1
      for (int k = 0; k < SlabsOf(p_.width); ++k) {
        up.AddSlab(operand_ + k * kSlabInputs, operand_stride_, weights);
      }
      const float* b1 = Vector(kB1) + slice * kSlabOutputs;
      up.ForEachPair([&](int output) {
        const Floats2 bias = LoadAs<Floats2>(b1 + output);
        return [=](int row, float first, float second) {
          StoreAs<uint32_t>(hidden + row * kHiddenStride + output,
                            PackBf16(Gelu(first + bias.v[0]), Gelu(second + bias.v[1])));
        };
      });
      __syncthreads();
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        if (panel < SlabsOf(p_.width)) sums[panel].AddSlab(hidden, kHiddenStride, weights);
      }
    }
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) AddToX(panel, sums[panel], Vector(kB2));
    __syncthreads();
  }

  // x = LN(x); operand = x. Half a warp a row, whose elements stay in registers.
  __device__ __forceinline__ void Normalize(LayerVector gamma_name, LayerVector beta_name) {
    constexpr int kLanes = 16;
    constexpr int kQuads = kPanels * kSlabInputs / (4 * kLanes);
    const float* gamma = Vector(gamma_name);
    const float* beta = Vector(beta_name);
    const int lane = threadIdx.x % kLanes;
    const float weight = 1.0f / static_cast<float>(p_.width);
#pragma unroll 1
    for (int row = threadIdx.x / kLanes; row < kRows; row += kRowThreads / kLanes) {
      float* x = x_ + row * x_stride_;
      Floats4 quads[kQuads];
      float sum = 0;
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const int column = (q * kLanes + lane) * 4;
        quads[q] = {};
        if (column < p_.width) quads[q] = LoadAs<Floats4>(x + column);
        sum += (quads[q].v[0] + quads[q].v[1]) + (quads[q].v[2] + quads[q].v[3]);
      }
      const float mean = SumOverLanes<kLanes>(sum) * weight;
      float squares = 0;
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        if ((q * kLanes + lane) * 4 >= p_.width) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          quads[q].v[i] -= mean;
          squares = fmaf(quads[q].v[i], quads[q].v[i], squares);
        }
      }
      const float scale = ReciprocalRoot(SumOverLanes<kLanes>(squares) * weight + p_.epsilon);
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const int column = (q * kLanes + lane) * 4;
        if (column < p_.width) {
          const Floats4 g = LoadAs<Floats4>(gamma + column);
          const Floats4 b = LoadAs<Floats4>(beta + column);
#pragma unroll
          for (int i = 0; i < 4; ++i) quads[q].v[i] = fmaf(quads[q].v[i] * scale, g.v[i], b.v[i]);
          StoreAs<Floats4>(x + column, quads[q]);
        }
        if (column < operand_inputs_) StoreOperand(row, column, quads[q]);
      }
    }
    __syncthreads();
  }

  // q = Wq operand; K = Wk operand and V = Wv operand where the tile says that they go.
  __device__ __forceinline__ void Project(WeightStream& weights) const {
    const int projected = (p_.heads + 2 * p_.kv_heads) * p_.head_dim;
#pragma unroll 1
    for (int panel = 0; panel < SlabsOf(projected); ++panel) {
      Sums<kGroups> sums;
      sums.Clear();
#pragma unroll 1
      for (int k = 0; k < SlabsOf(p_.width); ++k) {
        sums.AddSlab(operand_ + k * kSlabInputs, operand_stride_, weights);
      }
      sums.ForEachPair([&](int output) {
        const Destination to = DestinationOf(panel * kSlabOutputs + output);
        return [=, this](int row, float first, float second) {
          if (row < rows_in_use_) Leave(to, row, PackBf16(first, second));
        };
      });
    }
  }

 private:
  // Where elements d and d + 1 of a head go.
  struct Destination {
    enum class Kind { kNowhere, kQuery, kContextKey, kContextValue, kBuffer };
    Kind kind = Kind::kNowhere;
    uint16_t* head = nullptr;  // kQuery, kBuffer: these elements of row or path 0
    int d = 0;                 // of keys and values of a context
  };

  __device__ __forceinline__ Destination DestinationOf(int column) const {
    using Kind = typename Destination::Kind;
    const int queries = p_.heads * p_.head_dim;
    const int kv_width = p_.kv_heads * p_.head_dim;
    if (column < queries) return {Kind::kQuery, p_.q + column, 0};
    column -= queries;
    const bool value = column >= kv_width;
    if (value) column -= kv_width;
    if (column >= kv_width) return {};
    const int kv_head = column / p_.head_dim;
    const int d = column - kv_head * p_.head_dim;
    if (tile_.first_row >= 0) {
      const int64_t blocks = ContextBlocks(tile_.context_rows);
      uint16_t* block = tile_.context +
                        p_.layer * ContextLayerSize(tile_.context_rows, p_.kv_heads, p_.head_dim) +
                        (kv_head * blocks + tile_.first_row / kBlockKeys) * BlockSize(p_.head_dim);
      return {value ? Kind::kContextValue : Kind::kContextKey, block, d};
    }
    if (tile_.append_place < 0) return {};
    uint16_t* key = tile_.buffer +
                    p_.layer * BufferLayerSize(tile_.buffer_capacity, tile_.buffer_paths,
                                               p_.kv_heads, p_.head_dim) +
                    BufferKeyAt(kv_head, tile_.append_place, 0, tile_.buffer_capacity,
                                tile_.buffer_paths, p_.head_dim);
    key += value ? tile_.buffer_paths * p_.head_dim + BufferValueColumn(d, p_.head_dim) : d;
    return {Kind::kBuffer, key, 0};
  }

  __device__ __forceinline__ void Leave(const Destination& to, int row, uint32_t word) const {
    using Kind = typename Destination::Kind;
    if (to.kind == Kind::kQuery) {
      StoreAs<uint32_t>(to.head + Global(row) * (p_.heads * p_.head_dim), word);
      return;
    }
    row += first_row_;
    if (to.kind == Kind::kBuffer) {
      const int path = row / kGroupRows * kGroupPaths + row % kGroupPaths;
      const bool of_buffer_token = row % kGroupRows >= kGroupPaths;
      if (!of_buffer_token || path >= tile_.buffer_paths) return;
      StoreAs<uint32_t>(to.head + path * p_.head_dim, word);
      return;
    }
    if (row >= tile_.encode_rows) word = 0;  // what fills up the last block
    if (to.kind == Kind::kContextKey) {
      StoreAs<uint32_t>(to.head + BlockKeyAt(row, to.d, p_.head_dim), word);
    } else if (to.kind == Kind::kContextValue) {
      to.head[BlockValueAt(row, to.d, p_.head_dim)] = static_cast<uint16_t>(word);
      to.head[BlockValueAt(row, to.d + 1, p_.head_dim)] = static_cast<uint16_t>(word >> 16);
    }
  }

  // Calls use(row, column) for every fourth column of every row, a warp a row.
  template <typename Use>
  __device__ __forceinline__ void ForEachQuad(int columns, const Use& use) const {
#pragma unroll 1
    for (int column = threadIdx.x % kWarp * 4; column < columns; column += kWarp * 4) {
#pragma unroll
      for (int i = 0; i < kRows / kSlabWarps; ++i) {
        use(i * kSlabWarps + static_cast<int>(threadIdx.x / kWarp), column);
      }
    }
  }

  __device__ __forceinline__ float* Vector(LayerVector name) const {
    return vectors_ + name * p_.width;
  }
  __device__ __forceinline__ void FetchVector(LayerVector name, const float* from, int size) const {
    float* to = Vector(name);
#pragma unroll 1
    for (int i = threadIdx.x * 4; i < size; i += kRowThreads * 4) CopyLater16(to + i, from + i);
  }

  // Of all tiles' rows.
  __device__ __forceinline__ int64_t Global(int row) const {
    return static_cast<int64_t>(tile_index_) * kTileRows + first_row_ + row;
  }

  __device__ __forceinline__ void StoreOperand(int row, int column, const Floats4& x) {
    StoreAs<Words2>(operand_ + row * operand_stride_ + column,
                    {PackBf16(x.v[0], x.v[1]), PackBf16(x.v[2], x.v[3])});
  }

  // A lane merges elements of kCount rows at a time. Rows that the block does not have stay what
  // they are: nothing that is kept depends on them.
  template <int kCount>
  __device__ __forceinline__ void MergeRows() {
    const int width = p_.heads * p_.head_dim;
#pragma unroll 1
    for (int column = threadIdx.x % kWarp * 4; column < SlabsOf(width) * kSlabInputs;
         column += kWarp * 4) {
#pragma unroll 1
      for (int row = threadIdx.x / kWarp; row < rows_; row += kCount * kSlabWarps) {
        Floats4 merged[kCount] = {};
        if (column < width) MergeElements<kCount>(row, column, merged);
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          if (row + i * kSlabWarps >= rows_in_use_) merged[i] = {};
          StoreOperand(row + i * kSlabWarps, column, merged[i]);
        }
      }
    }
  }

  // Of rows `row`, row + 8, ..., merged and divided.
  template <int kCount>
  __device__ __forceinline__ void MergeElements(int row, int column, Floats4 (&o)[kCount]) const {
    constexpr int kTogether = 16 / kCount;  // chunks whose loads are in flight at the same time
    const int64_t heads = static_cast<int64_t>(p_.tile_count) * kTileRows * p_.heads;  // of a slot
    const int64_t head = Global(row) * p_.heads + column / p_.head_dim;
    const int64_t below = static_cast<int64_t>(kSlabWarps) * p_.heads;  // from row to row + 8
    const float* states = p_.chunk_state + head * 2;
    const float* chunks = p_.chunk_o + head * p_.head_dim + column % p_.head_dim;
    float m[kCount];
    float l[kCount];
#pragma unroll
    for (int r = 0; r < kCount; ++r) {
      m[r] = -INFINITY;
      l[r] = 0;
    }
#pragma unroll 1
    for (int first = 0; first < slots_; first += kTogether) {
      Floats2 state[kTogether][kCount];
      Floats4 chunk[kTogether][kCount];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i >= slots_) break;
        const int64_t at = (first + i) * heads;
#pragma unroll
        for (int r = 0; r < kCount; ++r) {
          state[i][r] = LoadFresh<Floats2>(states + (at + r * below) * 2);
          chunk[i][r] = LoadFresh<Floats4>(chunks + (at + r * below) * p_.head_dim);
        }
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i >= slots_) break;
#pragma unroll
        for (int r = 0; r < kCount; ++r) {
          const MergeScale scale = MergeMaximum(m[r], state[i][r].v[0]);
          l[r] = MergeSum(l[r], state[i][r].v[1], scale);
#pragma unroll
          for (int k = 0; k < 4; ++k) o[r].v[k] = MergeSum(o[r].v[k], chunk[i][r].v[k], scale);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kCount; ++r) {
      const float divisor = l[r] > 0 ? 1.0f / l[r] : 0.0f;  // no key at all: attention is 0
#pragma unroll
      for (int k = 0; k < 4; ++k) o[r].v[k] *= divisor;
    }
  }

  // `bias` may be null.
  __device__ __forceinline__ void AddToX(int panel, const Sums<kGroups>& sums, const float* bias) {
    sums.ForEachPair([&](int output) {
      const int column = panel * kSlabOutputs + output;
      const bool exists = column < p_.width;
      Floats2 more = {};
      if (exists && bias != nullptr) more = LoadAs<Floats2>(bias + column);
      return [=, this](int row, float first, float second) {
        if (!exists) return;
        float* x = x_ + row * x_stride_ + column;
        const Floats2 pair = LoadAs<Floats2>(x);
        StoreAs<Floats2>(x, {pair.v[0] + (first + more.v[0]), pair.v[1] + (second + more.v[1])});
      };
    });
  }

  const RowLayerParams& p_;
  const int operand_inputs_;
  const int operand_stride_;
  const int x_stride_;
  uint16_t* const operand_;
  uint16_t* const hidden_;
  float* const x_;
  float* const vectors_;
  const int rows_;  // of the block: kRows, or 8 of 16
  const int tile_index_;
  const int first_row_;  // of the tile
  const int slots_;      // of states to merge
  Tile tile_;
  int rows_in_use_ = 0;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_STAGES_CUH_
