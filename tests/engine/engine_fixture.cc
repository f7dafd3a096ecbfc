#include "tests/engine/engine_fixture.h"

#include <cmath>
#include <limits>
#include <random>

#include "tests/engine/small_model.h"

namespace chorale::testing {

void SampleRecorder::OnBlock(SampleBlock block) {
  if (on_block) on_block(block);
  MutexLock lock(&mutex_);
  EXPECT_FALSE(status_.has_value()) << "a block came after the end";
  EXPECT_EQ(static_cast<int64_t>(block.values.size()), block.paths * block.steps);
  values_ += static_cast<int64_t>(block.values.size());
  blocks_.push_back(std::move(block));
  changed_.NotifyAll();
}

void SampleRecorder::OnDone(const absl::Status& status, const SampleSummary& summary) {
  if (on_done) on_done();
  MutexLock lock(&mutex_);
  EXPECT_FALSE(status_.has_value()) << "the end came twice";
  status_ = status;
  summary_ = summary;
  changed_.NotifyAll();
}

absl::Status SampleRecorder::Wait() {
  MutexLock lock(&mutex_);
  while (!status_.has_value()) changed_.Wait(&mutex_);
  return *status_;
}

void SampleRecorder::WaitForValues(int64_t count) {
  MutexLock lock(&mutex_);
  while (values_ < count && !status_.has_value()) changed_.Wait(&mutex_);
}

bool SampleRecorder::is_done() {
  MutexLock lock(&mutex_);
  return status_.has_value();
}

int64_t SampleRecorder::values() {
  MutexLock lock(&mutex_);
  return values_;
}

std::vector<SampleBlock> SampleRecorder::blocks() {
  MutexLock lock(&mutex_);
  return blocks_;
}

SampleSummary SampleRecorder::summary() {
  MutexLock lock(&mutex_);
  return summary_;
}

namespace {

int64_t PathOf(const SampleBlock& block, int64_t p) {
  return block.path_indices.empty() ? block.first_path + p : block.path_indices.at(p);
}

}  // namespace

std::vector<double> SampleRecorder::ByTarget(int64_t paths, int64_t query_rows) {
  std::vector<double> all(paths * query_rows, std::numeric_limits<double>::quiet_NaN());
  for (const SampleBlock& block : blocks()) {
    for (int64_t p = 0; p < block.paths; ++p) {
      for (int64_t s = 0; s < block.steps; ++s) {
        const int64_t in = p * block.steps + s;
        const int64_t row = block.query_rows.empty() ? block.first_step + s : block.query_rows[in];
        double& out = all.at(PathOf(block, p) * query_rows + row);
        EXPECT_TRUE(std::isnan(out)) << "a value came twice";
        out = block.values[in];
      }
    }
  }
  return all;
}

std::vector<double> SampleRecorder::LogDensityOfPaths(int64_t paths) {
  std::vector<double> sums(paths, 0);
  for (const SampleBlock& block : blocks()) {
    for (int64_t p = 0; p < block.paths; ++p) {
      for (int64_t s = 0; s < block.steps; ++s) {
        sums.at(PathOf(block, p)) += block.log_densities.at(p * block.steps + s);
      }
    }
  }
  return sums;
}

namespace {

Table MakeTable(int64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  Table table;
  for (const char* name : {"a", "b"}) {
    Column column;
    column.name = name;
    for (int64_t i = 0; i < rows; ++i) {
      column.numbers.push_back(static_cast<double>(random() % 2000) / 1000 - 1);
    }
    table.columns.push_back(std::move(column));
  }
  return table;
}

}  // namespace

Dataset MakeDataset(int64_t rows, uint64_t seed) {
  Dataset dataset;
  dataset.features = MakeTable(rows, seed);
  dataset.target = "y";
  std::mt19937_64 random(seed + 100);
  for (int64_t i = 0; i < rows; ++i) {
    dataset.y.push_back(static_cast<double>(random() % 6000) / 1000 + 5);
  }
  return dataset;
}

Table MakeTargets(int64_t rows, uint64_t seed) { return MakeTable(rows, seed); }

EngineFixture::EngineFixture() {
  options_.clock = &clock_;
  backend_.clock = &clock_;
  options_.max_slices_per_tick = 4;
  options_.target_tick = absl::Nanoseconds(1);  // one step of each slice: ticks can be counted
  options_.max_queue_wait = absl::Hours(24);    // tests skip ahead
  model_.name = "model";
  model_.config = SmallConfig();
  options_.max_registered_bytes = 0;  // tests count what is read
}

void EngineFixture::StartEngine() {
  auto engine = Engine::Create(options_, NewFakeBackend(backend_options_, &backend_),
                               std::make_unique<FakeStore>(&store_), {model_}, &metrics_);
  ASSERT_TRUE(engine.ok()) << engine.status();
  engine_ = *std::move(engine);
}

void EngineFixture::TearDown() {
  backend_.OpenGate();
  store_.LetReadsGo();
  if (engine_ != nullptr) {
    engine_->Drain(clock_.Now() + kPatience);
    store_.after_delete = nullptr;
    const auto listed = engine_->ListContexts(kTenant, {100}, "");
    ASSERT_TRUE(listed.ok()) << listed.status();
    for (const ContextInfo& context : listed->contexts) {
      EXPECT_TRUE(engine_->DeleteContext(kTenant, context.record.name).ok());
    }
    EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 0);
    const EngineStats stats = engine_->Stats();
    EXPECT_EQ(stats.buffer_bytes, 0);
    EXPECT_EQ(stats.resident_contexts, 0);
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(stats.queued, 0);
    EXPECT_EQ(stats.encode_bytes, 0);
    EXPECT_EQ(stats.summary_queue, 0);
    EXPECT_EVENTUALLY(engine_->Stats().backlog_values == 0);
    EXPECT_EVENTUALLY(engine_->Stats().backlog_time == absl::ZeroDuration());
    EXPECT_EVENTUALLY(engine_->Stats().tick_age == absl::ZeroDuration());
    engine_.reset();
    EXPECT_TRUE(store_.closed);
  }
  EXPECT_EQ(backend_.live_work, 0);
  EXPECT_EQ(backend_.live_models, 0);
}

void EngineFixture::Register(const std::string& name, int64_t rows, uint64_t seed) {
  const auto outcome = engine_->Register(kTenant, name, "", MakeDataset(rows, seed));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
}

void EngineFixture::MakeResident(const std::string& name) {
  Answer<ContextInfo> answer;
  engine_->Warm(call_, {name}, answer.callback());
  ASSERT_TRUE(answer.Wait().ok());
}

SampleRequest EngineFixture::SampleOf(const std::string& context, int64_t paths, int64_t query_rows,
                                      std::optional<uint64_t> seed) const {
  SampleRequest request;
  request.context = context;
  request.query_rows = MakeTargets(query_rows);
  request.paths = paths;
  request.seed = seed;
  return request;
}

LogDensityRequest EngineFixture::DensityOf(const std::string& context, int64_t vectors,
                                           int64_t query_rows) const {
  LogDensityRequest request;
  request.context = context;
  request.query_rows = MakeTargets(query_rows);
  request.vectors = vectors;
  for (int64_t i = 0; i < vectors * query_rows; ++i) {
    request.y.push_back(4 + 0.25 * static_cast<double>(i % 13));
  }
  request.seed = 11;
  return request;
}

PredictRequest EngineFixture::PredictOf(const std::string& context, int64_t query_rows) const {
  PredictRequest request;
  request.context = context;
  request.query_rows = MakeTargets(query_rows);
  return request;
}

ContextState EngineFixture::StateOf(const std::string& name) {
  const auto info = engine_->GetContext(kTenant, name);
  EXPECT_TRUE(info.ok()) << info.status();
  return info.ok() ? info->state : ContextState::kNotResident;
}

}  // namespace chorale::testing
