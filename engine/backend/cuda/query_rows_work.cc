#include "engine/backend/cuda/query_rows_work.h"

#include <utility>

#include "base/require.h"
#include "engine/backend/cuda/rows_workspace.h"

namespace chorale::cuda {

namespace {

constexpr int64_t kRowsPerStep = 1'024;

}  // namespace

const EncodedQueryRows& AsEncodedQueryRows(const chorale::EncodedRows& rows) {
  const auto* cuda_rows = dynamic_cast<const EncodedQueryRows*>(&rows);
  Require(cuda_rows != nullptr, "the rows belong to the GPU backend");
  return *cuda_rows;
}

EncodeQueryRowsWork::EncodeQueryRowsWork(std::shared_ptr<const ResidentContext> context,
                                         FeatureMatrix features, PoolRange buffer, Device& device)
    : context_(std::move(context)),
      model_(AsDeviceModel(*context_->model)),
      features_(std::move(features)),
      encodings_(reinterpret_cast<float*>(device.BufferAt(buffer))),
      schedule_({model_.row_encoder().EncodeFlops(1, features_.features)}, features_.rows,
                kRowsPerStep) {
  Require(features_.rows >= 1, "there are rows");
  Require(buffer.bytes >= RowsBytes(model_.shape(), features_.rows), "the range holds the rows");
}

std::shared_ptr<const chorale::EncodedRows> EncodeQueryRowsWork::TakeRows() {
  Require(done(), "the rows are encoded");
  return std::make_shared<EncodedQueryRows>(features_.rows, encodings_);
}

void EncodeQueryRowsWork::Run(int64_t max_steps, const LaunchWorkspace& launch) {
  const int64_t width = model_.shape().width;
  const int64_t tasks = schedule_.BeginBatch(max_steps);
  for (int64_t task = 0; task < tasks && launch.device.status().ok(); ++task) {
    const RowRange range = schedule_.RowsOf(task);
    model_.row_encoder().Encode(*context_->encoder_state, features_, range.first, range.rows,
                                encodings_ + range.first * width, launch);
  }
  schedule_.EndBatch();
}

}  // namespace chorale::cuda
