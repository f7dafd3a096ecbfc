#include "tests/client/cpp/fake_samples.h"

#include <algorithm>
#include <random>

namespace chorale::client {
namespace {

constexpr int64_t kTilePaths = 4;
constexpr int64_t kSliceSteps = 3;

// The step at which the others are drawn, when orders are random.
int64_t PlaceAt(int64_t path, int64_t step, int64_t steps) { return (step + path) % steps; }

void Round(google::protobuf::RepeatedField<double>* doubles,
           google::protobuf::RepeatedField<float>* floats) {
  for (const double number : *doubles) floats->Add(static_cast<float>(number));
  doubles->Clear();
}

// The values of some paths over a group. `first_path` is counted from that of the request.
v1::SampleBlock MakeBlock(const v1::SampleRequest& request, const FakeKnownValues& known,
                          uint64_t seed, int64_t first_path, int64_t first_step,
                          int64_t most_steps) {
  const std::vector<double> scores = Scores(request.rows());
  const auto steps = static_cast<int64_t>(known.others().size());
  const bool grouped = !request.group_sizes().empty();
  v1::SampleBlock block;
  if (!grouped) block.set_first_path(request.first_path() + first_path);
  block.set_first_step(first_step);
  block.set_path_count(std::min(kTilePaths, request.path_count() - first_path));
  block.set_step_count(std::min(most_steps, steps - first_step));
  const bool random = request.order() == v1::SampleRequest::ORDER_RANDOM_PER_PATH;
  for (int64_t p = first_path; p < first_path + block.path_count(); ++p) {
    const int64_t path = request.first_path() + p;
    if (grouped) block.add_paths(static_cast<int32_t>(path));
    for (int64_t s = first_step; s < first_step + block.step_count(); ++s) {
      const int64_t target = known.others()[random ? PlaceAt(path, s, steps) : s];
      block.add_values(SampleValue(scores[target] + known.Shift(p), path, seed));
      if (request.include_log_densities()) block.add_log_densities(SampleLogDensity(path, target));
      if (random || grouped) block.add_rows(static_cast<int32_t>(target));
    }
  }
  if (request.float32_values()) {
    Round(block.mutable_values(), block.mutable_float_values());
    Round(block.mutable_log_densities(), block.mutable_float_log_densities());
  }
  return block;
}

}  // namespace

std::vector<v1::SampleBlock> FakeBlocks(const v1::SampleRequest& request,
                                        const std::vector<FakeKnownValues>& groups, uint64_t seed,
                                        bool in_order) {
  std::vector<v1::SampleBlock> blocks;
  for (const FakeKnownValues& group : groups) {
    const auto steps = static_cast<int64_t>(group.others().size());
    const int64_t most_steps = request.whole_paths() ? steps : kSliceSteps;
    for (int64_t path = 0; path < request.path_count(); path += kTilePaths) {
      for (int64_t step = 0; step < steps; step += most_steps) {
        blocks.push_back(MakeBlock(request, group, seed, path, step, most_steps));
      }
    }
  }
  if (!in_order) std::shuffle(blocks.begin(), blocks.end(), std::minstd_rand(7));
  return blocks;
}

void DamageBlocks(StreamFault fault, std::vector<v1::SampleBlock>* blocks) {
  if (fault == StreamFault::kRepeatBlock) blocks->push_back(blocks->front());
  if (fault == StreamFault::kDropBlock) blocks->pop_back();
  if (fault == StreamFault::kTargetOutside) blocks->back().set_rows(0, 1'000'000);
}

void AddTotalWeights(const v1::SampleRequest& request, v1::SampleSummary* summary) {
  const int64_t groups = request.known_totals().lower_size();
  for (int64_t path = 0; path < request.path_count(); ++path) {
    for (int64_t group = 0; group < groups; ++group) {
      summary->add_total_log_weights(FakeLogWeight(request.first_path() + path, group));
    }
  }
  for (int64_t group = 0; group < groups; ++group) {
    summary->add_total_effective_sample_sizes(0.5 * static_cast<double>(request.path_count()));
  }
}

void ForgetDelivery(v1::SampleRequest* request) {
  request->clear_first_path();
  request->clear_whole_paths();
  request->clear_float32_values();
}

}  // namespace chorale::client
