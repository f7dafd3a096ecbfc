// A request for point predictions.
#ifndef CHORALE_ENGINE_SESSION_PREDICT_SESSION_H_
#define CHORALE_ENGINE_SESSION_PREDICT_SESSION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/data/limits.h"
#include "engine/engine.h"
#include "engine/session/session.h"

namespace chorale {

// Rows go through the model in chunks; what follows for a chunk (quantiles need root searches)
// happens beside the engine thread, so that it holds nobody up. Only a few chunks at a time are
// handed over, so that the summaries of a long request take turns with those of others; meanwhile
// the chunks that are done wait in their places.
// Thread contract: see Session.
class PredictSession : public Session {
 public:
  PredictSession(CallStart start, const SessionEnvironment* environment,
                 std::shared_ptr<const PredictRequest> request,
                 Engine::Callback<PredictResult> done);

  static Preparation Prepare(std::shared_ptr<const PredictRequest> request, const Limits* limits,
                             const Backend* backend);

  TilePlan Plan() const override;
  void ReleaseResources() override;

 protected:
  void Deliver(absl::Status status, absl::Time now) override;
  void Start() override;
  void AppendTiles(std::vector<Runnable>* runnable) override;
  void CollectTiles(absl::Time now) override;

 private:
  // A place for a chunk in flight: being advanced, or done and waiting to be handed over.
  struct Chunk {
    BufferPool::Lease buffer;           // empty on a backend that needs none
    std::unique_ptr<PredictWork> work;  // null when there is no chunk left for this place
    int64_t first_row = 0;
    int64_t rows = 0;
  };

  void StartNextChunk(Chunk* chunk);
  void HandOver();
  void SummariseAside(const Chunk& chunk);
  void TakeSummary(int64_t first_row, const PredictResult& summary);

  const std::shared_ptr<const PredictRequest> request_;
  const Engine::Callback<PredictResult> done_;
  TilePlan plan_;              // chunks are its tiles, rows its paths
  std::vector<Chunk> chunks_;  // in flight
  int64_t next_chunk_ = 0;
  int64_t awaiting_summary_ = 0;  // chunks handed over
  int64_t summarised_rows_ = 0;
  PredictResult result_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_PREDICT_SESSION_H_
