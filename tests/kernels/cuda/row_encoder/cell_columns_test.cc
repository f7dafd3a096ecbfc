// Cells that read the points of their columns, against the definition in float64.
#include "kernels/cuda/row_encoder/cell_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/ops/cell_features.h"
#include "tests/kernels/cuda/row_encoder/cell_reference.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {
namespace {

struct Case {
  CellSizes sizes;
  int rows = 0;
  int columns = 0;
  int points = 0;
  float sharpness = 1;
};

class Problem {
 public:
  explicit Problem(const Case& c)
      : case_(c),
        table_(c.rows, c.columns, 1),
        embedding_(c.sizes, kCellFeatures, 2),
        block_(c.sizes, 10, c.sharpness),
        ids_(ToTokens(RandomTensor(c.columns * c.sizes.width, 3), c.sizes.width)),
        gates_(ToTokens(RandomTensor(c.columns * c.sizes.width, 4), c.sizes.width)) {
    for (int f = 0; f < c.columns; ++f) {
      points_.push_back(block_.KeysValues(
          ToTokens(RandomTensor(c.points * c.sizes.width, 100 + f), c.sizes.width)));
    }
  }

  struct Result {
    std::vector<float> cells, gated;
  };

  Result Run(int first, int rows, Stream stream) const {
    const DeviceArray<float> cell(embedding_.Packed()), ids(Padded(ids_)), gates(Padded(gates_));
    const DeviceArray<uint16_t> block(block_.Packed()), points(PackedPoints());
    const DeviceArray<float> cells(rows * CellTiles(case_.columns) * kCellTile);
    const DeviceArray<float> gated(static_cast<size_t>(rows) * kCellWidth);
    ReadColumnsParams params = {.table = table_.OnDevice(),
                                .cell = cell.data(),
                                .column_ids = ids.data(),
                                .gates = gates.data(),
                                .inducing_kv = points.data(),
                                .read_column = block.data(),
                                .cells = cells.data(),
                                .gated = gated.data(),
                                .num_inducing_points = case_.points,
                                .shape = case_.sizes.shape()};
    params.table.values += static_cast<int64_t>(first) * case_.columns;
    params.table.missing += static_cast<int64_t>(first) * case_.columns;
    params.table.rows = rows;
    EXPECT_TRUE(ValidateReadColumns(params).ok()) << ValidateReadColumns(params);
    ExpectSuccess(LaunchReadColumns(params, stream), "launching");
    return {cells.ToHost(stream), gated.ToHost(stream)};
  }

  void ExpectAgrees(const Result& result) const {
    for (int row = 0; row < case_.rows; ++row) {
      Token gated(case_.sizes.width);
      for (int f = 0; f < case_.columns; ++f) {
        const Token cell = embedding_.Embed(table_.Features(row, f, false));
        for (size_t e = 0; e < gated.size(); ++e) gated[e] += gates_[f][e] * cell[e];
        const Token expected = CellSum(block_.Attend(cell, points_[f]), ids_[f]);
        ASSERT_THAT(CellOf(result.cells, row, f, case_.columns, case_.sizes.width),
                    TensorNear(expected, kCellRounding))
            << "row " << row << " column " << f;
      }
      const auto actual = result.gated.begin() + row * kCellWidth;
      ASSERT_THAT(Token(actual, actual + case_.sizes.width),
                  TensorNear(gated, Tolerance{2e-4, 2e-5}))
          << "row " << row;
    }
  }

 private:
  std::vector<uint16_t> PackedPoints() const {
    std::vector<uint16_t> packed(case_.columns * kCellTileKvSize);
    for (int f = 0; f < case_.columns; ++f) {
      std::vector<float> projected;
      for (const Token& token : points_[f]) {
        projected.insert(projected.end(), token.begin(), token.end());
      }
      PackCellTileKv(projected.data(), case_.points, case_.sizes.width, case_.sizes.heads,
                     packed.data() + f * kCellTileKvSize);
    }
    return packed;
  }

  const Case case_;
  const CellTableCase table_;
  const CellEmbeddingCase embedding_;
  const CellBlockReference block_;
  const Tokens ids_, gates_;
  std::vector<Tokens> points_;  // [columns] of K and V
};

class CellColumnsTest : public DeviceTest {};

TEST_F(CellColumnsTest, AgreesWithTheReference) {
  for (const Case& c :
       {Case{{}, 19, 18, 16}, Case{{}, 3, 1, 1}, Case{{}, 5, 2, 7, 8},
        Case{{.width = 16, .heads = 2}, 17, 9, 5}, Case{{.width = 48, .heads = 3}, 2, 3, 16}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.columns << " columns");
    const Problem problem(c);
    problem.ExpectAgrees(problem.Run(0, c.rows, stream_));
  }
}

TEST_F(CellColumnsTest, ARowAloneHasTheSameBits) {
  const Case c = {{}, 18, 3, 16};
  const Problem problem(c);
  const Problem::Result all = problem.Run(0, c.rows, stream_);
  const int row = 17;
  const Problem::Result alone = problem.Run(row, 1, stream_);
  for (int f = 0; f < c.columns; ++f) {
    EXPECT_EQ(CellOf(alone.cells, 0, f, c.columns, kCellWidth),
              CellOf(all.cells, row, f, c.columns, kCellWidth));
  }
  EXPECT_THAT(alone.gated, TensorBitsEqual(std::vector<float>(all.gated.begin() + row * kCellWidth,
                                                              all.gated.end())));
}

TEST(ValidateReadColumnsTest, NamesTheField) {
  const ReadColumnsParams good = {.table = {.values = reinterpret_cast<float*>(1),
                                            .categorical = reinterpret_cast<uint8_t*>(1),
                                            .rows = 1,
                                            .columns = 1},
                                  .cell = reinterpret_cast<float*>(1),
                                  .column_ids = reinterpret_cast<float*>(1),
                                  .gates = reinterpret_cast<float*>(1),
                                  .inducing_kv = reinterpret_cast<uint16_t*>(1),
                                  .read_column = reinterpret_cast<uint16_t*>(1),
                                  .cells = reinterpret_cast<float*>(1),
                                  .gated = reinterpret_cast<float*>(1),
                                  .num_inducing_points = 16,
                                  .shape = {.width = 64, .score_scale = 1}};
  ASSERT_TRUE(ValidateReadColumns(good).ok()) << ValidateReadColumns(good);
  const auto message = [&](auto change) {
    ReadColumnsParams params = good;
    change(params);
    return std::string(ValidateReadColumns(params).message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& p) { p.gates = nullptr; }), HasSubstr("gates"));
  EXPECT_THAT(message([](auto& p) { p.table.values = nullptr; }), HasSubstr("values"));
  EXPECT_THAT(message([](auto& p) { p.table.rows = 0; }), HasSubstr("rows"));
  EXPECT_THAT(message([](auto& p) { p.table.columns = 257; }), HasSubstr("columns is 257"));
  EXPECT_THAT(message([](auto& p) { p.num_inducing_points = 17; }),
              HasSubstr("num_inducing_points"));
  EXPECT_THAT(message([](auto& p) { p.shape.width = 72; }), HasSubstr("width is 72"));
  EXPECT_THAT(message([](auto& p) { p.shape.epsilon = -1; }), HasSubstr("epsilon"));
  EXPECT_THAT(message([](auto& p) { p.shape.score_scale = 0; }), HasSubstr("score_scale"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
