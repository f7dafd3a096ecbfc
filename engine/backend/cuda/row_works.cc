#include "engine/backend/cuda/row_works.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/flop_model.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale {
namespace {

using kernels::cuda::kTileRows;
using kernels::cuda::PathTile;
using kernels::cuda::Tile;

// Tiles of one step: one for each multiprocessor fills them with one round of blocks, of attention
// and of rows, and others soon get their turn.
int64_t ChunkTiles(const CudaDevice& device) {
  return std::max<int64_t>(64, device.properties().multiprocessors);
}

// Rows of one step of CudaRowsWork.
constexpr int64_t kRowsPerStep = 1'024;

uint16_t* KeysOf(const ResidentContext& context, const CudaDevice& device) {
  return reinterpret_cast<uint16_t*>(device.ContextAt(context.kv));
}

// Rows of tiles that are not of paths: each row stands for itself.
std::vector<Tile> TilesOfRows(int64_t rows, uint16_t* context, int64_t context_rows) {
  std::vector<Tile> tiles(CeilDiv(rows, kTileRows));
  for (size_t i = 0; i < tiles.size(); ++i) {
    const int64_t in_tile =
        std::min<int64_t>(kTileRows, rows - static_cast<int64_t>(i) * kTileRows);
    tiles[i].context = context;
    tiles[i].context_rows = static_cast<int32_t>(context_rows);
    tiles[i].groups = static_cast<int32_t>(CeilDiv(in_tile, kernels::cuda::kGroupRows));
  }
  return tiles;
}

// Takes the tiles of one chunk through a phase behind the first.
void RunPhase(const CudaForward& forward, int64_t phase, int64_t layers, const TileSet& set,
              float* mixtures) {
  if (phase < layers) {
    forward.FinishAndLeave(phase, set);
    return;
  }
  forward.FinishLast(set);
  forward.Head(set, mixtures);
}

CudaForward ForwardOf(const CudaModel& model, const CudaRun& run) {
  return {model, run.device, run.states, run.state_bytes};
}

CudaEncoderRun EncoderRunOf(const CudaRun& run) {
  return {run.device, run.states, run.state_bytes};
}

TileSet PartOf(const TileSet& set, const CudaShape& shape, RowRange tiles) {
  return set.Part(shape, static_cast<int32_t>(tiles.first), static_cast<int32_t>(tiles.rows));
}

}  // namespace

// ---- Contexts ------------------------------------------------------------------------------

CudaEncodeWork::CudaEncodeWork(std::shared_ptr<const BackendModel> model, FeatureMatrix features,
                               std::vector<float> y, PoolRange kv, PoolRange workspace,
                               CudaDevice& device)
    : owner_(std::move(model)),
      model_(AsCudaModel(*owner_)),
      range_(kv),
      rows_(features.rows),
      features_(std::move(features)),
      y_(std::move(y)),
      fit_(model_.row_encoder().NewFit(features_, y_)),
      pieces_(1, fit_->pieces(), 1),
      phases_(model_.shape().layers, CeilDiv(rows_, kTileRows), ChunkTiles(device)),
      layout_(model_.shape(), rows_, RowMemory::Use::kEncode),
      set_(layout_.Set(device.EncodeAt(workspace), rows_)) {
  Require(rows_ >= 1 && static_cast<int64_t>(y_.size()) == rows_, "y is [rows]");
  Require(workspace.bytes >= layout_.bytes, "the workspace holds what is kept of the rows");
  uint16_t* const keys = reinterpret_cast<uint16_t*>(device.ContextAt(kv));
  std::vector<Tile> tiles = TilesOfRows(rows_, keys, rows_);
  for (size_t i = 0; i < tiles.size(); ++i) {
    tiles[i].groups = kernels::cuda::kTileGroups;  // also to fill up the last block of keys
    tiles[i].first_row = static_cast<int32_t>(i * kTileRows);
    tiles[i].encode_rows =
        static_cast<int32_t>(std::min<int64_t>(kTileRows, rows_ - tiles[i].first_row));
  }
  device.Upload(set_.tiles, tiles.data(), set_.count * static_cast<int64_t>(sizeof(Tile)));
}

double CudaEncodeWork::next_step_flops() const {
  if (done()) return 0;
  if (!fitted()) return fit_->piece_flops();
  const ModelConfig& config = model_.config();
  double row_flops = MixFeaturesFlops(config) + KeysValuesFlops(config);
  if (phases_.phase() > 0) {
    row_flops += AttendAndFeedForwardFlops(config, static_cast<double>(rows_));
  } else {
    row_flops += model_.row_encoder().EncodeFlops(1, features_.features);
  }
  return static_cast<double>(phases_.next_step_rows() * kTileRows) * row_flops;
}

int64_t CudaEncodeWork::steps_at_this_cost() const {
  if (done()) return 0;
  if (!fitted()) return pieces_.StepsThrough(0);
  const bool layer_to_finish = phases_.phase() > 0;
  return phases_.StepsThrough(layer_to_finish ? model_.shape().layers - 1 : 0);
}

ResidentContext CudaEncodeWork::TakeContext() {
  Require(done(), "the context is encoded");
  return {.model = owner_, .encoder_state = encoder_state_, .kv = range_, .rows = rows_};
}

void CudaEncodeWork::Run(int64_t max_steps, const CudaRun& run) {
  const CudaForward forward = ForwardOf(model_, run);
  while (max_steps > 0 && !done() && run.device.status().ok()) {
    if (!fitted()) {
      max_steps -= RunPieces(max_steps, run);
      continue;
    }
    phases_.BeginRound(1);
    const RowRange tiles = phases_.RowsOf(0);
    const TileSet set = PartOf(set_, model_.shape(), tiles);
    if (phases_.phase() == 0) {
      Embed(set, tiles, run);
      forward.Leave(0, set);
    } else {
      forward.FinishAndLeave(phases_.phase(), set);
    }
    max_steps -= phases_.EndRound();
    if (phases_.phase() > 0) {
      features_ = {};
      y_ = {};
    }
  }
}

int64_t CudaEncodeWork::RunPieces(int64_t max_steps, const CudaRun& run) {
  const int64_t tasks = pieces_.BeginRound(max_steps);
  for (int64_t task = 0; task < tasks; ++task) {
    fit_->RunPiece(pieces_.RowsOf(task).first, EncoderRunOf(run));
  }
  const int64_t steps = pieces_.EndRound();
  if (fitted() && run.device.status().ok()) {
    encoder_state_ = fit_->Finish();
    fit_.reset();
  }
  return steps;
}

// Encodings become x in their place. Nobody has queries yet: y lies where they will.
void CudaEncodeWork::Embed(const TileSet& set, RowRange tiles, const CudaRun& run) {
  const int64_t first = tiles.first * kTileRows;
  const int64_t rows = std::min(tiles.rows * kTileRows, rows_ - first);
  model_.row_encoder().Encode(*encoder_state_, features_, first, rows, set.x, EncoderRunOf(run));
  float* const y = reinterpret_cast<float*>(set.q);
  run.device.Upload(y, y_.data() + first, rows * static_cast<int64_t>(sizeof(float)));
  ForwardOf(model_, run).EmbedRows(set, set.x, rows, model_.context_offset(), y);
}

// ---- Rows of a request ---------------------------------------------------------------------

CudaRowsWork::CudaRowsWork(std::shared_ptr<const ResidentContext> context, FeatureMatrix features,
                           PoolRange buffer, CudaDevice& device)
    : context_(std::move(context)),
      model_(AsCudaModel(*context_->model)),
      features_(std::move(features)),
      encodings_(reinterpret_cast<float*>(device.BufferAt(buffer))),
      rows_(1, features_.rows, kRowsPerStep) {
  Require(features_.rows >= 1, "there are rows");
  Require(buffer.bytes >= RowsBytes(model_.shape(), features_.rows), "the range holds the rows");
}

double CudaRowsWork::next_step_flops() const {
  if (done()) return 0;
  return model_.row_encoder().EncodeFlops(rows_.next_step_rows(), features_.features);
}

std::shared_ptr<const EncodedRows> CudaRowsWork::TakeRows() {
  Require(done(), "the rows are encoded");
  return std::make_shared<CudaEncodedRows>(features_.rows, encodings_);
}

void CudaRowsWork::Run(int64_t max_steps, const CudaRun& run) {
  const int64_t width = model_.shape().width;
  const int64_t tasks = rows_.BeginRound(max_steps);
  for (int64_t task = 0; task < tasks && run.device.status().ok(); ++task) {
    const RowRange range = rows_.RowsOf(task);
    model_.row_encoder().Encode(*context_->encoder_state, features_, range.first, range.rows,
                                encodings_ + range.first * width, EncoderRunOf(run));
  }
  rows_.EndRound();
}

// ---- Densities -----------------------------------------------------------------------------

CudaDensityWork::CudaDensityWork(DensitySpec spec, CudaDevice& device)
    : spec_(std::move(spec)),
      model_(AsCudaModel(*spec_.tile.context->model)),
      targets_(spec_.tile.targets->rows()),
      layout_(model_.shape(), targets_, spec_.tile.paths, TileMemory::Use::kDensity),
      memory_(device.BufferAt(spec_.buffer)),
      path_tiles_(TilesOfPaths(spec_.tile.paths)),
      phases_(model_.shape().layers + 1, layout_.rows_tiles, ChunkTiles(device)),
      log_densities_(targets_ * spec_.tile.paths) {
  RequireTile(spec_.tile, CudaDensityPaths(targets_, device.properties().multiprocessors));
  Require(spec_.values.size() == log_densities_.size(), "values is [paths, T]");
  Require(spec_.buffer.bytes >= layout_.bytes, "the buffer range holds what is kept");
  const int64_t paths = spec_.tile.paths;
  if (spec_.tile.keep_mixtures) {
    mixtures_ = CudaMixtures(targets_ * paths, model_.shape().components);
  }
  std::vector<float> by_place(spec_.values.size());
  for (const PathRange& tile : path_tiles_) {
    for (int64_t p = 0; p < tile.paths; ++p) {
      for (int64_t t = 0; t < targets_; ++t) {
        by_place[AtPlace(tile, p, t)] = spec_.values[(tile.first + p) * targets_ + t];
      }
    }
  }
  UploadTile(layout_, memory_, spec_.tile, by_place, device);
  UploadPlaces(device);
}

void CudaDensityWork::UploadPlaces(CudaDevice& device) {
  const ResidentContext& context = *spec_.tile.context;
  std::vector<Tile> tiles;
  std::vector<PathTile> paths;
  for (const PathRange& of_tile : path_tiles_) {
    Tile tile = TileOfPaths(layout_, memory_, KeysOf(context, device), context.rows, of_tile);
    PathTile path = PathTileOf(layout_, memory_, spec_.tile, of_tile);
    const int64_t first = AtPlace(of_tile, 0, 0);
    path.emitted_densities = reinterpret_cast<double*>(memory_ + layout_.densities) + first;
    if (spec_.tile.keep_mixtures) {
      path.emitted_mixtures = reinterpret_cast<float*>(memory_ + layout_.mixtures) +
                              first * 3 * model_.shape().components;
    }
    for (int64_t t = 0; t < targets_; ++t) {
      const auto place = static_cast<int32_t>(t);
      // The token at the last place has nobody to see it.
      const bool token = t < layout_.capacity;
      tile.visible_target = place;
      tile.visible_buffer = token ? place + 1 : place;
      tile.append_place = token ? place : -1;
      tiles.push_back(tile);
      path.place = place;
      path.token_place = tile.append_place;
      paths.push_back(path);
    }
  }
  set_ = {.tiles = reinterpret_cast<Tile*>(memory_ + layout_.tiles),
          .paths = reinterpret_cast<PathTile*>(memory_ + layout_.path_tiles),
          .x = reinterpret_cast<float*>(memory_ + layout_.x),
          .q = reinterpret_cast<uint16_t*>(memory_ + layout_.q),
          .count = static_cast<int32_t>(layout_.rows_tiles),
          .largest_context = context.rows};
  device.Upload(set_.tiles, tiles.data(), set_.count * static_cast<int64_t>(sizeof(Tile)));
  device.Upload(set_.paths, paths.data(), set_.count * static_cast<int64_t>(sizeof(PathTile)));
}

// On average over a path a row sees T / 2 buffer keys.
double CudaDensityWork::next_step_flops() const {
  if (done()) return 0;
  const ModelConfig& config = model_.config();
  const double tile_paths =
      static_cast<double>(spec_.tile.paths) / static_cast<double>(path_tiles_.size());
  const double rows = static_cast<double>(phases_.next_step_rows() * 2) * tile_paths;
  const double keys =
      static_cast<double>(spec_.tile.context->rows) + static_cast<double>(targets_) / 2;
  const double finish = AttendAndFeedForwardFlops(config, keys);
  const double leave = MixFeaturesFlops(config) + KeysValuesFlops(config) / 2;
  if (phases_.phase() == model_.shape().layers) return rows / 2 * (finish + HeadFlops(config));
  return rows * (phases_.phase() == 0 ? leave : finish + leave);
}

int64_t CudaDensityWork::steps_at_this_cost() const {
  if (done()) return 0;
  const int64_t layers = model_.shape().layers;
  const bool layer_to_finish = 0 < phases_.phase() && phases_.phase() < layers;
  return phases_.StepsThrough(layer_to_finish ? layers - 1 : phases_.phase());
}

MixtureSpan CudaDensityWork::mixture(int64_t path, int64_t place) const {
  Require(done(), "the paths are done");
  const PathRange& tile = path_tiles_[path / kernels::cuda::kTilePaths];
  return mixtures_.Get(AtPlace(tile, path - tile.first, place));
}

void CudaDensityWork::Run(int64_t max_steps, const CudaRun& run) {
  const CudaForward forward = ForwardOf(model_, run);
  for (; max_steps > 0 && !done() && run.device.status().ok(); --max_steps) {
    phases_.BeginRound(1);
    const TileSet set = PartOf(set_, model_.shape(), phases_.RowsOf(0));
    if (phases_.phase() == 0) {
      forward.EmbedPaths(set);
      forward.Leave(0, set);
    } else {
      RunPhase(forward, phases_.phase(), model_.shape().layers, set, nullptr);
    }
    phases_.EndRound();
  }
  if (done()) Download(run.device);
}

void CudaDensityWork::Download(CudaDevice& device) {
  densities_by_place_.resize(log_densities_.size());
  device.Download(densities_by_place_.data(), memory_ + layout_.densities,
                  static_cast<int64_t>(densities_by_place_.size() * sizeof(double)));
  if (!spec_.tile.keep_mixtures) return;
  raw_mixtures_.resize(log_densities_.size() * 3 * model_.shape().components);
  device.Download(raw_mixtures_.data(), memory_ + layout_.mixtures,
                  static_cast<int64_t>(raw_mixtures_.size() * sizeof(float)));
}

void CudaDensityWork::Collect() {
  if (!done()) return;
  for (const PathRange& tile : path_tiles_) {
    for (int64_t p = 0; p < tile.paths; ++p) {
      for (int64_t t = 0; t < targets_; ++t) {
        log_densities_[(tile.first + p) * targets_ + t] = densities_by_place_[AtPlace(tile, p, t)];
      }
    }
  }
  mixtures_.Set(0, raw_mixtures_);
  densities_by_place_ = {};
  raw_mixtures_ = {};
}

// ---- Point predictions ---------------------------------------------------------------------

CudaPredictWork::CudaPredictWork(PredictSpec spec, CudaDevice& device)
    : spec_(std::move(spec)),
      model_(AsCudaModel(*spec_.context->model)),
      phases_(model_.shape().layers + 1, CeilDiv(spec_.rows, kTileRows), ChunkTiles(device)),
      layout_(model_.shape(), spec_.rows, RowMemory::Use::kPredict),
      memory_(device.BufferAt(spec_.buffer)),
      set_(layout_.Set(memory_, spec_.context->rows)),
      mixtures_(spec_.rows, model_.shape().components) {
  Require(spec_.first_row >= 0 && spec_.rows >= 1 &&
              spec_.first_row + spec_.rows <= spec_.targets->rows(),
          "the rows to predict are target rows");
  Require(spec_.buffer.bytes >= layout_.bytes, "the buffer range holds what is kept");
  const std::vector<Tile> tiles =
      TilesOfRows(spec_.rows, KeysOf(*spec_.context, device), spec_.context->rows);
  device.Upload(set_.tiles, tiles.data(), set_.count * static_cast<int64_t>(sizeof(Tile)));
}

double CudaPredictWork::next_step_flops() const {
  if (done()) return 0;
  const ModelConfig& config = model_.config();
  double row_flops = MixFeaturesFlops(config);
  if (phases_.phase() > 0) {
    row_flops += AttendAndFeedForwardFlops(config, static_cast<double>(spec_.context->rows));
  }
  if (phases_.phase() == model_.shape().layers) row_flops += HeadFlops(config);
  return static_cast<double>(phases_.next_step_rows() * kTileRows) * row_flops;
}

int64_t CudaPredictWork::steps_at_this_cost() const {
  if (done()) return 0;
  const int64_t layers = model_.shape().layers;
  const bool layer_to_finish = 0 < phases_.phase() && phases_.phase() < layers;
  return phases_.StepsThrough(layer_to_finish ? layers - 1 : phases_.phase());
}

MixtureSpan CudaPredictWork::mixture(int64_t row) const {
  Require(done(), "the rows are done");
  return mixtures_.Get(row);
}

void CudaPredictWork::Run(int64_t max_steps, const CudaRun& run) {
  const CudaForward forward = ForwardOf(model_, run);
  const CudaShape& shape = model_.shape();
  float* const mixtures = reinterpret_cast<float*>(memory_ + layout_.mixtures);
  for (; max_steps > 0 && !done() && run.device.status().ok(); --max_steps) {
    phases_.BeginRound(1);
    const RowRange tiles = phases_.RowsOf(0);
    const TileSet set = PartOf(set_, shape, tiles);
    const int64_t first = tiles.first * kTileRows;
    if (phases_.phase() == 0) {
      const float* const encodings =
          AsCudaRows(*spec_.targets).encodings() + (spec_.first_row + first) * shape.width;
      const int64_t rows = std::min(tiles.rows * kTileRows, spec_.rows - first);
      forward.EmbedRows(set, encodings, rows, model_.offsets(), nullptr);
      forward.Leave(0, set);
    } else {
      RunPhase(forward, phases_.phase(), shape.layers, set,
               mixtures + first * 3 * shape.components);
    }
    phases_.EndRound();
  }
  if (!done()) return;
  raw_mixtures_.resize(spec_.rows * 3 * shape.components);
  run.device.Download(raw_mixtures_.data(), mixtures,
                      static_cast<int64_t>(raw_mixtures_.size() * sizeof(float)));
}

void CudaPredictWork::Collect() {
  if (!done()) return;
  mixtures_.Set(0, raw_mixtures_);
  raw_mixtures_ = {};
}

}  // namespace chorale
