// What a device does for the engine: holds weights and K/V, and advances pieces of work.
//
// The engine does all accounting: it asks for sizes, allocates ranges of the pools (offsets only,
// see engine/memory/range_allocator.h) and passes them in. The backend owns the memory behind the
// offsets and allocates no other GPU memory for work, so an admitted request never runs out of
// memory. Work is created once, then advanced slice by slice together with the work of any other
// sessions and contexts; batching, fairness, cancellation and streaming happen between slices.
//
// Results do not depend on what else advances in the same call, on the number of slices, or on the
// number of threads.
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

// What a row encoder learned from a context and needs to encode further rows. Empty for encoders
// that look at each row alone. Immutable.
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

// Work in progress. Results of the derived classes are in host memory, complete for the steps that
// are done, and valid and unchanged until the next Advance of this work.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool done() const = 0;
  // Floating-point operations of the next step, for fair sharing and for the number of steps of a
  // slice. Positive unless done.
  virtual double next_step_flops() const = 0;
  // Steps from the next one on that cost about as much as it does: the most that a slice can take
  // at a predictable cost. At least 1 unless done.
  virtual int64_t steps_at_this_cost() const = 0;
};

// Encodes a context and writes its K/V to a range of the context pool. One step is a bounded batch
// of rows in one layer, so a large context takes many steps.
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

// Paths of one session that a decode or density works on: one tile, or several for a density.
// Their values and results are [T, paths]: index position * paths + path, so that a step reads and
// writes neighbours. Only `order` has the positions of a path together.
struct TileSpec {
  std::shared_ptr<const ResidentContext> context;
  std::shared_ptr<const EncodedRows> targets;  // [T, D]
  int64_t paths = 0;                           // 1 to tile_paths(), or density_paths(), of Backend
  // Position t of path p is target order[p * T + t]; empty: every path takes targets as they come.
  std::vector<int32_t> order;  // [paths, T] or empty
  bool keep_mixtures = false;  // keep the mixture of every position
};

// Autoregressive decode of one tile, a step per position. A step feeds the newest buffer token (the
// value at position t-1) and target t, and yields the value at position t: drawn, or forced.
class DecodeWork : public Work {
 public:
  virtual int64_t steps_done() const = 0;
  virtual absl::Span<const float> values() const = 0;          // [T, paths], model's target units
  virtual absl::Span<const double> log_densities() const = 0;  // [T, paths], of those values
  // REQUIRES: position < steps_done(), TileSpec::keep_mixtures.
  virtual MixtureSpan mixture(int64_t path, int64_t position) const = 0;
};

struct DecodeSpec {
  TileSpec tile;
  PoolRange buffer;  // BufferBytes(model, T, paths) of the buffer pool
  uint64_t seed = 0;
  int64_t first_path = 0;  // of the session; path p of the tile draws as path first_path + p
  std::vector<float> forced_values;  // [T, paths], for teacher forcing; empty: draw values
};

// Joint log-density of values by teacher forcing: all 2T tokens of a path go through a layer
// before the next layer begins. One step is a bounded batch of them in one layer. A step's cost is
// the average over its layer: in a long path later tokens attend to more of the buffer than earlier
// ones, so a step may cost up to twice as much.
class DensityWork : public Work {
 public:
  // REQUIRES: done(), in both.
  virtual absl::Span<const double> log_densities() const = 0;  // [T, paths]
  // REQUIRES: TileSpec::keep_mixtures.
  virtual MixtureSpan mixture(int64_t path, int64_t position) const = 0;
};

struct DensitySpec {
  TileSpec tile;
  PoolRange buffer;           // DensityBytes(model, T, paths) of the buffer pool
  std::vector<float> values;  // [T, paths], model's target units
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

// How to choose slices for a backend.
struct TickPolicy {
  // Most slices that gain from being advanced together.
  int64_t max_slices = 1;
  // Time that one Advance should take: long compared with the overhead of a call, too short for
  // users to notice.
  absl::Duration target_tick = absl::Milliseconds(10);
  // True where all decodes of one Advance run each step together, so that many take little longer
  // than one: they should get equal numbers of steps. False where a slice takes time in proportion
  // to its operations.
  bool decodes_in_step = false;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string description() const = 0;  // for logs and metrics: "cpu AVX3, 2 threads"
  virtual TickPolicy tick_policy() const = 0;

  // Paths of one tile.
  virtual int64_t tile_paths() const = 0;
  // Most paths of a density over `targets` targets: several tiles where one alone would leave the
  // device idle. A multiple of tile_paths().
  virtual int64_t density_paths(int64_t targets) const { return tile_paths(); }

  // Sizes of the pools, fixed at creation.
  virtual int64_t context_pool_bytes() const = 0;
  virtual int64_t buffer_pool_bytes() const = 0;
  virtual int64_t encode_pool_bytes() const { return 0; }
  // Host memory for evicted contexts; 0: none, and NewContextCopy is never called.
  virtual int64_t host_context_pool_bytes() const { return 0; }

  // Exact bytes, multiples of the pools' alignment (64 bytes or more): in the context pool for a
  // context of `rows` rows; in the buffer pool for a decode and for a density of `paths` paths over
  // `targets` targets.
  virtual int64_t ContextBytes(const ModelConfig& config, int64_t rows) const = 0;
  virtual int64_t BufferBytes(const ModelConfig& config, int64_t targets, int64_t paths) const = 0;
  virtual int64_t DensityBytes(const ModelConfig& config, int64_t targets, int64_t paths) const = 0;

  // Likewise in the buffer pool for the encoded rows of a request and for point predictions of
  // `rows` of them, and in the encode pool for a context while it is encoded. 0 where the backend
  // uses host memory instead: it gets an empty range then.
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

  // Copies a resident context's bytes to a range of the host pool, or back to a range of the
  // context pool, a bounded number of bytes a step. A host copy is only good for copying back.
  // REQUIRES: a range of the host pool is read only after all of it was written.
  virtual std::unique_ptr<Work> NewContextCopy(PoolRange kv, PoolRange host,
                                               CopyDirection direction) {
    return nullptr;
  }

  // Advances each slice's work by max_steps steps, or until it is done, and returns when all have
  // finished. Work appears at most once in `slices`. An error means that the device failed: the
  // engine stops.
  virtual absl::Status Advance(absl::Span<const Slice> slices) = 0;

  // The bytes are no longer used: they are cleared before anybody can read them again, and returned
  // to the operating system where possible.
  virtual void ReleaseContext(PoolRange range) = 0;
  virtual void ReleaseBuffer(PoolRange range) = 0;
  virtual void ReleaseEncode(PoolRange range) {}
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_BACKEND_H_
