// The whole model in float64, in plain loops that follow the definition: an oracle for backends,
// independent of the kernels and of every layout.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_FORWARD_H_
#define CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_FORWARD_H_

#include <cstdint>
#include <vector>

#include "engine/data/feature_transform.h"
#include "engine/model/model.h"
#include "tests/engine/backend/reference_math.h"

namespace chorale::reference {

struct Mixture {
  Vector mean;
  Vector std;
  Vector log_weight;
};

double LogDensity(const Mixture& mixture, double y);

// Keys and values per layer: [L] of [rows][Hkv * Dh].
struct KeyValues {
  std::vector<Rows> keys;
  std::vector<Rows> values;
  std::vector<Rows> log_weights = {};  // [L] of [rows][Hkv]; empty: all 0
};

// The token of a row, from its encoding.
Vector QueryToken(const Model& model, Vector encoding);
Vector ContextToken(const Model& model, Vector encoding, double y);

// The parts of a layer for one row: x = LN1(x + P x), and from the heads' attention to the layer's
// end.
Vector MixFeatures(const Model& model, const LayerWeights& layer, const Vector& x);
Vector FinishLayer(const Model& model, const LayerWeights& layer, const Vector& x,
                   const Vector& attended);

// K and V that a context leaves in every layer. With append_starts (Dataset::append_starts), a row
// attends to the rows before the next append, and the row encoder is fitted to the rows before the
// first one.
KeyValues EncodeContext(const Model& model, const FeatureMatrix& x, const std::vector<float>& y,
                        const std::vector<int64_t>& append_starts = {});

// The mixture of every query row, given their encodings, each seeing the context alone.
std::vector<Mixture> Predict(const Model& model, const KeyValues& context, const Rows& query_rows);

// The mixture at every position of one path: position t holds query row order[t] (query row t when
// order is empty) and value values[t].
std::vector<Mixture> TeacherForce(const Model& model, const KeyValues& context,
                                  const Rows& query_rows, const std::vector<int32_t>& order,
                                  const std::vector<float>& values);

}  // namespace chorale::reference

#endif  // CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_FORWARD_H_
