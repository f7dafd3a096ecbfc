// Rows pooled from their cells, against the definition in float64.
#include "kernels/cuda/row_encoder/cell_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/cuda/row_encoder/cell_reference.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {
namespace {

struct Case {
  CellSizes sizes;
  int rows = 0;
  int columns = 0;
  int tokens = 0;
  int encoding = 0;  // D
};

class Problem {
 public:
  explicit Problem(const Case& c)
      : case_(c),
        block_(c.sizes, 5),
        pooled_(ToTokens(RandomTensor(c.tokens * c.sizes.width, 6), c.sizes.width)),
        out_(RandomCellMatrix(c.encoding, c.tokens * c.sizes.width, 7)),
        direct_(RandomCellMatrix(c.encoding, c.sizes.width, 8)),
        out_gamma_(RandomTensor(c.sizes.width, 9)),
        out_beta_(RandomTensor(c.sizes.width, 10)),
        bias_(RandomTensor(c.encoding, 11)),
        gamma_(RandomTensor(c.encoding, 12)),
        beta_(RandomTensor(c.encoding, 13)) {
    for (int row = 0; row < c.rows; ++row) {
      rows_.push_back(ToTokens(RandomTensor(c.columns * c.sizes.width, 50 + row), c.sizes.width));
      gated_.push_back(ToTokens(RandomTensor(c.sizes.width, 500 + row, 4), c.sizes.width).front());
    }
  }

  std::vector<float> Run(int first, int rows, Stream stream) const {
    const auto part = [&](const auto& all) {
      return std::vector(all.begin() + first, all.begin() + first + rows);
    };
    const DeviceArray<float> cells(TiledCells(part(rows_))), gated(Padded(part(gated_)));
    const DeviceArray<float> pooled(Padded(pooled_)), bias(bias_), gamma(gamma_), beta(beta_);
    const DeviceArray<float> out_gamma(PadTokens(out_gamma_, case_.sizes.width));
    const DeviceArray<float> out_beta(PadTokens(out_beta_, case_.sizes.width));
    const DeviceArray<uint16_t> block(block_.Packed()), out(PackedOut());
    const DeviceArray<float> encodings(static_cast<size_t>(rows) * case_.encoding);
    const PoolCellsParams params = {.cells = cells.data(),
                                    .gated = gated.data(),
                                    .seed_tokens = pooled.data(),
                                    .pool = block.data(),
                                    .out_gamma = out_gamma.data(),
                                    .out_beta = out_beta.data(),
                                    .out = out.data(),
                                    .out_bias = bias.data(),
                                    .gamma = gamma.data(),
                                    .beta = beta.data(),
                                    .encodings = encodings.data(),
                                    .rows = rows,
                                    .columns = case_.columns,
                                    .num_seed_tokens = case_.tokens,
                                    .width = case_.encoding,
                                    .shape = case_.sizes.shape()};
    EXPECT_TRUE(ValidatePoolCells(params).ok()) << ValidatePoolCells(params);
    ExpectSuccess(LaunchPoolCells(params, stream), "launching");
    return encodings.ToHost(stream);
  }

  Token Expected(int row) const {
    const Tokens keys_values = block_.KeysValues(rows_[row]);
    Token flat;
    for (const Token& token : pooled_) {
      const Token z = CellNorm(block_.Attend(token, keys_values), out_gamma_, out_beta_);
      flat.insert(flat.end(), z.begin(), z.end());
    }
    const Token sum =
        CellSum(CellProduct(out_, RoundedToBf16(flat)), CellProduct(direct_, gated_[row]));
    return CellNorm(CellSum(sum, Token(bias_.begin(), bias_.end())), gamma_, beta_);
  }

 private:
  std::vector<uint16_t> PackedOut() const {
    Matrix all = {{}, case_.encoding, PoolInputs(case_.tokens)};
    all.values.resize(all.out * all.in);
    const int e = case_.sizes.width;
    for (int d = 0; d < case_.encoding; ++d) {
      for (int part = 0; part < case_.tokens + 2; ++part) {
        const float* from = part < case_.tokens ? &out_.values[(d * case_.tokens + part) * e]
                                                : &direct_.values[d * e];
        std::copy_n(from, e, &all.values[d * all.in + part * kCellWidth]);
      }
    }
    return PackCellMatrix(all, all.out, all.in);
  }

  const Case case_;
  const CellBlockReference block_;
  const Tokens pooled_;
  const Matrix out_, direct_;
  const std::vector<float> out_gamma_, out_beta_, bias_, gamma_, beta_;
  std::vector<Tokens> rows_;
  Tokens gated_;
};

class CellPoolTest : public DeviceTest {};

TEST_F(CellPoolTest, AgreesWithTheReference) {
  for (const Case& c : {Case{{}, 18, 20, 4, 128}, Case{{}, 3, 1, 1, 40}, Case{{}, 6, 33, 16, 64},
                        Case{{.width = 16, .heads = 2}, 17, 6, 3, 64}}) {
    SCOPED_TRACE(testing::Message() << c.tokens << " tokens of " << c.columns << " columns");
    const Problem problem(c);
    const std::vector<float> encodings = problem.Run(0, c.rows, stream_);
    for (int row = 0; row < c.rows; ++row) {
      const auto actual = encodings.begin() + row * c.encoding;
      ASSERT_THAT(Token(actual, actual + c.encoding),
                  TensorNear(problem.Expected(row), kCellRounding))
          << "row " << row;
    }
  }
}

TEST_F(CellPoolTest, ARowAloneHasTheSameBits) {
  const Case c = {{}, 18, 5, 3, 64};
  const Problem problem(c);
  const std::vector<float> all = problem.Run(0, c.rows, stream_);
  for (int row : {4, 17}) {
    const auto expected = all.begin() + row * c.encoding;
    EXPECT_THAT(problem.Run(row, 1, stream_),
                TensorBitsEqual(std::vector<float>(expected, expected + c.encoding)));
  }
}

TEST(ValidatePoolCellsTest, NamesTheField) {
  auto* const some = reinterpret_cast<float*>(1);
  auto* const words = reinterpret_cast<uint16_t*>(1);
  const PoolCellsParams good = {.cells = some,
                                .gated = some,
                                .seed_tokens = some,
                                .pool = words,
                                .out_gamma = some,
                                .out_beta = some,
                                .out = words,
                                .out_bias = some,
                                .gamma = some,
                                .beta = some,
                                .encodings = some,
                                .rows = 1,
                                .columns = 1,
                                .num_seed_tokens = 16,
                                .width = 512,
                                .shape = {.width = 64, .score_scale = 1}};
  ASSERT_TRUE(ValidatePoolCells(good).ok()) << ValidatePoolCells(good);
  const auto message = [&](auto change) {
    PoolCellsParams params = good;
    change(params);
    return std::string(ValidatePoolCells(params).message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& p) { p.out = nullptr; }), HasSubstr("out"));
  EXPECT_THAT(message([](auto& p) { p.rows = 0; }), HasSubstr("rows"));
  EXPECT_THAT(message([](auto& p) { p.columns = 257; }), HasSubstr("columns"));
  EXPECT_THAT(message([](auto& p) { p.num_seed_tokens = 17; }), HasSubstr("num_seed_tokens is 17"));
  EXPECT_THAT(message([](auto& p) { p.width = 520; }), HasSubstr("width is 520"));
  EXPECT_THAT(message([](auto& p) { p.width = 12; }), HasSubstr("width is 12"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
