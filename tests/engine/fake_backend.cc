#include "tests/engine/fake_backend.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/integer_math.h"
#include "engine/backend/encode_blocks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/fake_work.h"
#include "tests/engine/used_ranges.h"

namespace chorale::testing {
namespace {

using Access = UsedRanges::Access;

// Thread contract: that of Backend.
class FakeBackend : public Backend {
 public:
  FakeBackend(const FakeBackendOptions& options, FakeBackendLog* log)
      : memory_{std::vector<char>(options.context_pool_bytes),
                std::vector<char>(options.host_context_pool_bytes)},
        options_(options),
        log_(log) {}
  ~FakeBackend() override { EXPECT_EQ(log_->live_work, 0) << "work outlived the backend"; }

  BackendInfo info() const override { return {"fake", "none", 4}; }
  std::string description() const override { return "fake"; }
  TickPolicy tick_policy() const override {
    return {.max_slices = 4, .decodes_in_step = options_.decodes_in_step};
  }
  int64_t tile_paths() const override { return options_.tile_paths; }
  int64_t density_paths(const ModelConfig& config, int64_t positions) const override {
    return options_.density_tiles * options_.tile_paths;
  }
  int64_t context_pool_bytes() const override { return options_.context_pool_bytes; }
  int64_t buffer_pool_bytes() const override { return options_.buffer_pool_bytes; }
  int64_t encode_pool_bytes() const override { return options_.encode_pool_bytes; }
  int64_t host_context_pool_bytes() const override { return options_.host_context_pool_bytes; }
  std::string kv_format() const override { return "fake"; }
  char* ContextMemory(const PoolRange& kv) override {
    return options_.host_reaches_contexts ? memory_.contexts.data() + kv.offset : nullptr;
  }
  char* HostContextMemory(const PoolRange& host) override {
    return memory_.host.data() + host.offset;
  }
  absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadEncoderState(
      const BackendModel& model, absl::string_view bytes) const override {
    if (bytes.empty()) return nullptr;
    int64_t content = 0;
    if (!absl::SimpleAtoi(bytes, &content)) return absl::DataLossError("no state of the fake");
    return std::make_shared<const FakeAppendedState>(content);
  }
  int64_t RowsBytes(const ModelConfig& config, int64_t query_rows) const override {
    return query_rows * options_.rows_bytes_per_row;
  }
  int64_t PredictBytes(const ModelConfig& config, int64_t rows) const override {
    return rows * options_.predict_bytes_per_row;
  }
  bool memory_sets() const override { return options_.memory_sets; }
  bool appends() const override { return options_.appends; }
  int64_t EncodeBytes(const ModelConfig& config, const ContextShape& shape) const override {
    return shape.keys() * options_.encode_bytes_per_row;
  }
  int64_t ContextBytes(const ModelConfig& config, const ContextShape& shape) const override {
    const int64_t of_weights = shape.reduced() ? shape.keys() * options_.memory_bytes_per_key : 0;
    return shape.keys() * options_.context_bytes_per_row + RoundUp(of_weights, 64);
  }
  int64_t BufferBytes(const ModelConfig& config, int64_t positions, int64_t paths) const override {
    return positions * paths * options_.buffer_bytes_per_value;
  }
  int64_t DensityBytes(const ModelConfig& config, int64_t positions, int64_t paths) const override {
    const int64_t tiles = (paths + options_.tile_paths - 1) / options_.tile_paths;
    return positions * tiles * options_.density_bytes_per_row;
  }
  absl::StatusOr<std::shared_ptr<const BackendModel>> AddModel(const Model& model) override {
    if (log_->refuse_models) return absl::ResourceExhaustedError("no room for weights");
    if (log_->lacks_library && FakeModel::IsWide(model)) {
      return absl::UnavailableError("Install the library.");
    }
    return std::make_shared<const FakeModel>(model, log_);
  }
  void RemoveModel(const BackendModel& model) override { ++log_->removed_models; }

  std::unique_ptr<EncodeWork> NewEncode(EncodeSpec spec) override {
    ++log_->encodings;
    const int64_t prefix_rows = spec.prefix == nullptr ? 0 : spec.prefix->shape.rows;
    log_->encoded_rows += spec.features.rows - prefix_rows;
    log_->AddEncoding({spec.shape(), spec.seed, spec.append_starts, prefix_rows});
    EXPECT_TRUE(memory_sets() || !spec.shape().reduced());
    EXPECT_TRUE(spec.append_starts.empty() || (appends() && spec.shape().appendable()));
    EXPECT_EQ(spec.features.rows, static_cast<int64_t>(spec.y.size()));
    EXPECT_EQ(spec.kv.bytes, ContextBytes(spec.model->config(), spec.shape()));
    CheckRange(spec.kv, options_.context_pool_bytes);
    EXPECT_GE(spec.workspace.bytes, EncodeBytes(spec.model->config(), spec.shape()));
    CheckRange(spec.workspace, options_.encode_pool_bytes);
    std::vector<UsedRanges::Use> uses;
    uses.push_back(contexts_.Begin(spec.kv, Access::kWrite));
    uses.push_back(encode_.Begin(spec.workspace, Access::kWrite));
    if (spec.prefix != nullptr) {
      EXPECT_EQ(spec.prefix->model, spec.model);
      EXPECT_TRUE(CanBePrefix(spec.prefix->shape, spec.shape(), spec.append_starts));
      CheckContent(*spec.prefix);
      uses.push_back(contexts_.Begin(spec.prefix->kv, Access::kRead));
    }
    auto work = std::make_unique<FakeEncode>(spec, options_.encode_steps, &memory_, log_);
    work->Keep(std::move(uses));
    return work;
  }
  std::unique_ptr<RowsWork> NewRows(std::shared_ptr<const ResidentContext> context,
                                    FeatureMatrix features, PoolRange buffer) override {
    CheckContent(*context);
    EXPECT_EQ(buffer.bytes, RowsBytes(context->model->config(), features.rows));
    CheckRange(buffer, options_.buffer_pool_bytes);
    auto work =
        std::make_unique<FakeRowsWork>(features.rows, buffers_.Begin(buffer, Access::kWrite), log_);
    work->Keep({contexts_.Begin(context->kv, Access::kRead)});
    return work;
  }
  std::unique_ptr<DecodeWork> NewDecode(DecodeSpec spec) override {
    EXPECT_LE(spec.tile.paths, options_.tile_paths);
    EXPECT_EQ(spec.buffer.bytes, BufferBytes(spec.tile.context->model->config(),
                                             spec.tile.positions(), spec.tile.paths));
    CheckRange(spec.buffer, options_.buffer_pool_bytes);
    std::vector<UsedRanges::Use> uses = Uses(*spec.tile.context, spec.buffer);
    auto work = std::make_unique<FakeDecode>(std::move(spec), log_);
    work->Keep(std::move(uses));
    return work;
  }
  std::unique_ptr<DensityWork> NewDensity(DensitySpec spec) override {
    EXPECT_LE(spec.tile.paths, options_.density_tiles * options_.tile_paths);
    EXPECT_EQ(spec.buffer.bytes, DensityBytes(spec.tile.context->model->config(),
                                              spec.tile.positions(), spec.tile.paths));
    CheckRange(spec.buffer, options_.buffer_pool_bytes);
    std::vector<UsedRanges::Use> uses = Uses(*spec.tile.context, spec.buffer);
    auto work = std::make_unique<FakeDensity>(std::move(spec), log_);
    work->Keep(std::move(uses));
    return work;
  }
  std::unique_ptr<PredictWork> NewPredict(PredictSpec spec) override {
    EXPECT_EQ(spec.buffer.bytes, PredictBytes(spec.context->model->config(), spec.rows));
    CheckRange(spec.buffer, options_.buffer_pool_bytes);
    auto work = std::make_unique<FakePredict>(spec, log_);
    work->Keep(Uses(*spec.context, spec.buffer));
    return work;
  }

  std::unique_ptr<Work> NewContextCopy(PoolRange kv, PoolRange host,
                                       CopyDirection direction) override {
    ++(direction == CopyDirection::kToHost ? log_->saves : log_->restores);
    CheckRange(kv, options_.context_pool_bytes);
    CheckRange({host.offset, kv.bytes}, options_.host_context_pool_bytes);
    EXPECT_LE(kv.bytes, host.bytes);
    const bool saves = direction == CopyDirection::kToHost;
    auto work =
        std::make_unique<FakeCopy>(kv, host, direction, options_.copy_steps, &memory_, log_);
    work->Keep({contexts_.Begin(kv, saves ? Access::kRead : Access::kWrite),
                host_.Begin(host, saves ? Access::kWrite : Access::kRead)});
    return work;
  }

  absl::Status CheckDevice() override {
    return log_->fail ? absl::UnknownError("the fake was told to fail") : absl::OkStatus();
  }

  absl::Status Advance(absl::Span<const Slice> slices) override {
    log_->PassGate();
    if (log_->on_advance) log_->on_advance(slices);
    ++log_->ticks;
    log_->most_slices = std::max<int64_t>(log_->most_slices, std::ssize(slices));
    std::set<Work*> seen;
    for (const Slice& slice : slices) {
      EXPECT_TRUE(seen.insert(slice.work).second) << "a piece of work appears twice";
      EXPECT_FALSE(slice.work->done());
      EXPECT_GE(slice.max_steps, 1);
    }
    absl::Status status;
    if (log_->fail) status = absl::UnknownError("the fake was told to fail");
    for (const Slice& slice : slices) {
      if (!status.ok()) break;
      Steps* steps = dynamic_cast<Steps*>(slice.work);
      for (int64_t i = 0; i < slice.max_steps && !steps->finished(); ++i) {
        log_->PassStepTime();
        steps->Step();
      }
    }
    LogDecodes(slices);
    log_->EndTick();
    return status;
  }

  void ReleaseContext(PoolRange range) override {
    contexts_.CheckUnused(range);
    std::memset(memory_.contexts.data() + range.offset, 0, static_cast<size_t>(range.bytes));
    log_->released_context_bytes += range.bytes;
  }
  void ReleaseBuffer(PoolRange range) override {
    buffers_.CheckUnused(range);
    log_->released_buffer_bytes += range.bytes;
  }
  void ReleaseEncode(PoolRange range) override {
    encode_.CheckUnused(range);
    log_->released_encode_bytes += range.bytes;
  }

 private:
  std::vector<UsedRanges::Use> Uses(const ResidentContext& context, const PoolRange& buffer) {
    return {contexts_.Begin(context.kv, Access::kRead), buffers_.Begin(buffer, Access::kWrite)};
  }

  void CheckContent(const ResidentContext& context) const {
    EXPECT_EQ(memory_.ContentAt(context.kv), FakeMemory::ContentOf(context));
  }

  void LogDecodes(absl::Span<const Slice> slices) {
    FakeBackendLog::DecodeTick tick;
    for (const Slice& slice : slices) {
      if (dynamic_cast<DecodeWork*>(slice.work) == nullptr) continue;
      ++tick.decodes;
      tick.steps = std::max(tick.steps, slice.max_steps);
    }
    for (const Slice& slice : slices) {
      if (dynamic_cast<DecodeWork*>(slice.work) == nullptr || slice.work->done()) continue;
      tick.together = tick.together && slice.max_steps == tick.steps;
    }
    if (tick.decodes > 0) log_->AddDecodeTick(tick);
  }

  static void CheckRange(const PoolRange& range, int64_t pool) {
    EXPECT_GE(range.offset, 0);
    EXPECT_LE(range.offset + range.bytes, pool);
  }

  FakeMemory memory_;
  UsedRanges contexts_;
  UsedRanges host_;
  UsedRanges encode_;
  UsedRanges buffers_;
  const FakeBackendOptions options_;
  FakeBackendLog* const log_;
};

}  // namespace

void FakeBackendLog::CloseGate() {
  MutexLock lock(&mutex_);
  closed_ = true;
  allowed_ = 0;
}

void FakeBackendLog::AddDecodeTick(const DecodeTick& tick) {
  MutexLock lock(&mutex_);
  decode_ticks_.push_back(tick);
}

std::vector<FakeBackendLog::DecodeTick> FakeBackendLog::decode_ticks() {
  MutexLock lock(&mutex_);
  return decode_ticks_;
}

void FakeBackendLog::AddEncoding(const FakeEncoding& encoding) {
  MutexLock lock(&mutex_);
  all_encodings_.push_back(encoding);
}

std::vector<FakeEncoding> FakeBackendLog::all_encodings() {
  MutexLock lock(&mutex_);
  return all_encodings_;
}

void FakeBackendLog::OpenGate() {
  MutexLock lock(&mutex_);
  closed_ = false;
  changed_.NotifyAll();
}

void FakeBackendLog::PassGate() {
  MutexLock lock(&mutex_);
  while (closed_ && allowed_ == 0) changed_.Wait(&mutex_);
  if (closed_) --allowed_;
}

void FakeBackendLog::LetThrough(int64_t ticks) {
  MutexLock lock(&mutex_);
  const int64_t end = ended_ + ticks;
  allowed_ = ticks;
  changed_.NotifyAll();
  while (ended_ < end) changed_.Wait(&mutex_);
}

void FakeBackendLog::EndTick() {
  MutexLock lock(&mutex_);
  ++ended_;
  changed_.NotifyAll();
}

float FakeValue(uint64_t seed, uint64_t path, int64_t step) {
  const auto in_group = static_cast<float>(path & 0xffffffff);
  const auto group = static_cast<float>(path >> 32);
  return static_cast<float>(seed % 1000) + 10.0f * in_group + 3.0f * group +
         0.125f * static_cast<float>(step);
}

float FakeLogDensity(float value, int64_t position, int64_t query_row) {
  return -0.5f * value - static_cast<float>(position) - 0.25f * static_cast<float>(query_row);
}

std::unique_ptr<Backend> NewFakeBackend(const FakeBackendOptions& options, FakeBackendLog* log) {
  return std::make_unique<FakeBackend>(options, log);
}

}  // namespace chorale::testing
