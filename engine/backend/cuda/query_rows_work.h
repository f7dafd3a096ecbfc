// Encodes the query rows of a request.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_QUERY_ROWS_WORK_H_
#define CHORALE_ENGINE_BACKEND_CUDA_QUERY_ROWS_WORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/launchable.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/layer_schedule.h"

namespace chorale::cuda {

// The encodings of the query rows, [T, D] f32 in the buffer pool.
class EncodedQueryRows : public chorale::EncodedRows {
 public:
  EncodedQueryRows(int64_t rows, const float* encodings) : rows_(rows), encodings_(encodings) {}
  int64_t rows() const override { return rows_; }
  const float* encodings() const { return encodings_; }

 private:
  const int64_t rows_;
  const float* const encodings_;
};

const EncodedQueryRows& AsEncodedQueryRows(const chorale::EncodedRows& rows);

// Thread contract: engine thread only.
class EncodeQueryRowsWork : public chorale::RowsWork, public Launchable {
 public:
  EncodeQueryRowsWork(std::shared_ptr<const ResidentContext> context, FeatureMatrix features,
                      PoolRange buffer, Device& device);

  bool done() const override { return schedule_.done(); }
  double next_step_flops() const override { return schedule_.next_step_flops(); }
  int64_t steps_at_this_cost() const override { return schedule_.steps_at_this_cost(); }
  std::shared_ptr<const chorale::EncodedRows> TakeRows() override;
  void Run(int64_t max_steps, const LaunchWorkspace& launch) override;

 private:
  const std::shared_ptr<const ResidentContext> context_;
  const DeviceModel& model_;
  const FeatureMatrix features_;
  float* const encodings_;  // [T, D], device memory
  LayerSchedule schedule_;  // one phase
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_QUERY_ROWS_WORK_H_
