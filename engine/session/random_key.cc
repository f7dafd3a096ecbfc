#include "engine/session/random_key.h"

#include "absl/strings/str_cat.h"
#include "engine/data/dataset_codec.h"

namespace chorale {

uint64_t RandomKey(uint64_t seed, const Source& source) {
  return ContentKey(absl::StrCat("chorale random key\n", seed, "\n", source.model_digest, "\n",
                                 source.context_digest, "\n"));
}

}  // namespace chorale
