// The row encoder "cell_attention" (engine/backend/row_encoder/cell_attention.cc) on the GPU.
//
// The GPU does the work that grows with the rows. The host does the small part per column in
// float32: the feed-forward layer of the inducing points, and the attention between columns.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/arena_layout.h"
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

namespace kernel = kernels::cuda;

// A fit task on the GPU processes kFitRows rows, which are enough to fill it. A fit task on the
// host processes kFitColumns columns.
constexpr int64_t kFitRows = int64_t{4} * kernel::kSummaryRows;
constexpr int64_t kFitColumns = 16;

// The arrays of a CellTable in the launch workspace.
struct TableLayout {
  TableLayout(int64_t rows, int64_t columns, ArenaLayout& arena)
      : values(arena.Take<float>(rows * columns)),
        missing(arena.Take<uint8_t>(rows * columns)),
        categorical(arena.Take<uint8_t>(columns)),
        y(arena.Take<float>(rows)) {}

  ArenaArray<float> values;
  ArenaArray<uint8_t> missing;
  ArenaArray<uint8_t> categorical;
  ArenaArray<float> y;
};

// The layout of the launch workspace while the columns of `rows` rows are summarised.
struct SummaryLayout {
  SummaryLayout(int64_t rows, int64_t columns)
      : arena(kAlignment),
        table(rows, columns, arena),
        summaries(arena.Take<float>(kernel::SummaryChunks(rows) * columns * kernel::kSummarySize)) {
  }

  ArenaLayout arena;
  TableLayout table;
  ArenaArray<float> summaries;  // [SummaryChunks(rows), columns, kSummarySize]
};

// The layout of the launch workspace while `rows` rows are encoded.
struct EncodeLayout {
  EncodeLayout(int64_t rows, int64_t columns)
      : arena(kAlignment),
        table(rows, columns, arena),
        points(arena.Take<uint16_t>(columns * kernel::kCellTileKvSize)),
        gates(arena.Take<float>(columns * kernel::kCellWidth)),
        cells(arena.Take<float>(rows * kernel::CellTiles(columns) * kernel::kCellTile)),
        gated(arena.Take<float>(rows * kernel::kCellWidth)) {}

  // Returns the maximum number of rows, in whole tiles, whose layout needs at most `bytes` bytes.
  static int64_t RowsInMemory(int64_t bytes, int64_t columns) {
    const int64_t fixed = EncodeLayout(0, columns).arena.bytes();
    const int64_t tile = EncodeLayout(kernel::kCellTileTokens, columns).arena.bytes() - fixed;
    return (bytes - fixed) / tile * kernel::kCellTileTokens;
  }

  ArenaLayout arena;
  TableLayout table;
  ArenaArray<uint16_t> points;  // [columns, kCellTileKvSize] bf16
  ArenaArray<float> gates;      // [columns, kCellWidth]
  ArenaArray<float> cells;      // [rows, CellTiles(columns), kCellTile]
  ArenaArray<float> gated;      // [rows, kCellWidth]
};

// Copies `values` to the array in device memory, and returns its address.
template <typename T>
const T* Upload(const ArenaArray<T>& array, const T* values, int64_t count,
                const LaunchWorkspace& launch) {
  T* const on_device = array.At(launch.memory);
  launch.device.Upload(on_device, values, count * static_cast<int64_t>(sizeof(T)));
  return on_device;
}

// Uploads rows [first, first + rows). `y` is null for rows that do not belong to a context.
kernel::CellTable UploadTable(const FeatureMatrix& features, const float* y, int64_t first,
                              int64_t rows, const TableLayout& layout,
                              const LaunchWorkspace& launch) {
  const int64_t columns = features.features;
  const std::vector<uint8_t> numeric(columns);
  kernel::CellTable table = {.rows = static_cast<int32_t>(rows),
                             .columns = static_cast<int32_t>(columns)};
  const int64_t begin = first * columns;
  table.values = Upload(layout.values, features.x.data() + begin, rows * columns, launch);
  if (!features.missing.empty()) {
    table.missing = Upload(layout.missing, features.missing.data() + begin, rows * columns, launch);
  }
  const std::vector<uint8_t>& types = features.categorical;
  table.categorical =
      Upload(layout.categorical, types.empty() ? numeric.data() : types.data(), columns, launch);
  if (y != nullptr) table.y = Upload(layout.y, y + first, rows, launch);
  return table;
}

// The first tasks summarise the columns on the GPU, kFitRows rows per task. Then the other tasks
// compute the inducing points on the host, kFitColumns columns per task.
class CellFit : public RowEncoderFit {
 public:
  CellFit(const CellModel& model, const FeatureMatrix& context, absl::Span<const float> y,
          const LaunchWorkspace& launch)
      : launch_(launch),
        model_(model),
        context_(context),
        y_(y),
        rows_(static_cast<int64_t>(y.size())),
        gpu_tasks_(CeilDiv(rows_, kFitRows)),
        summaries_(kernel::SummaryChunks(rows_) * context.features * kernel::kSummarySize) {}

  int64_t tasks() const override { return gpu_tasks_ + CeilDiv(context_.features, kFitColumns); }

  double task_flops() const override {
    const auto cells = static_cast<double>(std::min(kFitRows, rows_) * context_.features);
    const auto inputs = static_cast<double>(kernels::kCellFeatures + kernels::kNumberFeatures +
                                            2 * model_.width + 2 * model_.inducing_points);
    return cells * 2 * inputs * static_cast<double>(model_.width);
  }

  void RunTask(int64_t task) override {
    if (task < gpu_tasks_) {
      const int64_t first = task * kFitRows;
      SummariseRows(first, std::min(first + kFitRows, rows_));
      return;
    }
    if (task == gpu_tasks_) launch_.device.Wait();
    if (!launch_.device.status().ok()) return;
    const int64_t first = (task - gpu_tasks_) * kFitColumns;
    FinishPoints(first, std::min(kFitColumns, context_.features - first));
  }

  std::shared_ptr<const RowEncoderState> Finish() override {
    return model_.MakeState(model_.mixer.Mix(std::move(points_)));
  }

 private:
  void SummariseRows(int64_t first, int64_t end) {
    const SummaryLayout chunk(kernel::kSummaryRows, context_.features);
    const int64_t most = launch_.bytes / chunk.arena.bytes() * kernel::kSummaryRows;
    for (; first < end; first += most) Summarise(first, std::min(most, end - first));
  }

  void Summarise(int64_t first, int64_t rows) {
    const int64_t size = kernel::SummaryChunks(rows) * context_.features * kernel::kSummarySize;
    const SummaryLayout layout(rows, context_.features);
    kernel::SummariseColumnsParams params = {
        .table = UploadTable(context_, y_.data(), first, rows, layout.table, launch_),
        .cell = model_.cell_and_target,
        .inducing_points = model_.points,
        .summarise = model_.summarise,
        .summaries = layout.summaries.At(launch_.memory),
        .num_inducing_points = static_cast<int32_t>(model_.inducing_points),
        .shape = model_.shape};
    if (!launch_.device.status().ok()) return;
    launch_.device.Launch(kernel::LaunchSummariseColumns, params, "summarising columns");
    float* const summaries =
        summaries_.data() + first / kernel::kSummaryRows * context_.features * kernel::kSummarySize;
    launch_.device.Download(summaries, params.summaries,
                            size * static_cast<int64_t>(sizeof(float)));
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

  // Appends the result of an inducing point's attention in one head. Merges the states of the
  // chunks in their order.
  void MergeHead(int64_t column, int64_t point, int64_t head, std::vector<float>& attended) const {
    const int64_t head_width = model_.width / model_.heads;
    const int64_t state = head * kernel::kCellTileTokens + point;
    const int64_t o_at = point * kernel::kCellWidth + head * kernel::kCellHeadWidth;
    const auto stride = static_cast<size_t>(context_.features * kernel::kSummarySize);
    const auto begin = static_cast<size_t>(column * kernel::kSummarySize);
    float m = summaries_[begin + kernel::kSummaryM + state];
    for (size_t at = begin; at < summaries_.size(); at += stride) {
      m = std::max(m, summaries_[at + kernel::kSummaryM + state]);
    }
    double l = 0;
    double o[kernel::kCellHeadWidth] = {};
    for (size_t at = begin; at < summaries_.size(); at += stride) {
      const float* const chunk = summaries_.data() + at;
      const double scale = std::exp2(static_cast<double>(chunk[kernel::kSummaryM + state]) - m);
      l += scale * chunk[kernel::kSummaryL + state];
      for (int64_t d = 0; d < head_width; ++d) o[d] += scale * chunk[o_at + d];
    }
    for (int64_t d = 0; d < head_width; ++d) attended.push_back(static_cast<float>(o[d] / l));
  }

  const LaunchWorkspace launch_;
  const CellModel& model_;
  const FeatureMatrix& context_;
  const absl::Span<const float> y_;
  const int64_t rows_;  // to which the encoder is fitted
  const int64_t gpu_tasks_;
  std::vector<float> summaries_;  // [SummaryChunks(rows), F, kSummarySize]
  std::vector<float> points_;     // [computed columns, I, E]
};

class CellEncoder : public DeviceRowEncoder {
 public:
  CellEncoder(const CellAttentionWeights& weights, const ModelConfig& config, WeightBlob& blob)
      : model_(weights, config, blob) {}

  std::unique_ptr<RowEncoderFit> NewFit(const FeatureMatrix& context, absl::Span<const float> y,
                                        const LaunchWorkspace& launch) const override {
    return std::make_unique<CellFit>(model_, context, y, launch);
  }

  absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadState(
      absl::string_view bytes) const override {
    return CellState::FromBytes(bytes);
  }

  void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
              int64_t rows, float* out, const LaunchWorkspace& launch) const override {
    const auto& columns = static_cast<const CellState&>(state);
    const int64_t most = EncodeLayout::RowsInMemory(launch.bytes, features.features);
    for (int64_t done = 0; done < rows; done += most) {
      EncodePart(columns, features, first + done, std::min(most, rows - done),
                 out + done * model_.encoding, launch);
    }
  }

  double EncodeFlops(int64_t rows, int64_t features) const override {
    const auto f = static_cast<double>(features);
    const auto e = static_cast<double>(model_.width);
    const auto tokens = static_cast<double>(model_.seed_tokens);
    // FLOPs of a token in a block, without its keys and values, and FLOPs of its keys and values.
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
    return std::max(SummaryLayout(kernel::kSummaryRows, f).arena.bytes(),
                    EncodeLayout(kernel::kCellTileTokens, f).arena.bytes());
  }

  int shared_bytes() const override {
    const kernel::PoolCellsParams pool = {
        .num_seed_tokens = static_cast<int32_t>(model_.seed_tokens),
        .width = static_cast<int32_t>(model_.encoding),
        .shape = {}};
    return std::max({kernel::SummariseColumnsSharedBytes(), kernel::ReadColumnsSharedBytes(),
                     kernel::MixRowsSharedBytes(static_cast<int>(model_.max_features)),
                     kernel::PoolCellsSharedBytes(pool)});
  }

 private:
  void EncodePart(const CellState& state, const FeatureMatrix& features, int64_t first,
                  int64_t rows, float* out, const LaunchWorkspace& launch) const {
    const EncodeLayout layout(rows, features.features);
    const auto points = static_cast<int64_t>(state.points.size());
    const auto gates = static_cast<int64_t>(state.gates.size());
    const kernel::ReadColumnsParams read = {
        .table = UploadTable(features, nullptr, first, rows, layout.table, launch),
        .cell = model_.cell,
        .column_ids = model_.column_ids,
        .gates = Upload(layout.gates, state.gates.data(), gates, launch),
        .inducing_kv = Upload(layout.points, state.points.data(), points, launch),
        .read_column = model_.read_column,
        .cells = layout.cells.At(launch.memory),
        .gated = layout.gated.At(launch.memory),
        .num_inducing_points = static_cast<int32_t>(model_.inducing_points),
        .shape = model_.shape};
    if (!launch.device.status().ok()) return;
    launch.device.Launch(kernel::LaunchReadColumns, read, "reading columns");
    for (const uint16_t* layer : model_.row_layers) {
      launch.device.Launch(kernel::LaunchMixRows,
                           {.cells = read.cells,
                            .layer = layer,
                            .rows = read.table.rows,
                            .columns = read.table.columns,
                            .shape = model_.shape},
                           "mixing the cells of rows");
    }
    Pool(read, out, launch);
  }

  void Pool(const kernel::ReadColumnsParams& read, float* out,
            const LaunchWorkspace& launch) const {
    launch.device.Launch(kernel::LaunchPoolCells,
                         {.cells = read.cells,
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
                          .shape = model_.shape},
                         "pooling cells");
  }

  CellModel model_;  // its pointers are set when the weights are on the GPU
};

}  // namespace

absl::StatusOr<std::unique_ptr<const DeviceRowEncoder>> MakeDeviceCellAttentionEncoder(
    const CellAttentionWeights& weights, const ModelConfig& config, WeightBlob& blob) {
  RETURN_IF_ERROR(CheckCellConfig(config));
  return std::make_unique<CellEncoder>(weights, config, blob);
}

}  // namespace chorale::cuda
