// Points that read the columns of a context, against the definition in float64.
#include "kernels/cuda/row_encoder/cell_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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
        embedding_(c.sizes, kCellFeatures + kNumberFeatures, 2),
        block_(c.sizes, 10, c.sharpness),
        points_(ToTokens(RandomTensor(c.points * c.sizes.width, 3), c.sizes.width)) {}

  // Of rows [first, first + rows).
  std::vector<float> Run(int first, int rows, Stream stream) const {
    const DeviceArray<float> cell(embedding_.Packed()), points(Padded(points_));
    const DeviceArray<uint16_t> block(block_.Packed());
    const DeviceArray<float> summaries(SummaryChunks(rows) * case_.columns * kSummarySize);
    SummariseColumnsParams params = {.table = table_.OnDevice(true),
                                     .cell = cell.data(),
                                     .inducing_points = points.data(),
                                     .summarise = block.data(),
                                     .summaries = summaries.data(),
                                     .num_inducing_points = case_.points,
                                     .shape = case_.sizes.shape()};
    params.table.values += static_cast<int64_t>(first) * case_.columns;
    params.table.missing += static_cast<int64_t>(first) * case_.columns;
    params.table.y += first;
    params.table.rows = rows;
    EXPECT_TRUE(ValidateSummariseColumns(params).ok()) << ValidateSummariseColumns(params);
    ExpectSuccess(LaunchSummariseColumns(params, stream), "launching");
    return summaries.ToHost(stream);
  }

  // The attention of a point, combined over all chunks.
  Token Combined(const std::vector<float>& summaries, int column, int point) const {
    const int head_width = case_.sizes.width / case_.sizes.heads;
    Token combined;
    for (int e = 0; e < case_.sizes.width; ++e) {
      const int head = e / head_width;
      double l = 0;
      double o = 0;
      for (int64_t chunk = 0; chunk < SummaryChunks(case_.rows); ++chunk) {
        const float* s = summaries.data() + (chunk * case_.columns + column) * kSummarySize;
        const double scale = std::exp2(s[kSummaryM + head * kCellTileTokens + point]);
        l += scale * s[kSummaryL + head * kCellTileTokens + point];
        o += scale * s[point * kCellWidth + head * kCellHeadWidth + e % head_width];
      }
      combined.push_back(o / l);
    }
    return combined;
  }

  void ExpectAgrees(const std::vector<float>& summaries) const {
    for (int f = 0; f < case_.columns; ++f) {
      Tokens cells;
      for (int row = 0; row < case_.rows; ++row) {
        cells.push_back(embedding_.Embed(table_.Features(row, f, true)));
      }
      const Tokens keys_values = block_.KeysValues(cells);
      for (int point = 0; point < case_.points; ++point) {
        ASSERT_THAT(Combined(summaries, f, point),
                    TensorNear(block_.Attended(points_[point], keys_values), kCellRounding))
            << "column " << f << " point " << point;
      }
    }
  }

 private:
  const Case case_;
  const CellTableCase table_;
  const CellEmbeddingCase embedding_;
  const CellBlockReference block_;
  const Tokens points_;
};

class CellSummaryTest : public DeviceTest {};

TEST_F(CellSummaryTest, AgreesWithTheReference) {
  // Warps without rows; one cell; two chunks; sharp scores; narrow tokens.
  for (const Case& c : {Case{{}, 60, 3, 16}, Case{{}, 1, 1, 1}, Case{{}, kSummaryRows + 9, 1, 16},
                        Case{{}, 150, 2, 7, 8}, Case{{.width = 16, .heads = 2}, 300, 2, 5}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.columns << " columns");
    const Problem problem(c);
    problem.ExpectAgrees(problem.Run(0, c.rows, stream_));
  }
}

TEST_F(CellSummaryTest, AChunkAloneHasTheSameBits) {
  const Case c = {{}, kSummaryRows + 40, 1, 4};
  const Problem problem(c);
  const std::vector<float> all = problem.Run(0, c.rows, stream_);
  EXPECT_THAT(problem.Run(kSummaryRows, 40, stream_),
              TensorBitsEqual(std::vector<float>(all.begin() + kSummarySize, all.end())));
}

TEST(ValidateSummariseColumnsTest, NamesTheField) {
  auto* const some = reinterpret_cast<float*>(1);
  const SummariseColumnsParams good = {.table = {.values = some,
                                                 .categorical = reinterpret_cast<uint8_t*>(1),
                                                 .y = some,
                                                 .rows = 1,
                                                 .columns = 1},
                                       .cell = some,
                                       .inducing_points = some,
                                       .summarise = reinterpret_cast<uint16_t*>(1),
                                       .summaries = some,
                                       .num_inducing_points = 1,
                                       .shape = {.width = 64, .score_scale = 1}};
  ASSERT_TRUE(ValidateSummariseColumns(good).ok()) << ValidateSummariseColumns(good);
  const auto message = [&](auto change) {
    SummariseColumnsParams params = good;
    change(params);
    return std::string(ValidateSummariseColumns(params).message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& p) { p.table.y = nullptr; }), HasSubstr("y"));
  EXPECT_THAT(message([](auto& p) { p.summaries = nullptr; }), HasSubstr("summaries"));
  EXPECT_THAT(message([](auto& p) { p.num_inducing_points = 0; }),
              HasSubstr("num_inducing_points"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
