#include "tests/bench/bench_session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

constexpr int64_t kFeatures = 4;

std::shared_ptr<const BackendModel> Added(Backend* backend, const Model& model) {
  absl::StatusOr<std::shared_ptr<const BackendModel>> added = backend->AddModel(model);
  if (!added.ok()) Fail(added.status().ToString());
  return *std::move(added);
}

}  // namespace

void Fail(absl::string_view what) {
  std::fprintf(stderr, "%s\n", std::string(what).c_str());
  std::exit(1);
}

MemorySet MemorySetOf(int64_t rows, const std::string& policy) {
  MemorySet memory = {.rows = rows};
  if (!MemoryPolicyFromName(policy, &memory.policy)) {
    Fail(policy + " is not one of merge, heavy and sample");
  }
  return memory;
}

double Microseconds(absl::FunctionRef<void()> body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

SessionBytes BytesOf(const Backend& backend, const ModelConfig& config, const BenchPoint& point) {
  SessionBytes bytes = {.context = backend.ContextBytes(config, point.shape()),
                        .encode = backend.EncodeBytes(config, point.shape()),
                        .rows = backend.RowsBytes(config, point.query_rows),
                        .predict = backend.PredictBytes(config, point.query_rows)};
  if (point.appended_rows > 0) {
    bytes.append = backend.ContextBytes(config, point.appended_shape());
    bytes.encode = std::max(bytes.encode, backend.EncodeBytes(config, point.appended_shape()));
  }
  for (int64_t first = 0; first < point.paths; first += backend.tile_paths()) {
    const int64_t paths = std::min(backend.tile_paths(), point.paths - first);
    bytes.decode += backend.BufferBytes(config, point.query_rows, paths);
  }
  const int64_t density_paths = backend.density_paths(config, point.query_rows);
  for (int64_t first = 0; first < point.paths; first += density_paths) {
    const int64_t paths = std::min(density_paths, point.paths - first);
    bytes.density += backend.DensityBytes(config, point.query_rows, paths);
  }
  return bytes;
}

BenchSession::BenchSession(Backend* backend, const Model& model, const BenchPoint& point)
    : backend_(backend),
      point_(point),
      model_(Added(backend, model)),
      bytes_(BytesOf(*backend, model.config, point)) {
  const std::unique_ptr<EncodeWork> encode = NewEncode();
  encode_microseconds_ = Microseconds([&] { Run({encode.get()}); });
  context_ = std::make_shared<const ResidentContext>(encode->TakeContext());
  const auto rows =
      backend->NewRows(context_, MakeFeatures(point.query_rows, kFeatures, 3), {0, bytes_.rows});
  Run({rows.get()});
  query_rows_ = rows->TakeRows();
}

int64_t BenchSession::tiles() const {
  return (point_.paths + backend_->tile_paths() - 1) / backend_->tile_paths();
}

int64_t BenchSession::TilePaths(int64_t tile) const {
  return std::min(backend_->tile_paths(), point_.paths - tile * backend_->tile_paths());
}

std::unique_ptr<EncodeWork> BenchSession::NewEncode() const {
  return backend_->NewEncode({.model = model_,
                              .features = MakeFeatures(point_.context_rows, kFeatures, 1),
                              .y = MakeValues(point_.context_rows, 2),
                              .memory = point_.memory,
                              .seed = 4,
                              .kv = {0, bytes_.context},
                              .workspace = {0, bytes_.encode}});
}

std::unique_ptr<EncodeWork> BenchSession::NewAppend() const {
  const int64_t rows = point_.appended_shape().rows;
  return backend_->NewEncode({.model = model_,
                              .features = MakeFeatures(rows, kFeatures, 1),
                              .y = MakeValues(rows, 2),
                              .memory = point_.memory,
                              .seed = 4,
                              .append_starts = {point_.context_rows},
                              .prefix = context_,
                              .kv = {bytes_.context, bytes_.append},
                              .workspace = {0, bytes_.encode}});
}

TileSpec BenchSession::Tile(int64_t paths) const {
  TileSpec spec;
  spec.context = context_;
  spec.query_rows = query_rows_;
  spec.paths = paths;
  return spec;
}

Works<DecodeWork> BenchSession::NewDecodes(uint64_t seed) const {
  Works<DecodeWork> works;
  int64_t offset = bytes_.rows;
  for (int64_t tile = 0; tile < tiles(); ++tile) {
    DecodeSpec spec;
    spec.tile = Tile(TilePaths(tile));
    spec.buffer = {offset, backend_->BufferBytes(config(), point_.query_rows, spec.tile.paths)};
    spec.seed = seed;
    spec.path_numbers.resize(spec.tile.paths);
    std::iota(spec.path_numbers.begin(), spec.path_numbers.end(), tile * backend_->tile_paths());
    spec.forced_values = MakeValues(point_.known_rows * spec.tile.paths, 5 + tile);
    offset += spec.buffer.bytes;
    works.push_back(backend_->NewDecode(std::move(spec)));
  }
  return works;
}

Works<DensityWork> BenchSession::NewDensities(const std::vector<float>& values) const {
  Works<DensityWork> works;
  int64_t offset = bytes_.rows;
  const int64_t all_paths = static_cast<int64_t>(values.size()) / point_.query_rows;
  const int64_t most_paths = backend_->density_paths(config(), point_.query_rows);
  for (int64_t first = 0; first < all_paths; first += most_paths) {
    DensitySpec spec;
    spec.tile = Tile(std::min(most_paths, all_paths - first));
    spec.buffer = {offset, backend_->DensityBytes(config(), point_.query_rows, spec.tile.paths)};
    spec.values = SelectPaths(values, all_paths, first, spec.tile.paths);
    offset += spec.buffer.bytes;
    works.push_back(backend_->NewDensity(std::move(spec)));
  }
  return works;
}

std::unique_ptr<PredictWork> BenchSession::NewPredict() const {
  PredictSpec spec;
  spec.context = context_;
  spec.query_rows = query_rows_;
  spec.rows = point_.query_rows;
  spec.buffer = {bytes_.rows, bytes_.predict};
  return backend_->NewPredict(std::move(spec));
}

void BenchSession::Run(absl::Span<Work* const> works, int64_t steps) const {
  while (true) {
    std::vector<Slice> slices;
    for (Work* work : works) {
      if (!work->done()) slices.push_back({work, steps});
    }
    if (slices.empty()) return;
    const absl::Status status = backend_->Advance(slices);
    if (!status.ok()) Fail(status.ToString());
  }
}

}  // namespace chorale
