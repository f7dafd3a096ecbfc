// The key of a request's random numbers.
#ifndef CHORALE_ENGINE_SESSION_RANDOM_KEY_H_
#define CHORALE_ENGINE_SESSION_RANDOM_KEY_H_

#include <cstdint>

#include "engine/api/request.h"

namespace chorale {

// What seeds the random numbers of a request with this seed (kernels/ops/step_draw.h): the first 64
// bits of a SHA-256 of seed, model and dataset. So one seed gives independent draws from two
// datasets or two models, and the same ones from the same. Never change it: values are part of the
// meaning of a seed.
uint64_t RandomKey(uint64_t seed, const Source& source);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_RANDOM_KEY_H_
