// The row encoder "cell_attention" (engine/backend/row_encoder/cell_attention.cc) on the GPU.
//
// The GPU does what grows with the rows. The little that is made of each column in between (the
// points' own feed-forward layer, the columns' look at each other) is done by the host in float32.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/integer_math.h"
#include "base/status_macros.h"
#include "engine/backend/cuda/row_encoder/cell_model.h"
#include "engine/backend/cuda/row_encoder/row_encoder.h"
#include "engine/backend/row_encoder/encoder_block.h"
#include "kernels/cuda/row_encoder/cell_columns.h"
#include "kernels/cuda/row_encoder/cell_pool.h"
#include "kernels/cuda/row_encoder/cell_rows.h"
#include "kernels/cuda/row_encoder/cell_summary.h"
#include "kernels/ops/cell_features.h"

namespace chorale::cuda {
namespace {

namespace cuda = kernels::cuda;

// Rows of one task of a fit on the GPU: enough to fill it. Columns of one on the host.
constexpr int64_t kFitRows = int64_t{4} * cuda::kSummaryRows;
constexpr int64_t kFitColumns = 16;

// Of an array in a launch's memory.
int64_t ArrayBytes(int64_t bytes) { return RoundUp(bytes, 256); }

// Arrays of a launch, one behind the other in its memory.
class LaunchArrays {
 public:
  explicit LaunchArrays(const LaunchWorkspace& launch) : launch_(launch) {}

  // Not written yet.
  template <typename T>
  T* Take(int64_t n) {
    T* const array = reinterpret_cast<T*>(launch_.memory + taken_);
    taken_ += ArrayBytes(n * static_cast<int64_t>(sizeof(T)));
    return array;
  }
  template <typename T>
  const T* Upload(const T* values, int64_t n) {
    T* const array = Take<T>(n);
    launch_.device.Upload(array, values, n * static_cast<int64_t>(sizeof(T)));
    return array;
  }

 private:
  const LaunchWorkspace& launch_;
  int64_t taken_ = 0;
};

// Rows [first, first + rows). Null: without y.
cuda::CellTable UploadTable(const FeatureMatrix& features, const float* y, int64_t first,
                            int64_t rows, LaunchArrays& arrays) {
  const int64_t columns = features.features;
  const std::vector<uint8_t> numeric(columns);
  cuda::CellTable table = {.rows = static_cast<int32_t>(rows),
                           .columns = static_cast<int32_t>(columns)};
  table.values = arrays.Upload(features.x.data() + first * columns, rows * columns);
  if (!features.missing.empty()) {
    table.missing = arrays.Upload(features.missing.data() + first * columns, rows * columns);
  }
  const std::vector<uint8_t>& types = features.categorical;
  table.categorical = arrays.Upload(types.empty() ? numeric.data() : types.data(), columns);
  if (y != nullptr) table.y = arrays.Upload(y + first, rows);
  return table;
}

// At most, with y.
int64_t TableBytes(int64_t rows, int64_t columns) {
  return ArrayBytes(rows * columns * 4) + ArrayBytes(rows * columns) + ArrayBytes(columns) +
         ArrayBytes(rows * 4);
}

int64_t SummaryBytes(int64_t columns) { return columns * cuda::kSummarySize * 4; }
int64_t StateBytes(int64_t columns) {
  return ArrayBytes(columns * cuda::kCellTileKvSize * 2) +
         ArrayBytes(columns * cuda::kCellWidth * 4);
}
// What the kernels leave of a row for each other.
int64_t RowBytes(int64_t columns) {
  return (cuda::CellTiles(columns) * cuda::kCellTile + cuda::kCellWidth) * 4;
}

// Rows that fit in so much memory, in whole tiles.
int64_t RowsInMemory(int64_t bytes, int64_t columns) {
  const int64_t of_row = RowBytes(columns) + columns * 5 + 4;
  const int64_t fixed = StateBytes(columns) + TableBytes(0, columns) + 4 * ArrayBytes(1);
  return (bytes - fixed) / of_row / cuda::kCellTileTokens * cuda::kCellTileTokens;
}

// First the GPU summarises the columns, kFitRows rows a task; then the host finishes their points,
// kFitColumns columns a task.
class CellFit : public DeviceRowEncoderFit {
 public:
  CellFit(const CellModel& model, const FeatureMatrix& context, absl::Span<const float> y)
      : model_(model),
        context_(context),
        y_(y),
        gpu_tasks_(CeilDiv(context.rows, kFitRows)),
        summaries_(cuda::SummaryChunks(context.rows) * context.features * cuda::kSummarySize) {}

  int64_t tasks() const override { return gpu_tasks_ + CeilDiv(context_.features, kFitColumns); }

  double task_flops() const override {
    const auto cells = static_cast<double>(std::min(kFitRows, context_.rows) * context_.features);
    const auto inputs = static_cast<double>(kernels::kCellFeatures + kernels::kNumberFeatures +
                                            2 * model_.width + 2 * model_.inducing_points);
    return cells * 2 * inputs * static_cast<double>(model_.width);
  }

  void RunTask(int64_t task, const LaunchWorkspace& launch) override {
    if (task < gpu_tasks_) {
      const int64_t first = task * kFitRows;
      SummariseRows(first, std::min(first + kFitRows, context_.rows), launch);
      return;
    }
    if (task == gpu_tasks_) launch.device.Wait();
    if (!launch.device.status().ok()) return;
    const int64_t first = (task - gpu_tasks_) * kFitColumns;
    FinishPoints(first, std::min(kFitColumns, context_.features - first));
  }

  std::shared_ptr<const RowEncoderState> Finish() override {
    return model_.MakeState(model_.mixer.Mix(std::move(points_)));
  }

 private:
  void SummariseRows(int64_t first, int64_t end, const LaunchWorkspace& launch) {
    const int64_t columns = context_.features;
    const int64_t of_chunk = TableBytes(cuda::kSummaryRows, columns) + SummaryBytes(columns);
    const int64_t most = launch.bytes / of_chunk * cuda::kSummaryRows;
    for (; first < end; first += most) Summarise(first, std::min(most, end - first), launch);
  }

  void Summarise(int64_t first, int64_t rows, const LaunchWorkspace& launch) {
    const int64_t size = cuda::SummaryChunks(rows) * context_.features * cuda::kSummarySize;
    LaunchArrays arrays(launch);
    cuda::SummariseColumnsParams params = {
        .table = UploadTable(context_, y_.data(), first, rows, arrays),
        .cell = model_.cell_and_target,
        .inducing_points = model_.points,
        .summarise = model_.summarise,
        .summaries = arrays.Take<float>(size),
        .num_inducing_points = static_cast<int32_t>(model_.inducing_points),
        .shape = model_.shape};
    assert(cuda::ValidateSummariseColumns(params).ok());
    if (!launch.device.status().ok()) return;
    launch.device.Check(cuda::LaunchSummariseColumns(params, launch.device.stream()),
                        "summarising columns");
    float* const summaries =
        summaries_.data() + first / cuda::kSummaryRows * context_.features * cuda::kSummarySize;
    launch.device.Download(summaries, params.summaries, size * static_cast<int64_t>(sizeof(float)));
  }

  void FinishPoints(int64_t first, int64_t columns) {
    std::vector<float> attended, points;
    for (int64_t f = first; f < first + columns; ++f) {
      for (int64_t i = 0; i < model_.inducing_points; ++i) {
        for (int64_t head = 0; head < model_.heads; ++head) MergeHead(f, i, head, attended);
      }
      points.insert(points.end(), model_.inducing_point_tokens.begin(),
                    model_.inducing_point_tokens.end());
    }
    EncoderBlock::Scratch scratch;
    model_.finish_points.Finish(columns * model_.inducing_points, attended.data(), points.data(),
                                scratch);
    points_.insert(points_.end(), points.begin(), points.end());
  }

  // Appends what a point attended to in one head, from the states of the chunks in their order.
  void MergeHead(int64_t column, int64_t point, int64_t head, std::vector<float>& attended) const {
    const int64_t head_width = model_.width / model_.heads;
    const int64_t state = head * cuda::kCellTileTokens + point;
    const int64_t o_at = point * cuda::kCellWidth + head * cuda::kCellHeadWidth;
    const auto stride = static_cast<size_t>(context_.features * cuda::kSummarySize);
    const auto begin = static_cast<size_t>(column * cuda::kSummarySize);
    float m = summaries_[begin + cuda::kSummaryM + state];
    for (size_t at = begin; at < summaries_.size(); at += stride) {
      m = std::max(m, summaries_[at + cuda::kSummaryM + state]);
    }
    double l = 0;
    double o[cuda::kCellHeadWidth] = {};
    for (size_t at = begin; at < summaries_.size(); at += stride) {
      const float* const chunk = summaries_.data() + at;
      const double scale = std::exp2(static_cast<double>(chunk[cuda::kSummaryM + state]) - m);
      l += scale * chunk[cuda::kSummaryL + state];
      for (int64_t d = 0; d < head_width; ++d) o[d] += scale * chunk[o_at + d];
    }
    for (int64_t d = 0; d < head_width; ++d) attended.push_back(static_cast<float>(o[d] / l));
  }

  const CellModel& model_;
  const FeatureMatrix& context_;
  const absl::Span<const float> y_;
  const int64_t gpu_tasks_;
  std::vector<float> summaries_;  // [SummaryChunks(rows), F, kSummarySize]
  std::vector<float> points_;     // [columns finished, I, E]
};

class CellAttentionEncoder : public DeviceRowEncoder {
 public:
  CellAttentionEncoder(const CellAttentionWeights& weights, const ModelConfig& config,
                       WeightBlob& blob)
      : model_(weights, config, blob) {}

  std::unique_ptr<DeviceRowEncoderFit> NewFit(const FeatureMatrix& context,
                                              absl::Span<const float> y) const override {
    return std::make_unique<CellFit>(model_, context, y);
  }

  void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
              int64_t rows, float* out, const LaunchWorkspace& launch) const override {
    const auto& columns = static_cast<const CellState&>(state);
    const int64_t most = RowsInMemory(launch.bytes, features.features);
    for (int64_t done = 0; done < rows; done += most) {
      EncodePart(columns, features, first + done, std::min(most, rows - done),
                 out + done * model_.encoding, launch);
    }
  }

  double EncodeFlops(int64_t rows, int64_t features) const override {
    const auto f = static_cast<double>(features);
    const auto e = static_cast<double>(model_.width);
    const auto tokens = static_cast<double>(model_.seed_tokens);
    // Of a token in a block, without its keys and values; and those.
    const auto attend = [&](double keys) { return 12 * e * e + 4 * keys * e; };
    const double key_value = 4 * e * e;
    const double cell =
        2 * kernels::kCellFeatures * e + attend(static_cast<double>(model_.inducing_points)) +
        static_cast<double>(model_.row_layers.size()) * (key_value + attend(f)) + key_value;
    const double end =
        tokens * attend(f) + 2 * (tokens + 1) * e * static_cast<double>(model_.encoding);
    return static_cast<double>(rows) * (f * cell + end);
  }

  int64_t memory_bytes() const override {
    const int64_t f = model_.max_features;
    const int64_t fit = TableBytes(cuda::kSummaryRows, f) + SummaryBytes(f);
    const int64_t encode = StateBytes(f) + TableBytes(cuda::kCellTileTokens, f) +
                           cuda::kCellTileTokens * RowBytes(f) + 2048;
    return std::max(fit, encode);
  }

  int shared_bytes() const override {
    const cuda::PoolCellsParams pool = {.num_seed_tokens = static_cast<int32_t>(model_.seed_tokens),
                                        .width = static_cast<int32_t>(model_.encoding),
                                        .shape = {}};
    return std::max({cuda::SummariseColumnsSharedBytes(), cuda::ReadColumnsSharedBytes(),
                     cuda::MixRowsSharedBytes(static_cast<int>(model_.max_features)),
                     cuda::PoolCellsSharedBytes(pool)});
  }

 private:
  void EncodePart(const CellState& state, const FeatureMatrix& features, int64_t first,
                  int64_t rows, float* out, const LaunchWorkspace& launch) const {
    LaunchArrays arrays(launch);
    const auto points = static_cast<int64_t>(state.points.size());
    const auto gates = static_cast<int64_t>(state.gates.size());
    const cuda::ReadColumnsParams read = {
        .table = UploadTable(features, nullptr, first, rows, arrays),
        .cell = model_.cell,
        .column_ids = model_.column_ids,
        .gates = arrays.Upload(state.gates.data(), gates),
        .inducing_kv = arrays.Upload(state.points.data(), points),
        .read_column = model_.read_column,
        .cells = arrays.Take<float>(rows * cuda::CellTiles(features.features) * cuda::kCellTile),
        .gated = arrays.Take<float>(rows * cuda::kCellWidth),
        .num_inducing_points = static_cast<int32_t>(model_.inducing_points),
        .shape = model_.shape};
    assert(cuda::ValidateReadColumns(read).ok());
    if (!launch.device.status().ok()) return;
    launch.device.Check(cuda::LaunchReadColumns(read, launch.device.stream()), "reading columns");
    for (const uint16_t* layer : model_.row_layers) {
      const cuda::MixRowsParams mix = {.cells = read.cells,
                                       .layer = layer,
                                       .rows = read.table.rows,
                                       .columns = read.table.columns,
                                       .shape = model_.shape};
      assert(cuda::ValidateMixRows(mix).ok());
      launch.device.Check(cuda::LaunchMixRows(mix, launch.device.stream()),
                          "mixing the cells of rows");
    }
    Pool(read, out, launch);
  }

  void Pool(const cuda::ReadColumnsParams& read, float* out, const LaunchWorkspace& launch) const {
    const cuda::PoolCellsParams params = {
        .cells = read.cells,
        .gated = read.gated,
        .seed_tokens = model_.pooled,
        .pool = model_.pool,
        .out_gamma = model_.out_gamma,
        .out_beta = model_.out_beta,
        .out = model_.out,
        .out_bias = model_.out_bias,
        .gamma = model_.gamma,
        .beta = model_.beta,
        .encodings = out,
        .rows = read.table.rows,
        .columns = read.table.columns,
        .num_seed_tokens = static_cast<int32_t>(model_.seed_tokens),
        .width = static_cast<int32_t>(model_.encoding),
        .shape = model_.shape};
    assert(cuda::ValidatePoolCells(params).ok());
    launch.device.Check(cuda::LaunchPoolCells(params, launch.device.stream()), "pooling cells");
  }

  CellModel model_;  // its pointers are set when the weights are on the GPU
};

}  // namespace

absl::StatusOr<std::unique_ptr<const DeviceRowEncoder>> MakeDeviceCellAttentionEncoder(
    const CellAttentionWeights& weights, const ModelConfig& config, WeightBlob& blob) {
  RETURN_IF_ERROR(CheckCellConfig(config));
  return std::make_unique<CellAttentionEncoder>(weights, config, blob);
}

}  // namespace chorale::cuda
