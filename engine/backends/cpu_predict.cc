#include "engine/backends/cpu_predict.h"

#include <algorithm>
#include <utility>

#include "engine/backends/cpu_cost.h"
#include "engine/backends/cpu_forward.h"
#include "engine/require.h"
#include "kernels/layout.h"

namespace chorale {

CpuPredictWork::CpuPredictWork(PredictSpec spec, const float* context_kv)
    : spec_(std::move(spec)),
      context_(*spec_.context, context_kv),
      model_(context_.model()),
      encodings_(EncodingsOf(*spec_.targets)),
      mixtures_(spec_.rows, model_.config().num_components) {
  Require(spec_.first_row >= 0 && spec_.rows >= 1 &&
              spec_.first_row + spec_.rows <= spec_.targets->rows(),
          "the rows to predict are target rows");
}

double CpuPredictWork::next_step_flops() const {
  const double rows = static_cast<double>(std::min(kChunkRows, spec_.rows - rows_done_));
  return rows * PathStepFlops(model_.config(), 1, static_cast<double>(context_.rows()));
}

MixtureSpan CpuPredictWork::mixture(int64_t row) const {
  Require(row < rows_done_, "the row is done");
  return mixtures_.Get(row);
}

int64_t CpuPredictWork::BeginRound(int64_t max_steps, int parallelism) {
  const int64_t left = spec_.rows - rows_done_;
  const int64_t steps = std::min(max_steps, kernels::CeilDiv(left, kChunkRows));
  round_rows_ = std::min(left, steps * kChunkRows);
  return steps;
}

int64_t CpuPredictWork::EndRound() {
  const int64_t steps = kernels::CeilDiv(round_rows_, kChunkRows);
  rows_done_ += round_rows_;
  return steps;
}

void CpuPredictWork::RunTask(int64_t task, CpuScratch& scratch) {
  const int64_t first = rows_done_ + task * kChunkRows;  // counts from spec_.first_row
  const int64_t rows = std::min(kChunkRows, rows_done_ + round_rows_ - first);
  for (int64_t row = 0; row < rows; ++row) {
    scratch.encoding[row] = static_cast<int32_t>(spec_.first_row + first + row);
    scratch.offset[row] = TokenOffset::kTarget;
    scratch.y[row] = 0;
  }
  float* x = scratch.tokens.data();
  EmbedTokens(model_, encodings_, rows, scratch, x);
  for (int64_t l = 0; l < model_.config().n_layers; ++l) {
    const CpuLayer& layer = model_.layers()[l];
    MixFeatures(model_, layer, rows, x, scratch);
    AttendRows(model_, layer, context_.Layer(l), rows, x, scratch);
    FeedForward(model_, layer, rows, x, scratch);
  }
  PredictMixtures(model_, rows, x, scratch);
  for (int64_t row = 0; row < rows; ++row) {
    mixtures_.Set(first + row, MixtureOf(model_, scratch, row));
  }
}

}  // namespace chorale
