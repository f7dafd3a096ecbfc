// The layer kernels against their definition in float64.
#include "kernels/cuda/layer/layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/layer/layer_problem.h"
#include "tests/kernels/tensor_matchers.h"
#include "tests/support/length.h"

namespace chorale::kernels::cuda {
namespace {

// A sum rounded to bf16 in the other direction than the reference's is off by 2^-8 of itself; later
// results move by that times a weight, and several such errors add up.
constexpr Tolerance kRounding{1.2e-2, 8e-3};

class LayerTest : public DeviceTest {
 protected:
  static std::vector<float> Floats(const Vector& values) {
    return std::vector<float>(values.begin(), values.end());
  }
  static std::vector<float> FromBits(const uint16_t* bits, int64_t n) {
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(FromBf16(bits[i]));
    return values;
  }

  // Compares every row_step-th row: with 7, still one of every lane.
  void ExpectAgreesWithReference(
      const ModelShape& shape, LayerPart part, int row_step = 1,
      LayerProblem::Attention attention = LayerProblem::Attention::kPartials) {
    ExpectAgreesWithReference(LayerProblem(shape), part, row_step, attention);
  }
  void ExpectAgreesWithReference(LayerProblem problem, LayerPart part, int row_step,
                                 LayerProblem::Attention attention) {
    const ModelShape& shape = problem.shape();
    const LayerProblem::Result result =
        problem.Run(part, 16, stream_, LayerProblem::Form::kMma, attention);
    const int64_t queries = shape.query_width();
    for (int row = 0; row < LayerProblem::kRows; row += row_step) {
      SCOPED_TRACE(testing::Message() << "row " << row);
      const auto x = result.x.begin() + row * shape.width;
      const std::vector<float> actual(x, x + shape.width);
      if (!problem.InUse(row)) {
        const auto before = problem.x().begin() + row * shape.width;
        EXPECT_THAT(actual, TensorBitsEqual(std::vector<float>(before, before + shape.width)));
        EXPECT_EQ(result.q[row * queries], 0xffff);
        continue;
      }
      const RowResult expected = problem.Expected(part, row);
      ASSERT_THAT(actual, TensorNear(Floats(expected.x), kRounding));
      if (part == LayerPart::kPostAttention) continue;
      const Vector& qkv = expected.qkv;
      ASSERT_THAT(FromBits(result.q.data() + row * queries, queries),
                  TensorNear(Floats(Vector(qkv.begin(), qkv.begin() + queries)), kRounding));
      ExpectKeysAndValues(result, shape, row, qkv);
    }
  }

  // K and V of a row are where the row's tile says.
  void ExpectKeysAndValues(const LayerProblem::Result& result, const ModelShape& shape, int row,
                           const Vector& qkv) {
    const int64_t kv_width = shape.kv_heads * shape.head_dim;
    std::vector<float> expected, actual;
    for (int64_t i = 0; i < kv_width; ++i) {
      const int head = static_cast<int>(i / shape.head_dim);
      const int d = static_cast<int>(i % shape.head_dim);
      const double k = qkv[shape.query_width() + i];
      const double v = qkv[shape.query_width() + kv_width + i];
      const int path = row % 64 / 16 * 8 + row % 8;
      if (row < 64) {
        const uint16_t* key_block =
            result.context.data() + ContextKeyBlockAt(LayerProblem::kLayer, head, /*key_block=*/1,
                                                      LayerProblem::kEncodedRows, shape.kv_heads,
                                                      shape.head_dim);
        actual.push_back(FromBf16(key_block[KeyBlockKeyAt(row, d, shape.head_dim)]));
        actual.push_back(FromBf16(key_block[KeyBlockValueAt(row, d, shape.head_dim)]));
        expected.push_back(static_cast<float>(row < 50 ? k : 0));
        expected.push_back(static_cast<float>(row < 50 ? v : 0));
      } else if (row < 128 && row % 16 >= 8 && path < 16) {
        const uint16_t* key =
            result.buffer.data() +
            LayerProblem::kLayer *
                BufferLayerSize(LayerProblem::kCapacity, 16, shape.kv_heads, shape.head_dim) +
            BufferKeyAt(head, LayerProblem::kPosition, path, LayerProblem::kCapacity, 16,
                        shape.head_dim);
        actual.push_back(FromBf16(key[d]));
        actual.push_back(FromBf16(key[16 * shape.head_dim + d]));
        expected.push_back(static_cast<float>(k));
        expected.push_back(static_cast<float>(v));
      }
    }
    ASSERT_THAT(actual, TensorNear(expected, kRounding));
  }
};

TEST_F(LayerTest, EveryPart) {
  for (LayerPart part :
       {LayerPart::kPreAttention, LayerPart::kPostAttention, LayerPart::kPostThenPreAttention}) {
    SCOPED_TRACE(static_cast<int>(part));
    ExpectAgreesWithReference(kSmallLayer, part);
  }
}

TEST_F(LayerTest, AttentionThatNeedsNoCombining) {
  ExpectAgreesWithReference(kSmallLayer, LayerPart::kPostThenPreAttention, 1,
                            LayerProblem::Attention::kAttended);
}

// The two halves of a row have norms of their own, which are combined.
TEST_F(LayerTest, RowsFarFromZero) {
  for (int width : {96, 128, 200}) {
    SCOPED_TRACE(testing::Message() << "width " << width);
    const ModelShape shape = {
        .width = width, .heads = 8, .kv_heads = 8, .head_dim = 32, .hidden = 256};
    ExpectAgreesWithReference(LayerProblem(shape, /*mean=*/3000, /*apart=*/6),
                              LayerPart::kPostAttention, 7, LayerProblem::Attention::kPartials);
  }
}

TEST_F(LayerTest, ShapesOfOtherModels) {
  const std::vector<ModelShape> shapes = {
      {.width = 32, .heads = 4, .kv_heads = 2, .head_dim = 16, .hidden = 48},
      {.width = 256, .heads = 8, .kv_heads = 8, .head_dim = 32, .hidden = 1024},
      {.width = 264, .heads = 3, .kv_heads = 1, .head_dim = 128, .hidden = 200},
      {.width = 136, .heads = 17, .kv_heads = 1, .head_dim = 16, .hidden = 129},
      {.width = 512, .heads = 8, .kv_heads = 2, .head_dim = 64, .hidden = 64}};
  for (const ModelShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << "width " << shape.width);
    ExpectAgreesWithReference(shape, LayerPart::kPostThenPreAttention, 7);
  }
}

TEST_F(LayerTest, TouchesNothingElse) {
  LayerProblem problem(kSmallLayer);
  const LayerProblem::Result result = problem.Run(LayerPart::kPostThenPreAttention, 8, stream_);
  const int64_t written_context = 2LL * 64 * 4 * 32;  // K and V of 64 rows
  const int64_t written_buffer = 2LL * 16 * 4 * 32;   // of one position of 16 paths
  const auto written = [](const std::vector<uint16_t>& bits) {
    return static_cast<int64_t>(bits.size()) - std::count(bits.begin(), bits.end(), 0xffff);
  };
  EXPECT_EQ(written(result.context), written_context);
  EXPECT_EQ(written(result.buffer), written_buffer);
}

// In all versions of the kernel: rows from Tile::encode_first on are stored, and zeros behind the
// last one, to a context that is laid out for more rows. Nothing else changes.
TEST_F(LayerTest, KeysOfEarlierRowsStay) {
  std::vector<LayerProblem::Form> forms = {LayerProblem::Form::kMma};
  if (properties_.compute_major == kWgmmaComputeMajor) {
    forms.insert(forms.end(), {LayerProblem::Form::kWgmma, LayerProblem::Form::kTile});
  }
  for (const int head_dim : {16, 32, 64, 128}) {
    const int heads = head_dim == 128 ? 1 : 2;
    const ModelShape shape = {
        .width = 32, .heads = heads, .kv_heads = heads, .head_dim = head_dim, .hidden = 200};
    ASSERT_TRUE(HasTileKernel(shape));
    LayerProblem problem(shape);
    for (const LayerProblem::Form form : forms) {
      const auto store = [&](const LayerProblem::Encoding& encoding) {
        problem.SetEncoding(encoding);
        return problem
            .Run(LayerPart::kPreAttention, form == LayerProblem::Form::kTile ? 64 : 16, stream_,
                 form, LayerProblem::Attention::kAttended)
            .context;
      };
      for (const int first : {1, 15, 16, 33, 63}) {
        for (const int rows : {first + 1, 64}) {
          SCOPED_TRACE(testing::Message()
                       << "Dh " << head_dim << ", form " << static_cast<int>(form) << ", rows "
                       << first << " to " << rows);
          constexpr int kContextCapacity = 300;
          const std::vector<uint16_t> all = store({.rows = rows, .capacity = kContextCapacity});
          problem.SetEncoding({.first = first, .rows = rows, .capacity = kContextCapacity});
          std::vector<uint16_t> expected = problem.Context(stream_);
          EXPECT_NE(all, expected);
          for (int head = 0; head < shape.kv_heads; ++head) {
            const int64_t block = ContextKeyBlockAt(LayerProblem::kLayer, head, /*key_block=*/1,
                                                    kContextCapacity, shape.kv_heads, head_dim);
            for (int row = first; row < 64; ++row) {
              for (int d = 0; d < head_dim; ++d) {
                for (const int64_t at : {block + KeyBlockKeyAt(row, d, head_dim),
                                         block + KeyBlockValueAt(row, d, head_dim)}) {
                  expected[at] = all[at];
                  if (row >= rows) ASSERT_EQ(all[at], 0);
                }
              }
            }
          }
          EXPECT_EQ(store({.first = first, .rows = rows, .capacity = kContextCapacity}), expected);
        }
      }
    }
  }
}

// However many rows a block takes, a row's bits are the same.
TEST_F(LayerTest, AnyBlock) {
  for (const ModelShape& shape :
       {kSmallLayer,
        ModelShape{.width = 256, .heads = 8, .kv_heads = 4, .head_dim = 32, .hidden = 300},
        ModelShape{.width = 384, .heads = 12, .kv_heads = 2, .head_dim = 32, .hidden = 256}}) {
    LayerProblem problem(shape);
    const LayerProblem::Result expected =
        problem.Run(LayerPart::kPostThenPreAttention, 16, stream_);
    for (const int block_rows : {8, 32, 64}) {
      if (block_rows == 64 && shape.width > 256) continue;  // more than the shared memory
      SCOPED_TRACE(testing::Message() << block_rows << " rows");
      EXPECT_TRUE(problem.Run(LayerPart::kPostThenPreAttention, block_rows, stream_) == expected);
    }
  }
}

// Nor does wgmma change a bit.
TEST_F(LayerTest, Wgmma) {
  if (properties_.compute_major != kWgmmaComputeMajor) {
    GTEST_SKIP() << "needs compute capability " << kWgmmaComputeMajor << ".0";
  }
  for (const ModelShape& shape :
       {kSmallLayer,
        ModelShape{.width = 256, .heads = 8, .kv_heads = 4, .head_dim = 32, .hidden = 300},
        ModelShape{.width = 384, .heads = 12, .kv_heads = 2, .head_dim = 32, .hidden = 256},
        ModelShape{.width = 32, .heads = 4, .kv_heads = 2, .head_dim = 16, .hidden = 48},
        ModelShape{.width = 512, .heads = 4, .kv_heads = 1, .head_dim = 128, .hidden = 64}}) {
    LayerProblem problem(shape);
    const bool every_part = FullLength() || shape.width == kSmallLayer.width;
    for (LayerPart part :
         {LayerPart::kPreAttention, LayerPart::kPostAttention, LayerPart::kPostThenPreAttention}) {
      if (!every_part && part != LayerPart::kPostThenPreAttention) continue;
      const LayerProblem::Result expected = problem.Run(part, 16, stream_);
      for (const int block_rows : {16, 32, 64}) {
        if (block_rows == 64 && shape.width > 128) continue;  // more than the shared memory
        SCOPED_TRACE(testing::Message() << shape.width << ", " << block_rows << " rows");
        EXPECT_TRUE(problem.Run(part, block_rows, stream_, LayerProblem::Form::kWgmma) == expected);
      }
      if (part == LayerPart::kPreAttention) continue;
      const auto attended = [&](int block_rows, LayerProblem::Form form) {
        return problem.Run(part, block_rows, stream_, form, LayerProblem::Attention::kAttended);
      };
      for (const int block_rows : {16, 64}) {
        if (block_rows == 64 && shape.width > 128) continue;
        EXPECT_TRUE(attended(block_rows, LayerProblem::Form::kWgmma) ==
                    attended(16, LayerProblem::Form::kMma))
            << shape.width << ", " << block_rows << " rows";
      }
    }
  }
}

// Nor does the kernel for whole tiles.
TEST_F(LayerTest, Tile) {
  if (properties_.compute_major != kWgmmaComputeMajor) {
    GTEST_SKIP() << "needs compute capability " << kWgmmaComputeMajor << ".0";
  }
  for (const ModelShape& shape :
       {kSmallLayer,
        ModelShape{.width = 128, .heads = 2, .kv_heads = 1, .head_dim = 64, .hidden = 300},
        ModelShape{.width = 104, .heads = 1, .kv_heads = 1, .head_dim = 128, .hidden = 200},
        ModelShape{.width = 32, .heads = 4, .kv_heads = 2, .head_dim = 16, .hidden = 400}}) {
    ASSERT_TRUE(HasTileKernel(shape));
    LayerProblem problem(shape);
    for (LayerPart part :
         {LayerPart::kPreAttention, LayerPart::kPostAttention, LayerPart::kPostThenPreAttention}) {
      SCOPED_TRACE(testing::Message() << shape.width << ", part " << static_cast<int>(part));
      const auto run = [&](int block_rows, LayerProblem::Form form) {
        return problem.Run(part, block_rows, stream_, form, LayerProblem::Attention::kAttended);
      };
      EXPECT_TRUE(run(64, LayerProblem::Form::kTile) == run(16, LayerProblem::Form::kMma));
    }
  }
}

TEST(ValidateLayerTest, NamesTheField) {
  LayerParams p;
  EXPECT_THAT(std::string(ValidateLayer(p).message()), testing::HasSubstr("tiles is null"));
  Tile tile;
  float x = 0;
  uint16_t bits = 0;
  p = {.tiles = &tile,
       .x = &x,
       .q = &bits,
       .post_attention = {},
       .pre_attention = {&bits, nullptr, nullptr, &x},
       .tile_count = 1,
       .shape = kSmallLayer,
       .epsilon = 1e-5f,
       .part = LayerPart::kPreAttention};
  EXPECT_TRUE(ValidateLayer(p).ok()) << ValidateLayer(p);
  p.part = LayerPart::kPostAttention;
  EXPECT_THAT(std::string(ValidateLayer(p).message()), testing::HasSubstr("partial_o is null"));
  p.part = LayerPart::kPreAttention;
  p.shape.width = 520;
  EXPECT_THAT(std::string(ValidateLayer(p).message()), testing::HasSubstr("shape.width"));
}

constexpr ModelShape kLargestLayer = {
    .width = 512, .heads = 16, .kv_heads = 16, .head_dim = 32, .hidden = 2048};

LayerParams ParamsOf(int tiles, const ModelShape& shape) {
  return {.post_attention = {}, .pre_attention = {}, .tile_count = tiles, .shape = shape};
}

TEST(ChooseBlockRowsTest, TakesMoreRowsWhenThereAreMore) {
  const auto rows = [](int tiles, const ModelShape& shape) {
    return *ChooseBlockRows(ParamsOf(tiles, shape), 132, 227 << 10);
  };
  EXPECT_EQ(rows(2, kSmallLayer), 8);
  EXPECT_EQ(rows(16, kSmallLayer), 16);
  EXPECT_EQ(rows(50, kSmallLayer), 32);
  EXPECT_EQ(rows(128, kSmallLayer), 64);
  EXPECT_EQ(rows(128, kLargestLayer), 16) << "shared memory";
  const uint16_t wgmma_tiles = 0;
  LayerParams few = ParamsOf(2, kSmallLayer);
  few.post_attention.wgmma_tiles = few.pre_attention.wgmma_tiles = &wgmma_tiles;
  EXPECT_EQ(*ChooseBlockRows(few, 132, 227 << 10), 16) << "wgmma";
  few.post_attention.wgmma_column_tiles = few.pre_attention.wgmma_column_tiles = &wgmma_tiles;
  EXPECT_EQ(*ChooseBlockRows(few, 132, 227 << 10), 16);
  few.tile_count = 33;
  EXPECT_EQ(*ChooseBlockRows(few, 132, 227 << 10), 16);
  few.tile_count = 34;
  EXPECT_EQ(*ChooseBlockRows(few, 132, 227 << 10), 32) << "partials";
  few.attended = &wgmma_tiles;
  EXPECT_EQ(*ChooseBlockRows(few, 132, 227 << 10), 64) << "the kernel for whole tiles";
}

TEST(ChooseBlockRowsTest, StaysWithinSharedMemory) {
  for (const ModelShape& shape :
       {kSmallLayer,
        ModelShape{.width = 256, .heads = 4, .kv_heads = 4, .head_dim = 32, .hidden = 1024},
        kLargestLayer}) {
    for (int tiles : {1, 50, 200}) {
      const LayerParams params = ParamsOf(tiles, shape);
      for (int shared_bytes : {163 << 10, 227 << 10}) {
        const absl::StatusOr<int> block_rows = ChooseBlockRows(params, 132, shared_bytes);
        ASSERT_TRUE(block_rows.ok()) << block_rows.status();
        EXPECT_LE(LayerSharedBytes(shape, *block_rows), shared_bytes);
      }
    }
  }
}

TEST(ChooseBlockRowsTest, RefusesWithTheNumbers) {
  const LayerParams params = ParamsOf(1, kSmallLayer);
  const int needed = LayerSharedBytes(kSmallLayer, 8);
  EXPECT_TRUE(ChooseBlockRows(params, 132, needed).ok());
  const absl::Status status = ChooseBlockRows(params, 132, needed - 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(std::to_string(needed)));
}

}  // namespace
}  // namespace chorale::kernels::cuda
