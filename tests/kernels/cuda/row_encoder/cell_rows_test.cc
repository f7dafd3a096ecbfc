// Cells that attend to the cells of their row, against the definition in float64.
#include "kernels/cuda/row_encoder/cell_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/cuda/row_encoder/cell_reference.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {
namespace {

std::vector<Tokens> RandomRows(int rows, int columns, int width) {
  std::vector<Tokens> all;
  for (int row = 0; row < rows; ++row) {
    all.push_back(ToTokens(RandomTensor(columns * width, 50 + row), width));
  }
  return all;
}

class CellRowsTest : public DeviceTest {
 protected:
  std::vector<float> Run(const CellSizes& sizes, const CellBlockReference& block,
                         const std::vector<Tokens>& rows) const {
    const DeviceArray<float> cells(TiledCells(rows));
    const DeviceArray<uint16_t> layer(block.Packed());
    const MixRowsParams params = {.cells = cells.data(),
                                  .layer = layer.data(),
                                  .rows = static_cast<int32_t>(rows.size()),
                                  .columns = static_cast<int32_t>(rows.front().size()),
                                  .shape = sizes.shape()};
    EXPECT_TRUE(ValidateMixRows(params).ok()) << ValidateMixRows(params);
    ExpectSuccess(LaunchMixRows(params, stream_), "launching");
    return cells.ToHost(stream_);
  }
};

struct Case {
  CellSizes sizes;
  int rows = 0;
  int columns = 0;
  float sharpness = 1;
};

TEST_F(CellRowsTest, AgreesWithTheReference) {
  // One cell; rows in several blocks; whole tiles; more tiles in a row than warps; sharp scores.
  for (const Case& c : {Case{{}, 1, 1}, Case{{}, 9, 17}, Case{{}, 2, 32}, Case{{}, 2, 140},
                        Case{{}, 3, 20, 8}, Case{{.width = 24, .heads = 3}, 10, 6}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.columns << " columns");
    const CellBlockReference block(c.sizes, 5, c.sharpness);
    const std::vector<Tokens> rows = RandomRows(c.rows, c.columns, c.sizes.width);
    const std::vector<float> cells = Run(c.sizes, block, rows);
    for (int row = 0; row < c.rows; ++row) {
      const Tokens keys_values = block.KeysValues(rows[row]);
      for (int f = 0; f < c.columns; ++f) {
        ASSERT_THAT(CellOf(cells, row, f, c.columns, c.sizes.width),
                    TensorNear(block.Attend(rows[row][f], keys_values), kCellRounding))
            << "row " << row << " column " << f;
      }
    }
  }
}

TEST_F(CellRowsTest, ARowAloneHasTheSameBits) {
  const CellBlockReference block({}, 5);
  const std::vector<Tokens> rows = RandomRows(6, 18, kCellWidth);
  const std::vector<float> all = Run({}, block, rows);
  const std::vector<float> alone = Run({}, block, {rows[5]});
  for (int f = 0; f < 18; ++f) {
    EXPECT_EQ(CellOf(alone, 0, f, 18, kCellWidth), CellOf(all, 5, f, 18, kCellWidth));
  }
}

TEST(ValidateMixRowsTest, NamesTheField) {
  const MixRowsParams good = {.cells = reinterpret_cast<float*>(1),
                              .layer = reinterpret_cast<uint16_t*>(1),
                              .rows = 1,
                              .columns = 256,
                              .shape = {.width = 64, .score_scale = 1}};
  ASSERT_TRUE(ValidateMixRows(good).ok()) << ValidateMixRows(good);
  const auto message = [&](auto change) {
    MixRowsParams params = good;
    change(params);
    return std::string(ValidateMixRows(params).message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& p) { p.layer = nullptr; }), HasSubstr("layer"));
  EXPECT_THAT(message([](auto& p) { p.rows = 0; }), HasSubstr("rows"));
  EXPECT_THAT(message([](auto& p) { p.columns = 0; }), HasSubstr("columns"));
  EXPECT_THAT(message([](auto& p) { p.shape.width = 12; }), HasSubstr("width is 12"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
