// What a device does for the engine: holds weights and K/V, and advances pieces of work.
//
// The engine owns all accounting: it asks how many bytes a thing takes, allocates a range of a pool
// (offsets only, see engine/memory/range_allocator.h) and hands the range over. The backend owns
// the memory behind the offsets, and takes no other of a GPU for a piece of work, so that a request
// that was admitted never lacks any. Work is made once, then advanced slice by slice, in any
// mixture of sessions and contexts, so that batching, fairness, cancellation and streaming happen
// between slices.
//
// Results never depend on what else is advanced in the same call, on the number of slices that a
// piece of work was cut into, or on the number of threads.
//
// Thread contract: one engine thread calls everything but the const byte counts, which any thread
// may call. Objects made by a backend are destroyed by the engine thread, before the backend.
#ifndef CHORALE_ENGINE_BACKEND_BACKEND_H_
#define CHORALE_ENGINE_BACKEND_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/data/feature_transform.h"
#include "engine/model/model.h"

namespace chorale {

// Bytes [offset, offset + bytes) of one of the backend's pools.
struct PoolRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// A model's weights as one backend holds them. Immutable.
class BackendModel {
 public:
  virtual ~BackendModel() = default;
  virtual const ModelConfig& config() const = 0;
};

// What a row encoder learnt from a context and needs to encode further rows. Empty for encoders
// that treat every row by itself. Immutable.
class RowEncoderState {
 public:
  virtual ~RowEncoderState() = default;
};

// Row encodings of the targets of one request, [T, D], computed once per row and shared by all of
// the request's paths. Immutable.
class EncodedRows {
 public:
  virtual ~EncodedRows() = default;
  virtual int64_t rows() const = 0;
};

// A context whose keys and values are in the context pool. Immutable.
struct ResidentContext {
  std::shared_ptr<const BackendModel> model;
  std::shared_ptr<const RowEncoderState> encoder_state;
  PoolRange kv;  // [L] layers of kernels::LayerKvSize(rows, Hkv, Dh) elements
  int64_t rows = 0;
};

// The mixture of one row, [M] each, in the model's target units, host memory.
struct MixtureSpan {
  absl::Span<const double> mean;
  absl::Span<const double> std;
  absl::Span<const double> log_weight;
};

// A piece of work in progress. What the derived classes expose is host memory that stays valid and
// unchanged until the next Advance of this work, and complete up to what is said to be done.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool done() const = 0;
  // Floating-point operations of the next step, for fair sharing and for choosing how many steps a
  // slice gets. Never zero unless done.
  virtual double next_step_flops() const = 0;
  // Steps from here on that cost about as much as the next one: what a slice may be given without
  // becoming longer than it looks. At least 1 unless done.
  virtual int64_t steps_at_this_cost() const = 0;
};

// Encodes a context, writing its K/V into the range given. One step is a bounded batch of rows of
// one layer, so a large context takes many.
class EncodeWork : public Work {
 public:
  // REQUIRES: done().
  virtual ResidentContext TakeContext() = 0;
};

// Encodes the target rows of a request.
class RowsWork : public Work {
 public:
  // REQUIRES: done().
  virtual std::shared_ptr<const EncodedRows> TakeRows() = 0;
};

// What a piece of work on paths of one session is told of them: one tile, or some for a density.
struct TileSpec {
  std::shared_ptr<const ResidentContext> context;
  std::shared_ptr<const EncodedRows> targets;  // [T, D]
  int64_t paths = 0;                           // 1 to tile_paths(), or density_paths(), of Backend
  // Place t of path p is target order[p * T + t]; empty when every path takes targets as given.
  std::vector<int32_t> order;  // [paths, T] or empty
  bool keep_mixtures = false;  // keep the mixture of every place
};

// Autoregressive decode of one tile, a step per place. A step feeds the newest buffer token (the
// value at place t-1) and target t, and yields the value at place t: drawn, or as given.
class DecodeWork : public Work {
 public:
  virtual int64_t steps_done() const = 0;
  virtual absl::Span<const float> values() const = 0;          // [T, paths], model's target units
  virtual absl::Span<const double> log_densities() const = 0;  // [T, paths], of those values
  // REQUIRES: TileSpec::keep_mixtures.
  virtual MixtureSpan mixture(int64_t path, int64_t step) const = 0;
};

struct DecodeSpec {
  TileSpec tile;
  PoolRange buffer;  // BufferBytes(model, T, paths) of the buffer pool
  uint64_t seed = 0;
  int64_t first_path = 0;    // of the session; path p of the tile draws as path first_path + p
  std::vector<float> given;  // [T, paths]: values taken instead of drawn ones; empty to draw
};

// Joint log-density of given values by teacher forcing: all 2T tokens of a path go through a layer
// before the next layer begins. One step is a bounded batch of them in one layer. A step's cost is
// the average over its layer: in a long path later tokens attend to more of the buffer than earlier
// ones, so a step may cost up to twice as much.
class DensityWork : public Work {
 public:
  // REQUIRES: done(), in both.
  virtual absl::Span<const double> log_densities() const = 0;  // [paths, T], at each place
  // REQUIRES: TileSpec::keep_mixtures.
  virtual MixtureSpan mixture(int64_t path, int64_t place) const = 0;
};

struct DensitySpec {
  TileSpec tile;
  PoolRange buffer;           // DensityBytes(model, T, paths) of the buffer pool
  std::vector<float> values;  // [paths, T]: the value at each place, in the path's order
};

// Point predictions of rows [first_row, first_row + rows), independent of each other. One step is a
// bounded batch of them in one layer.
class PredictWork : public Work {
 public:
  // REQUIRES: done().
  virtual MixtureSpan mixture(int64_t row) const = 0;  // row counts from first_row
};

struct PredictSpec {
  std::shared_ptr<const ResidentContext> context;
  std::shared_ptr<const EncodedRows> targets;
  PoolRange buffer;  // PredictBytes(model, rows) of the buffer pool
  int64_t first_row = 0;
  int64_t rows = 0;
};

enum class CopyDirection { kToHost, kToDevice };

struct Slice {
  Work* work = nullptr;
  int64_t max_steps = 1;
};

// How slices are best chosen for a backend.
struct Pacing {
  // Pieces of work that gain from being advanced together.
  int64_t max_slices = 1;
  // Time that one Advance should take: long against what a call costs by itself, short against what
  // users notice.
  absl::Duration target_tick = absl::Milliseconds(10);
  // True where all decodes of one Advance take each step together, which takes little longer for
  // many of them than for one: they should get equal numbers of steps. False where a slice takes
  // the time of its own operations.
  bool decodes_in_step = false;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string description() const = 0;  // for logs and metrics: "cpu AVX3, 2 threads"
  virtual Pacing pacing() const = 0;

  // Paths of one tile.
  virtual int64_t tile_paths() const = 0;
  // Most paths of a density over so many targets: those of several tiles where one alone would
  // leave the device idle. A multiple of tile_paths().
  virtual int64_t density_paths(int64_t targets) const { return tile_paths(); }

  // Sizes of the pools, fixed at creation.
  virtual int64_t context_pool_bytes() const = 0;
  virtual int64_t buffer_pool_bytes() const = 0;
  virtual int64_t encode_pool_bytes() const { return 0; }
  // Host memory for contexts that made room for others; 0: none, and no copies are asked for.
  virtual int64_t host_context_pool_bytes() const { return 0; }

  // Exact bytes of a resident context with `rows` rows, and for `paths` paths over `targets`
  // targets, of the buffer cache of a decode's tile and of what a density keeps between two steps.
  // Multiples of the pools' alignment (64 bytes or more).
  virtual int64_t ContextBytes(const ModelConfig& config, int64_t rows) const = 0;
  virtual int64_t BufferBytes(const ModelConfig& config, int64_t targets, int64_t paths) const = 0;
  virtual int64_t DensityBytes(const ModelConfig& config, int64_t targets, int64_t paths) const = 0;

  // Likewise of the buffer pool: for the encoded rows of a request, and for the point predictions
  // of `rows` of them; and of the encode pool, for a context while it is encoded. 0 where a backend
  // has no pool for it, but takes it from the host's memory; it is given an empty range then.
  virtual int64_t RowsBytes(const ModelConfig& config, int64_t targets) const { return 0; }
  virtual int64_t PredictBytes(const ModelConfig& config, int64_t rows) const { return 0; }
  virtual int64_t EncodeBytes(const ModelConfig& config, int64_t rows) const { return 0; }

  virtual absl::StatusOr<std::shared_ptr<const BackendModel>> AddModel(const Model& model) = 0;

  // `features` are normalised; y [rows] is in the model's target units. `workspace` is
  // EncodeBytes(model, rows) of the encode pool, for as long as the work lives.
  virtual std::unique_ptr<EncodeWork> NewEncode(std::shared_ptr<const BackendModel> model,
                                                FeatureMatrix features, std::vector<float> y,
                                                PoolRange kv, PoolRange workspace) = 0;
  // `buffer` is RowsBytes(model, rows) of the buffer pool, for as long as the encoded rows live.
  virtual std::unique_ptr<RowsWork> NewRows(std::shared_ptr<const ResidentContext> context,
                                            FeatureMatrix features, PoolRange buffer) = 0;
  virtual std::unique_ptr<DecodeWork> NewDecode(DecodeSpec spec) = 0;
  virtual std::unique_ptr<DensityWork> NewDensity(DensitySpec spec) = 0;
  virtual std::unique_ptr<PredictWork> NewPredict(PredictSpec spec) = 0;

  // Copies a resident context's bytes to a range of the host pool, or from there to a range of the
  // context pool, a bounded number a step. What was copied to the host is good for coming back
  // alone, and a range of the host pool is only ever read after it was written in whole.
  virtual std::unique_ptr<Work> NewContextCopy(PoolRange kv, PoolRange host,
                                               CopyDirection direction) {
    return nullptr;
  }

  // Advances each piece of work by max_steps steps, or until it is done, and returns when all are
  // through. A piece of work appears at most once. An error is one of the device as a whole: the
  // engine stops.
  virtual absl::Status Advance(absl::Span<const Slice> slices) = 0;

  // Says that nobody uses these bytes any more: cleared before they can be read again, and given
  // back to the operating system where that is possible.
  virtual void ReleaseContext(PoolRange range) = 0;
  virtual void ReleaseBuffer(PoolRange range) = 0;
  virtual void ReleaseEncode(PoolRange range) {}
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_BACKEND_H_
