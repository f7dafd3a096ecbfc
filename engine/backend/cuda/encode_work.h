// Encodes a context.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_ENCODE_WORK_H_
#define CHORALE_ENGINE_BACKEND_CUDA_ENCODE_WORK_H_

#include <cstdint>
#include <memory>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/context_layout.h"
#include "engine/backend/cuda/launchable.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/row_encoder/row_encoder.h"
#include "engine/backend/cuda/rows_workspace.h"
#include "engine/backend/cuda/tile_set.h"
#include "engine/backend/encode_schedule.h"
#include "engine/backend/layer_schedule.h"

namespace chorale::cuda {

// Encodes a context that is not reduced, stage by stage (EncodeSchedule). The last phase of a block
// is PreAttention of layer L - 1, because nothing reads the output of a context row.
//
// Tiles begin at multiples of 64 rows of the table, so that a row has the same place in its tile,
// whichever rows were encoded before it. The first tile of a block may have rows of earlier blocks,
// whose keys stay (Tile::encode_first). x, q and the tiles of the current block are at the
// beginning of the workspace, which has room for those of all rows.
//
// Thread contract: engine thread only.
class EncodeWork : public chorale::EncodeWork, public Launchable {
 public:
  // REQUIRES: the shape of the context is not reduced.
  EncodeWork(EncodeSpec spec, Device& device);

  bool done() const override { return schedule_.done(); }
  double next_step_flops() const override { return schedule_.next_step_flops(); }
  double next_flops(int64_t steps) const override { return schedule_.next_flops(steps); }
  int64_t steps_at_this_cost() const override { return schedule_.steps_at_this_cost(); }
  ResidentContext TakeContext() override;
  void Run(int64_t max_steps, const LaunchWorkspace& launch) override;

 private:
  static std::unique_ptr<RowEncoderFit> NewFit(const DeviceModel& model, const EncodeSpec& spec,
                                               Device& device);

  void RunStep(const LaunchWorkspace& launch);
  void EndStage(Device& device);
  void CopyRowsOfPrefix(RowRange rows, Device& device);
  void EncodeRowsOfBlock(RowRange rows, const LaunchWorkspace& launch);
  void Embed(RowRange rows, const TileSet& set, const LaunchWorkspace& launch);

  // The keys to which the rows of the current block attend.
  int64_t KeysOfBlock() const { return schedule_.rows().first + schedule_.rows().rows; }

  EncodeSpec spec_;  // its features and y are emptied after layer 0 of the last block
  const DeviceModel& model_;
  const ContextShape shape_;
  const ContextLayout layout_;
  char* const memory_;                  // of the context
  std::unique_ptr<RowEncoderFit> fit_;  // until it is finished; null with a prefix
  std::shared_ptr<const RowEncoderState> encoder_state_;
  EncodeSchedule schedule_;
  const RowsWorkspaceLayout workspace_;
  TileSet set_;  // of the current block
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_ENCODE_WORK_H_
