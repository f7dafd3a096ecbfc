// The row encoders in float64, in plain loops that follow the definition.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_ROW_ENCODER_H_
#define CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_ROW_ENCODER_H_

#include <cstdint>
#include <vector>

#include "engine/data/feature_transform.h"
#include "engine/model/model.h"
#include "tests/engine/backend/reference_math.h"

namespace chorale::reference {

// The encodings of the rows of x, given a context; the context's own rows are encoded as any other.
Rows EncodeRows(const Model& model, const FeatureMatrix& context, const std::vector<float>& y,
                const FeatureMatrix& x);

// The encodings of a context's own rows. With append_starts (Dataset::append_starts), the encoder
// is fitted to the rows before the first one.
Rows EncodeContextRows(const Model& model, const FeatureMatrix& x, const std::vector<float>& y,
                       const std::vector<int64_t>& append_starts);

}  // namespace chorale::reference

#endif  // CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_ROW_ENCODER_H_
