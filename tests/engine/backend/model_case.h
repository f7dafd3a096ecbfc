// A small model, a context, query rows and values to force, ready to be run: what most backend
// tests begin with.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_MODEL_CASE_H_
#define CHORALE_TESTS_ENGINE_BACKEND_MODEL_CASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {

struct ModelCase {
  TestModelOptions options = {};
  int64_t context_rows = 21;
  int64_t query_rows = 11;
  int64_t paths = 5;
  int64_t features = 3;
  uint64_t seed = 7;
  MemorySet memory = {};
  std::vector<int64_t> append_starts = {};

  ContextShape Shape() const { return {.rows = context_rows, .memory = memory}; }
  FeatureMatrix XContext() const { return MakeFeatures(context_rows, features, seed); }
  FeatureMatrix XTarget() const { return MakeFeatures(query_rows, features, seed + 1); }
  std::vector<float> YContext() const { return MakeValues(context_rows, seed + 2); }
  // The case whose context has the first rows of this one, up to one of append_starts.
  ModelCase Prefix(int64_t rows) const;
  // The rows before the first append, to which the row encoder is fitted.
  ModelCase Base() const { return append_starts.empty() ? *this : Prefix(append_starts.front()); }
  EncodeSpec Encoding(std::shared_ptr<const BackendModel> model,
                      std::shared_ptr<const ResidentContext> prefix = nullptr) const;
  // Of all paths, [T, paths].
  std::vector<float> Values() const { return MakeValues(paths * query_rows, seed + 3); }
  // A different random order for each path, [paths, T].
  std::vector<int32_t> RandomOrders() const;
};

// A case that is encoded and resident on a backend.
class LoadedCase {
 public:
  LoadedCase(const ModelCase& model_case, BackendDriver& driver, int64_t steps_per_slice = 1);
  // Encoded by the caller.
  LoadedCase(const ModelCase& model_case, BackendDriver& driver,
             std::shared_ptr<const ResidentContext> context);

  const ModelCase& model_case() const { return case_; }
  const std::shared_ptr<const ResidentContext>& context() const { return context_; }
  const std::shared_ptr<const EncodedRows>& rows() const { return rows_; }

  // Paths [first, first + paths) of the case as one tile, with random orders if asked for.
  enum class Order { kGiven, kRandom };
  TileSpec Tile(int64_t first, int64_t paths, Order order) const;
  TileSpec Tile(Order order = Order::kGiven) const { return Tile(0, case_.paths, order); }

  // Decode of those paths, with the case's values forced, or drawn.
  std::unique_ptr<DecodeWork> DecodeForced(Order order = Order::kGiven) const;
  std::unique_ptr<DecodeWork> DecodeDrawn(int64_t first, int64_t paths, Order order) const;
  std::unique_ptr<DensityWork> Density(const std::vector<float>& values,
                                       Order order = Order::kGiven) const;
  std::unique_ptr<PredictWork> Predict(int64_t first_row, int64_t rows) const;

 private:
  const ModelCase case_;
  BackendDriver& driver_;
  std::shared_ptr<const ResidentContext> context_;
  std::shared_ptr<const EncodedRows> rows_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_MODEL_CASE_H_
