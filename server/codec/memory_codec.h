// Memory sets: the API's fields and the engine's.
#ifndef CHORALE_SERVER_CODEC_MEMORY_CODEC_H_
#define CHORALE_SERVER_CODEC_MEMORY_CODEC_H_

#include "absl/status/statusor.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/data/memory_set.h"

namespace chorale {

v1::MemoryPolicy EncodeMemoryPolicy(MemoryPolicy policy);

// Sets the fields of a context that has a memory set.
void EncodeMemory(const MemorySet& memory, v1::Context* context);

// InvalidArgument, with the field: a number of rows that is neither 0 nor at least
// kLeastMemoryRows, a policy that this version does not know, or a policy without a number of rows.
absl::StatusOr<MemorySet> DecodeMemory(const v1::ContextSpec& spec);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_MEMORY_CODEC_H_
