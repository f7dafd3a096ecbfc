// Computes the key of a request's random numbers.
#ifndef CHORALE_ENGINE_SESSION_RANDOM_KEY_H_
#define CHORALE_ENGINE_SESSION_RANDOM_KEY_H_

#include <cstdint>

#include "engine/api/request.h"

namespace chorale {

// Returns the key of the random numbers (kernels/ops/step_draw.h) of a request with this seed: the
// first 64 bits of a SHA-256 of seed, model and dataset. So draws with the same seed are
// independent for different datasets or models, and equal for equal datasets and models. The
// function must never change, because it determines the values that belong to a seed.
uint64_t RandomKey(uint64_t seed, const Source& source);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_RANDOM_KEY_H_
