// A cell block: the row encoder's attention block (engine/model/row_encoder_weights.h). One warp
// computes it for a cell tile of 16 tokens in registers, with the weights in shared memory:
//
//   x += Wo attend(Wq LN1(x), Wk LN1(m), Wv LN1(m));  x += W2 gelu(W1 LN2(x) + b1) + b2
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_BLOCK_CUH_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_BLOCK_CUH_

#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/gelu.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/row_encoder/cell_layout.h"

namespace chorale::kernels::cuda {

inline constexpr int kCellColumns = kCellWidth / 8;  // mma instructions along a token

// A lane's part of a cell tile in float32: tokens g and g + 8, elements 8n + {2j, 2j+1}.
struct CellTokens {
  float v[kCellColumns][4];

  // Loads from a cell tile in global memory; stores to one in any memory. Tokens from `valid` on
  // are loaded as zeros, because padding must be finite.
  __device__ __forceinline__ void Load(const float* tile, int valid) {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int n = 0; n < kCellColumns; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Floats2 pair = {};
        if (lane / 4 + 8 * half < valid) {
          pair = LoadCg<Floats2>(tile + ((2 * n + half) * kWarpSize + lane) * 2);
        }
        v[n][2 * half] = pair.v[0];
        v[n][2 * half + 1] = pair.v[1];
      }
    }
  }
  __device__ __forceinline__ void Store(float* tile, int valid) const {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int n = 0; n < kCellColumns; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (lane / 4 + 8 * half < valid) {
          StoreAs<Floats2>(tile + ((2 * n + half) * kWarpSize + lane) * 2,
                           {v[n][2 * half], v[n][2 * half + 1]});
        }
      }
    }
  }

  // Repeats `period` learned tokens [period, kCellWidth] up to `count` tokens; the rest is zero.
  __device__ __forceinline__ void Repeat(const float* tokens, int period, int count) {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = lane / 4 + 8 * half;
      const float* from = tokens + token % period * kCellWidth + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kCellColumns; ++n) {
        Floats2 pair = {};
        if (token < count) pair = LoadAs<Floats2>(from + 8 * n);
        v[n][2 * half] = pair.v[0];
        v[n][2 * half + 1] = pair.v[1];
      }
    }
  }
};

// 16 tokens in bfloat16, as A fragments: [16 elements at a time][word].
struct CellOperand {
  uint32_t w[kCellColumns / 2][4];
};

// Two neighbouring C fragments as one A fragment.
__device__ __forceinline__ void PackOperand(const float (&left)[4], const float (&right)[4],
                                            uint32_t (&a)[4]) {
  a[0] = PackBf16(left[0], left[1]);
  a[1] = PackBf16(left[2], left[3]);
  a[2] = PackBf16(right[0], right[1]);
  a[3] = PackBf16(right[2], right[3]);
}

// gamma and beta are [kCellWidth], zero from the width on.
__device__ __forceinline__ CellTokens Normalized(const CellTokens& x, const float* gamma,
                                                 const float* beta, const CellShape& shape) {
  const int lane = threadIdx.x % kWarpSize;
  const float count = static_cast<float>(shape.width);
  CellTokens y;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kCellColumns; ++n) sum += x.v[n][2 * half] + x.v[n][2 * half + 1];
    const float mean = SumOverLanes<4>(sum) / count;
    float squares = 0;
#pragma unroll
    for (int n = 0; n < kCellColumns; ++n) {
      if (8 * n >= shape.width) continue;
      const float first = x.v[n][2 * half] - mean;
      const float second = x.v[n][2 * half + 1] - mean;
      squares = fmaf(first, first, squares);
      squares = fmaf(second, second, squares);
    }
    const float scale = 1.0f / sqrtf(SumOverLanes<4>(squares) / count + shape.epsilon);
#pragma unroll
    for (int n = 0; n < kCellColumns; ++n) {
      const Floats2 g = LoadAs<Floats2>(gamma + 8 * n + lane % 4 * 2);
      const Floats2 b = LoadAs<Floats2>(beta + 8 * n + lane % 4 * 2);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        y.v[n][2 * half + i] = fmaf((x.v[n][2 * half + i] - mean) * scale, g.v[i], b.v[i]);
      }
    }
  }
  return y;
}

// The softmax state of 16 tokens in one head: C fragments o of the head's 16 elements, and m and l
// of rows g and g + 8. m is an unscaled score (before score_scale); l is this lane's partial sum
// until Sum.
struct CellHeadState {
  float m[2];
  float l[2];
  float o[2][4];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      m[half] = -INFINITY;
      l[half] = 0;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) o[i / 4][i % 4] = 0;
  }

  // Attends to the first `valid` of 16 tokens, for rows with `reads` alone. Before a row's first
  // key, m is -inf and zeros are scaled by 2^-inf = 0.
  __device__ __forceinline__ void Attend(const uint32_t (&q)[4], const Words4& k, const Words4& v,
                                         int valid, const bool (&reads)[2], float score_scale) {
    const int lane = threadIdx.x % kWarpSize;
    float s[2][4] = {};
    Mma(s[0], q[0], q[1], q[2], q[3], k.w[0], k.w[1]);
    Mma(s[1], q[0], q[1], q[2], q[3], k.w[2], k.w[3]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = -INFINITY;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& score = s[i / 2][2 * half + i % 2];
        if (!reads[half] || i / 2 * 8 + lane % 4 * 2 + i % 2 >= valid) score = -INFINITY;
        largest = fmaxf(largest, score);
      }
      const float raised = fmaxf(m[half], MaxOverLanes<4>(largest));
      const float base = raised == -INFINITY ? 0.0f : raised;
      const float scale = Exp2((m[half] - base) * score_scale);
      m[half] = raised;
      l[half] *= scale;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& score = s[i / 2][2 * half + i % 2];
        score = Exp2((score - base) * score_scale);
        l[half] += score;
        o[i / 2][2 * half + i % 2] *= scale;
      }
    }
    uint32_t p[4];
    PackOperand(s[0], s[1], p);
    Mma(o[0], p[0], p[1], p[2], p[3], v.w[0], v.w[1]);
    Mma(o[1], p[0], p[1], p[2], p[3], v.w[2], v.w[3]);
  }

  // Adds up l over the four lanes of a row; all four get the sum.
  __device__ __forceinline__ void Sum() {
#pragma unroll
    for (int half = 0; half < 2; ++half) l[half] = SumOverLanes<4>(l[half]);
  }

  // o / l as the operand of Wo; zero for no key.
  __device__ __forceinline__ void Finish(uint32_t (&attended)[4]) {
    Sum();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float divisor = l[half] > 0 ? 1.0f / l[half] : 0.0f;
#pragma unroll
      for (int i = 0; i < 4; ++i) o[i / 2][2 * half + i % 2] *= divisor;
    }
    PackOperand(o[0], o[1], attended);
  }
};

class CellBlock {
 public:
  // Starts to copy a cell block's weights to shared memory, with kThreads threads. No kernel writes
  // weights, so this may precede GridDepWait. Complete after CpAsyncWait and a barrier.
  template <int kThreads>
  __device__ __forceinline__ static void Fetch(const uint16_t* weights, char* shared) {
    const char* from = reinterpret_cast<const char*>(weights);
    for (int at = threadIdx.x * 16; at < kCellBlockBytes; at += kThreads * 16) {
      CpAsync16(shared + at, from + at);
    }
    CpAsyncCommit();
  }

  __device__ __forceinline__ CellBlock(const char* shared, const CellShape& shape)
      : matrices_(reinterpret_cast<const uint16_t*>(shared)),
        vectors_(reinterpret_cast<const float*>(shared + kCellBlockMatrices * 2)),
        shape_(shape) {}

  // LN1(x).
  __device__ __forceinline__ CellOperand Normed(const CellTokens& x) const {
    return NormedBy(x, kCellBlockGamma1, kCellBlockBeta1);
  }

  __device__ __forceinline__ void Query(const CellOperand& h, int head, uint32_t (&q)[4]) const {
    float c[2][4] = {};
    Project(h, kCellBlockWq, head, c);
    PackOperand(c[0], c[1], q);
  }

  // K and V of one head of 16 tokens, as B fragments: a lane's part of CellTileKeyAt and
  // CellTileValueAt.
  __device__ __forceinline__ Words4 Keys(const CellOperand& h, int head) const {
    float c[2][4] = {};
    Project(h, kCellBlockWk, head, c);
    return {PackBf16(c[0][0], c[0][1]), PackBf16(c[1][0], c[1][1]), PackBf16(c[0][2], c[0][3]),
            PackBf16(c[1][2], c[1][3])};
  }
  // Computes Wv h^T, not h Wv^T: its C fragments are the B fragments of the next product.
  __device__ __forceinline__ Words4 Values(const CellOperand& h, int head) const {
    float c[2][4] = {};  // of tokens 0-7 and 8-15
    const uint16_t* upper = Tile(kCellBlockWv, 2 * head, kCellWidth);
    const uint16_t* lower = Tile(kCellBlockWv, 2 * head + 1, kCellWidth);
#pragma unroll
    for (int k = 0; k < kCellWidth / 32; ++k) {
      const Words4 u = LoadAs<Words4>(upper + k * 256);
      const Words4 l = LoadAs<Words4>(lower + k * 256);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t(&b)[4] = h.w[2 * k + i];
        Mma(c[0], u.w[2 * i], l.w[2 * i], u.w[2 * i + 1], l.w[2 * i + 1], b[0], b[2]);
        Mma(c[1], u.w[2 * i], l.w[2 * i], u.w[2 * i + 1], l.w[2 * i + 1], b[1], b[3]);
      }
    }
    return {PackBf16(c[0][0], c[0][1]), PackBf16(c[1][0], c[1][1]), PackBf16(c[0][2], c[0][3]),
            PackBf16(c[1][2], c[1][3])};
  }

  // x += Wo attended;  x += W2 gelu(W1 LN2(x) + b1) + b2.
  __device__ __forceinline__ void Finish(const CellOperand& attended, CellTokens& x) const {
#pragma unroll
    for (int n = 0; n < kCellColumns; ++n) AddProduct(attended, kCellBlockWo, n, x.v[n]);
    const CellOperand h = NormedBy(x, kCellBlockGamma2, kCellBlockBeta2);
    AddVector(kCellBlockB2, x);
#pragma unroll 1
    for (int c = 0; c < kCellHidden / 32; ++c) {
      uint32_t hidden[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float sums[2][4];
#pragma unroll
        for (int k = 0; k < 2; ++k) Hidden(h, 4 * c + 2 * i + k, sums[k]);
        PackOperand(sums[0], sums[1], hidden[i]);
      }
#pragma unroll
      for (int n = 0; n < kCellColumns; ++n) {
        const Words4 w = LoadAs<Words4>(Tile(kCellBlockW2, n, kCellHidden) + c * 256);
        Mma(x.v[n], hidden[0][0], hidden[0][1], hidden[0][2], hidden[0][3], w.w[0], w.w[1]);
        Mma(x.v[n], hidden[1][0], hidden[1][1], hidden[1][2], hidden[1][3], w.w[2], w.w[3]);
      }
    }
  }

  __device__ __forceinline__ const CellShape& shape() const { return shape_; }

 private:
  // This lane's weights of a matrix's outputs 8n to 8n + 7.
  __device__ __forceinline__ const uint16_t* Tile(int matrix, int n, int inputs) const {
    return matrices_ + matrix + n * (inputs / 32) * 256 + threadIdx.x % kWarpSize * 8;
  }

  // c += outputs 8n to 8n + 7 of a matrix with kCellWidth inputs.
  __device__ __forceinline__ void AddProduct(const CellOperand& a, int matrix, int n,
                                             float (&c)[4]) const {
    const uint16_t* weights = Tile(matrix, n, kCellWidth);
#pragma unroll
    for (int k = 0; k < kCellWidth / 32; ++k) {
      const Words4 w = LoadAs<Words4>(weights + k * 256);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t(&row)[4] = a.w[2 * k + i];
        Mma(c, row[0], row[1], row[2], row[3], w.w[2 * i], w.w[2 * i + 1]);
      }
    }
  }

  __device__ __forceinline__ void Project(const CellOperand& h, int matrix, int head,
                                          float (&c)[2][4]) const {
    AddProduct(h, matrix, 2 * head, c[0]);
    AddProduct(h, matrix, 2 * head + 1, c[1]);
  }

  // gelu(W1 h + b1), outputs 8n to 8n + 7.
  __device__ __forceinline__ void Hidden(const CellOperand& h, int n, float (&sums)[4]) const {
    const Floats2 bias = LoadAs<Floats2>(vectors_ + kCellBlockB1 + 8 * n + threadIdx.x % 4 * 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = bias.v[i % 2];
    AddProduct(h, kCellBlockW1, n, sums);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = Gelu(sums[i]);
  }

  __device__ __forceinline__ void AddVector(int vector, CellTokens& x) const {
#pragma unroll
    for (int n = 0; n < kCellColumns; ++n) {
      const Floats2 b = LoadAs<Floats2>(vectors_ + vector + 8 * n + threadIdx.x % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) x.v[n][i] += b.v[i % 2];
    }
  }

  __device__ __forceinline__ CellOperand NormedBy(const CellTokens& x, int gamma, int beta) const {
    const CellTokens normed = Normalized(x, vectors_ + gamma, vectors_ + beta, shape_);
    CellOperand h;
#pragma unroll
    for (int k = 0; k < kCellColumns / 2; ++k) {
      PackOperand(normed.v[2 * k], normed.v[2 * k + 1], h.w[k]);
    }
    return h;
  }

  const uint16_t* const matrices_;
  const float* const vectors_;
  const CellShape shape_;
};

// Up to 16 learned tokens that attend to cells, tile after tile, in all heads. All warps share
// their queries, which are in shared memory.
class TokenReader {
 public:
  static constexpr int kQueries = kCellHeads * kWarpSize;  // Words4

  // Called by one warp; others may read after a barrier.
  __device__ __forceinline__ static void StoreQueries(const CellBlock& cell_block,
                                                      const CellTokens& tokens, Words4* queries) {
    const CellOperand h = cell_block.Normed(tokens);
#pragma unroll
    for (int head = 0; head < kCellHeads; ++head) {
      Words4 q;
      cell_block.Query(h, head, q.w);
      StoreAs<Words4>(queries + head * kWarpSize + threadIdx.x % kWarpSize, q);
    }
  }

  __device__ __forceinline__ explicit TokenReader(const Words4* queries)
      : queries_(queries + threadIdx.x % kWarpSize) {}

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int head = 0; head < kCellHeads; ++head) states_[head].Clear();
  }

  __device__ __forceinline__ void Read(const CellBlock& cell_block, const CellTokens& cells,
                                       int valid, const bool (&reads)[2]) {
    const CellOperand h = cell_block.Normed(cells);
#pragma unroll
    for (int head = 0; head < kCellHeads; ++head) {
      const Words4 q = LoadAs<Words4>(queries_ + head * kWarpSize);
      states_[head].Attend(q.w, cell_block.Keys(h, head), cell_block.Values(h, head), valid, reads,
                           cell_block.shape().score_scale);
    }
  }

  __device__ __forceinline__ CellHeadState& state(int head) { return states_[head]; }

 private:
  const Words4* const queries_;
  CellHeadState states_[kCellHeads];
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_BLOCK_CUH_
