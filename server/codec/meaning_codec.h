// What numbers stand for: the API's enum and the engine's.
#ifndef CHORALE_SERVER_CODEC_MEANING_CODEC_H_
#define CHORALE_SERVER_CODEC_MEANING_CODEC_H_

#include <optional>

#include "chorale/v1/chorale.pb.h"
#include "engine/data/table.h"

namespace chorale {

v1::NumericValues::Meaning EncodeMeaning(Meaning meaning);

// nullopt for a value that this version does not know.
std::optional<Meaning> DecodeMeaning(v1::NumericValues::Meaning meaning);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_MEANING_CODEC_H_
