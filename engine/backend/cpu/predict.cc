#include "engine/backend/cpu/predict.h"

#include <utility>

#include "base/require.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/flop_model.h"

namespace chorale::cpu {

PredictWork::PredictWork(PredictSpec spec, const float* context_kv)
    : spec_(std::move(spec)),
      context_(*spec_.context, context_kv),
      model_(context_.model()),
      encodings_(EncodingsOf(*spec_.query_rows)),
      tokens_(spec_.rows * model_.config().d_model),
      schedule_(PredictLayerFlops(model_.config(), context_.keys()), spec_.rows,
                ChunkRowsFor(context_.keys())),
      mixtures_(spec_.rows, model_.config().num_components) {
  Require(spec_.first_row >= 0 && spec_.rows >= 1 &&
              spec_.first_row + spec_.rows <= spec_.query_rows->rows(),
          "the rows to predict are query rows");
}

MixtureSpan PredictWork::mixture(int64_t row) const {
  Require(done(), "the rows are done");
  return mixtures_.Get(row);
}

int64_t PredictWork::BeginBatch(int64_t max_steps, int parallelism) {
  return schedule_.BeginBatch(max_steps);
}

int64_t PredictWork::EndBatch() { return schedule_.EndBatch(); }

void PredictWork::RunTask(int64_t task, Scratch& scratch) {
  const int64_t l = schedule_.phase();
  const RowRange range = schedule_.RowsOf(task);
  const PackedLayer& layer = model_.layers()[l];
  float* x = tokens_.data() + range.first * model_.config().d_model;
  if (l == 0) Embed(range, x, scratch);
  MixFeatures(model_, layer, range.rows, x, scratch);
  AttendRows(model_, layer, context_.Layer(l), range.rows, x, scratch);
  FeedForward(model_, layer, range.rows, x, scratch);
  if (l < last_layer()) return;
  PredictMixtures(model_, range.rows, x, scratch);
  for (int64_t i = 0; i < range.rows; ++i) {
    mixtures_.Set(range.first + i, MixtureOf(model_, scratch, i));
  }
}

void PredictWork::Embed(RowRange rows, float* x, Scratch& scratch) const {
  for (int64_t i = 0; i < rows.rows; ++i) {
    scratch.encoding[i] = static_cast<int32_t>(spec_.first_row + rows.first + i);
    scratch.offset[i] = TokenOffset::kQueryRow;
    scratch.y[i] = 0;
  }
  EmbedTokens(model_, encodings_, rows.rows, scratch, x);
}

}  // namespace chorale::cpu
